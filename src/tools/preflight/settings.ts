/** Checks sysctls: those that a start writes, and those that it relies on. */
import type { Config } from '../../config/config.ts';
import { forwardingPaths } from '../../host/routing.ts';
import { sysctlsOf } from '../../host/sysctls.ts';
import type { ModeFacts } from '../../modes/mode.ts';
import type { Sysctl } from '../../modes/sysctl.ts';
import { type Finding, ok, warning } from './finding.ts';
import type { Machine } from './machine.ts';

/** Checks the sysctls that a start would write in this mode. */
export function checkSettings(config: Config, mode: ModeFacts, machine: Machine): Finding[] {
  return sysctlsOf(config, mode, machine).map((sysctl) => ofSysctl(sysctl, machine));
}

function ofSysctl({ path, value, atLeast, advice }: Sysctl, machine: Machine): Finding {
  const check = shortName(path);
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

interface Reliance {
  readonly path: string;
  /** Whether Fairlead relies on it on this machine. */
  readonly matters: (machine: Machine) => boolean;
  readonly wrong: string;
  readonly text: string;
  readonly advice: string;
}

const reliances: readonly Reliance[] = [
  {
    path: forwardingPaths.IPv4,
    matters: () => true,
    wrong: '0',
    text: 'is 0: packets of pods reach no endpoint of IPv4 on another node',
    advice: 'set net.ipv4.ip_forward=1, unless the network plugin does so when it starts',
  },
  {
    path: forwardingPaths.IPv6,
    matters: hasIPv6Routes,
    wrong: '0',
    text: 'is 0: packets of pods reach no endpoint of IPv6 on another node',
    advice: 'set net.ipv6.conf.all.forwarding=1 where the cluster has IPv6',
  },
  {
    path: '/proc/sys/net/bridge/bridge-nf-call-iptables',
    matters: hasBridge,
    wrong: '0',
    text: 'is 0: a pod gets no answer from an endpoint on the same bridge',
    advice: 'load br_netfilter and set net.bridge.bridge-nf-call-iptables=1',
  },
];

/** Checks the sysctls that Fairlead relies on and that others must set. */
export function checkReliances(machine: Machine): Finding[] {
  return reliances.flatMap(({ path, matters, wrong, text, advice }) => {
    if (!matters(machine)) return [];
    const actual = machine.read(path);
    const check = shortName(path);
    if (actual === undefined) return [warning(check, 'is not there', advice)];
    return [actual === wrong ? warning(check, text, advice) : ok(check, `is ${actual}`)];
  });
}

function hasBridge(machine: Machine): boolean {
  const net = '/sys/class/net';
  return machine.list(net).some((link) => machine.list(`${net}/${link}/bridge`).length > 0);
}

/** Whether there is an address of IPv6 that is neither of loopback nor link-local. */
function hasIPv6Routes(machine: Machine): boolean {
  const lines = (machine.read('/proc/net/if_inet6') ?? '').split('\n');
  // The fourth column is the scope: 10 is the host's own, 20 a link's.
  return lines.some((line) => line.trim().split(/\s+/)[3] === '00');
}

/** `net.ipv4.ip_forward` of `/proc/sys/net/ipv4/ip_forward`. */
function shortName(path: string): string {
  return path.startsWith('/proc/sys/')
    ? path.slice('/proc/sys/'.length).replaceAll('/', '.')
    : path;
}
