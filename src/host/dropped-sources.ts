/** Packets that rp_filter has dropped in this network namespace. */
import type { ReadableFiles } from './files.ts';

/** IPReversePathFilter: a line of names, and one of their values. Undefined: it is not counted. */
export function droppedSources(host: ReadableFiles): number | undefined {
  const [names, values] = (host.read('/proc/net/netstat') ?? '')
    .split('\n')
    .filter((line) => line.startsWith('TcpExt:'))
    .map((line) => line.split(' '));
  const value = values?.[names!.indexOf('IPReversePathFilter')];
  return value === undefined ? undefined : Number(value);
}
