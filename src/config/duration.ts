/**
 * Durations as whole nanoseconds in a bigint: Go's text form, which kube-proxy's flags and file
 * use, and ISO 8601's, which the OVHcloud API uses. Nothing is rounded or clamped on the way in.
 */
import { bad, good, type Parsed, quote } from './go-values.ts';

const nsPerMs = 1_000_000n;
const nsPerSecond = 1_000_000_000n;
const nsPerMinute = 60n * nsPerSecond;
const nsPerHour = 60n * nsPerMinute;
const nsPerDay = 24n * nsPerHour;
/** int64, which is what Go keeps a duration in. */
const nsMax = 2n ** 63n - 1n;

/** Characters; keeps a megabyte of digits from being computed with. */
const longest = 100;

const goUnits: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  // The two code points that print as a micro sign.
  '\u00b5s': 1_000n,
  '\u03bcs': 1_000n,
  ms: nsPerMs,
  s: nsPerSecond,
  m: nsPerMinute,
  h: nsPerHour,
};

/** Milliseconds as a number; a part of a millisecond stays as a fraction. */
export function toMs(ns: bigint): number {
  return Number(ns / nsPerMs) + Number(ns % nsPerMs) / 1e6;
}

/** Reads `1h30m`, `-250ms`, `0`; the error texts are Go's time.ParseDuration's. */
export function parseDuration(text: string): Parsed<bigint> {
  const invalid = bad(`time: invalid duration ${quote(text)}`);
  const unsigned = text.replace(/^[+-]/, '');
  if (unsigned === '0') return good(0n);
  if (unsigned === '' || text.length > longest) return invalid;
  const part = /(\d*)(?:\.(\d*))?([^.\d]*)/y;
  let ns = 0n;
  while (part.lastIndex < unsigned.length) {
    const [, whole = '', fraction = '', unitName = ''] = part.exec(unsigned) ?? [];
    if (whole === '' && fraction === '') return invalid;
    if (unitName === '') return bad(`time: missing unit in duration ${quote(text)}`);
    const unit = Object.hasOwn(goUnits, unitName) ? goUnits[unitName] : undefined;
    if (unit === undefined) {
      return bad(`time: unknown unit ${quote(unitName)} in duration ${quote(text)}`);
    }
    ns += scaled(whole, fraction, unit);
    if (ns > nsMax) return invalid;
  }
  return good(text.startsWith('-') ? -ns : ns);
}

/** `whole.fraction` times `unit`, cut off below a nanosecond. */
function scaled(whole: string, fraction: string, unit: bigint): bigint {
  return (BigInt(`${whole}${fraction}` || '0') * unit) / 10n ** BigInt(fraction.length);
}

/** Go's form: `15m0s`, `24h0m0s`, `250ms`, `1.5s`, `0s`. */
export function formatDuration(ns: bigint): string {
  if (ns === 0n) return '0s';
  if (ns < 0n) return `-${formatDuration(-ns)}`;
  if (ns < 1_000n) return `${ns}ns`;
  if (ns < nsPerMs) return `${decimal(ns, 3)}\u00b5s`;
  if (ns < nsPerSecond) return `${decimal(ns, 6)}ms`;
  const seconds = `${decimal(ns % nsPerMinute, 9)}s`;
  if (ns < nsPerMinute) return seconds;
  const minutes = `${(ns / nsPerMinute) % 60n}m${seconds}`;
  return ns < nsPerHour ? minutes : `${ns / nsPerHour}h${minutes}`;
}

/** `value / 10^places` without trailing zeros. */
function decimal(value: bigint, places: number): string {
  const scale = 10n ** BigInt(places);
  const fraction = (value % scale).toString().padStart(places, '0').replace(/0+$/, '');
  return fraction === '' ? `${value / scale}` : `${value / scale}.${fraction}`;
}

/** An optional number before a unit's letter. */
const isoPart = (letter: string): string => `(?:([\\d.,]+)${letter})?`;
const isoDate = ['Y', 'M', 'W', 'D'].map(isoPart).join('');
const isoTime = ['H', 'M', 'S'].map(isoPart).join('');
const isoForm = new RegExp(`^([+-]?)P${isoDate}(T${isoTime})?$`);

/** Reads `PT30S`, `PT1M30S`, `P1DT2H`, `PT0.5S`; years and months have no fixed length. */
export function parseIsoDuration(text: string): Parsed<bigint> {
  const example = 'expected an ISO 8601 duration such as PT30S or PT1M30S';
  const match = text.length > longest ? null : isoForm.exec(text);
  if (!match) return bad(`${quote(text)} is not a duration: ${example}`);
  const [, sign, years, months, weeks, days, time, hours, minutes, seconds] = match;
  if (years !== undefined || months !== undefined) {
    return bad(`${quote(text)}: years and months have no fixed length; use days, hours or less`);
  }
  const parts = [
    [weeks, 7n * nsPerDay],
    [days, nsPerDay],
    [hours, nsPerHour],
    [minutes, nsPerMinute],
    [seconds, nsPerSecond],
  ] as const;
  const given = parts.flatMap(([digits, unit]) => (digits === undefined ? [] : [{ digits, unit }]));
  if (given.length === 0 || time === 'T') return bad(`${quote(text)} is incomplete: ${example}`);
  let ns = 0n;
  for (const { digits, unit } of given) {
    const number = /^(\d+)(?:[.,](\d+))?$/.exec(digits);
    if (!number) return bad(`${quote(text)}: ${quote(digits)} is not a number`);
    ns += scaled(number[1]!, number[2] ?? '', unit);
  }
  if (ns > nsMax) return bad(`${quote(text)} is longer than 292 years`);
  return good(sign === '-' ? -ns : ns);
}
