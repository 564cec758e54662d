/** Checks sysctls: those that a start writes, and those that it relies on. */
import type { Config } from '../../config/config.ts';
import { conntrackMax, conntrackUse, coresOf, isLimitGiven } from '../../host/conntrack.ts';
import { type Finding, ok, warning } from '../../host/finding.ts';
import { checkMachine, sysctlName } from '../../host/machine-checks.ts';
import { leadsInto, routesOf } from '../../host/routing.ts';
import { sysctlsOf } from '../../host/sysctls.ts';
import type { ModeFacts } from '../../modes/mode.ts';
import type { Sysctl } from '../../modes/sysctl.ts';
import { type CIDR, families } from '../../net/address.ts';
import type { Machine } from './machine.ts';

/** Checks the sysctls that a start would write in this mode. */
export function checkSettings(config: Config, mode: ModeFacts, machine: Machine): Finding[] {
  return sysctlsOf(config, mode, machine).map((sysctl) => ofSysctl(sysctl, machine));
}

function ofSysctl({ path, value, atLeast, advice }: Sysctl, machine: Machine): Finding {
  const check = sysctlName(path);
  const actual = machine.read(path);
  const desired = atLeast ? `at least ${value}` : value;
  if (actual === undefined) {
    const text = `expected ${desired}, but this kernel has no such setting`;
    return warning(check, text, `load the module that has it (${advice})`);
  }
  if (actual === value || (atLeast && Number(actual) >= Number(value))) {
    return ok(check, `is ${actual}, as expected`);
  }
  const text = `is ${actual}, expected ${desired}`;
  if (machine.isWritable(path)) return ok(check, `${text}: set at the start`);
  return warning(check, `${text}, and may not be written`, `set it on the node (${advice})`);
}

/** Checks what Fairlead relies on of this machine and others must set. */
export function checkReliances(
  { clusterCIDR, connectTime }: Pick<Config, 'clusterCIDR' | 'connectTime'>,
  machine: Machine,
): Finding[] {
  return checkMachine(machine, {
    families: hasIPv6Routes(machine) ? families : ['IPv4'],
    podDevices: clusterCIDR.length === 0 ? undefined : podDevices(machine, clusterCIDR),
    isTracked: connectTime !== 'all',
    isServing: false,
  });
}

function podDevices(machine: Machine, blocks: readonly CIDR[]): ReadonlySet<string> {
  const routes = routesOf(machine).filter((one) => leadsInto(one, blocks));
  return new Set(routes.map(({ device }) => device));
}

/** Whether there is an address of IPv6 that is neither of loopback nor link-local. */
function hasIPv6Routes(machine: Machine): boolean {
  const lines = (machine.read('/proc/net/if_inet6') ?? '').split('\n');
  // The fourth column is the scope: 10 is the host's own, 20 a link's.
  return lines.some((line) => line.trim().split(/\s+/)[3] === '00');
}

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
