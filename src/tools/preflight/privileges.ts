/** Checks the privileges of this process. Run it in a pod with the rights of Fairlead's pods. */
import { type Finding, ok, problem, warning } from '../../host/finding.ts';
import type { Machine } from './machine.ts';

/** Bits of `CapEff` (linux/capability.h). */
const CAP_NET_ADMIN = 12n;

export function checkPrivileges(machine: Machine): Finding[] {
  return [checkCapability(machine), checkProcSys(machine), ...checkLock(machine)];
}

function checkCapability(machine: Machine): Finding {
  const check = 'CAP_NET_ADMIN';
  const mask = /^CapEff:\s*([0-9a-f]+)/m.exec(machine.read('/proc/self/status') ?? '')?.[1] ?? '0';
  if ((BigInt(`0x${mask}`) >> CAP_NET_ADMIN) & 1n) return ok(check, 'this process has it');
  return problem(check, 'this process lacks it', 'run as root, or add the capability');
}

function checkProcSys(machine: Machine): Finding {
  const check = '/proc/sys';
  if (machine.isWritable('/proc/sys/net/ipv4/ip_forward')) return ok(check, 'can be written');
  const advice =
    'run an init container with --init-only, as the hardened profile has it, or set the sysctls yourself';
  return warning(check, 'is read-only for this process', advice);
}

const lockPath = '/run/xtables.lock';

/** Programs of iptables-legacy and kube-proxy lock this file. A container needs the node's. */
function checkLock(machine: Machine): Finding[] {
  const inode = machine.inode(lockPath);
  if (inode === undefined) {
    return [ok(lockPath, 'is not there: no program of iptables-legacy has run since the boot')];
  }
  const locks = (machine.read('/proc/locks') ?? '').split('\n').map((line) => line.split(/\s+/));
  const held = locks.find((columns) => columns[5]?.endsWith(`:${inode}`));
  if (held === undefined) return [ok(lockPath, 'no process holds it')];
  const advice = 'Fairlead cleans up iptables-legacy when that process releases the lock';
  return [warning(lockPath, `process ${held[4]} holds it`, advice)];
}
