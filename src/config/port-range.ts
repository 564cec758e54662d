import { bad, good, type Parsed } from './parsed.ts';

/** Inclusive, host order. */
interface PortRange {
  readonly first: number;
  readonly last: number;
}

/**
 * Reads the port range of the older reference: `30000-32767`, `30000+100` (the first and 100 more), one
 * port. Empty and `0-0` mean that any port will do: undefined.
 */
export function parsePortRange(text: string): Parsed<PortRange | undefined> {
  const trimmed = text.trim();
  if (trimmed === '') return good(undefined);
  const match = /^(\d{1,6})(?:(-|\+)(\d{1,6}))?$/.exec(trimmed);
  if (!match) return bad('must be first-last, first+count or one port');
  const first = Number(match[1]);
  const second = Number(match[3] ?? 0);
  const last = match[2] === '-' ? second : first + second;
  if (first > last || last > 65535) return bad('must lie within 0 and 65535, lowest first');
  return good(first === 0 ? undefined : { first, last });
}
