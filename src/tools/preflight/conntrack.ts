/** Checks whether connection tracking has room for more connections. */
import type { Config } from '../../config/config.ts';
import { conntrackMax, conntrackUse, coresOf, isLimitGiven } from '../../host/conntrack.ts';
import { type Finding, ok, warning } from '../../host/finding.ts';
import type { Machine } from './machine.ts';

/** The size of an entry with its extensions, from /proc/slabinfo of x86-64 and arm64. */
const entryBytes = 320;
/** The use from which on the table counts as nearly full. */
const fullPercent = 75;
/** The share of memory that a full table may take without a warning. */
const memoryPercent = 10;

export function checkConntrack(
  config: Pick<Config, 'conntrack' | 'given'>,
  machine: Machine,
): Finding[] {
  const check = 'conntrack capacity';
  const present = conntrackUse(machine);
  if (present === undefined) {
    return [ok(check, 'connection tracking is not loaded yet, or has no limit')];
  }
  const desired = conntrackMax(config.conntrack, coresOf(machine)) ?? present.limit;
  const max = isLimitGiven(config) ? desired : Math.max(desired, present.limit);
  const percent = Math.round((100 * present.entries) / max);
  const use = `${present.entries} of ${max} entries in use (${percent} %)`;
  const memory = memoryOf(max, machine);
  if (percent >= fullPercent) {
    const advice = 'raise conntrack.maxPerCore or conntrack.min: connections are refused when full';
    return [warning(check, use, advice)];
  }
  if (memory !== undefined && memory.percent >= memoryPercent) {
    const text = `${use}; a full table takes ${memory.text}`;
    return [warning(check, text, 'lower conntrack.maxPerCore and conntrack.min')];
  }
  return [ok(check, memory === undefined ? use : `${use}; a full table takes ${memory.text}`)];
}

function memoryOf(max: number, machine: Machine): { text: string; percent: number } | undefined {
  const kB = /^MemTotal:\s+(\d+) kB/m.exec(machine.read('/proc/meminfo') ?? '')?.[1];
  if (kB === undefined) return undefined;
  const mib = Math.round((max * entryBytes) / 2 ** 20);
  const percent = Math.round((100 * max * entryBytes) / (Number(kB) * 1024));
  return { text: `${mib} MiB, ${percent} % of memory`, percent };
}
