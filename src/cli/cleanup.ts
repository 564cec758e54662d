/**
 * `--cleanup`: removes the rules of every mode, Fairlead's and kube-proxy's. With `--dry-run` it
 * lists them with the reason why they are recognised (behaviour document 1.6, 3.6).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import { connectTimeHere } from '../connect-time/cgroup.ts';
import type { ConnectTimePaths } from '../connect-time/maps/choice.ts';
import { hostFiles } from '../host/files.ts';
import { lockNameOf } from '../host/instance-lock.ts';
import { deleteCounters, readCounters } from '../kernel/acct.ts';
import { isKernelError } from '../kernel/errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import { availableModes } from '../modes/index.ts';
import type { ProxyMode } from '../modes/proxy-mode.ts';
import { printable } from '../serve/printable.ts';
import {
  findIPVSLeftovers,
  isOurIPVS,
  removeIPVSLeftovers,
  serviceText,
} from '../takeover/ipvs-leftovers.ts';
import { findIn, type Leftovers, type Variant, variants } from '../takeover/leftovers.ts';
import { linkName, ownChain } from '../takeover/names.ts';
import { removeLeftovers } from '../takeover/removal.ts';
import { ofPrograms } from './connect-time.ts';
import { describeError } from './errors.ts';
import { holdNamespaceForCleanup } from './instance.ts';
import {
  attemptAll,
  type Left,
  listOrRemove,
  ofFeatures,
  ofMode,
  type Print,
  type Removal,
} from './removal.ts';
import { terminal } from './terminal.ts';

export interface CleanupOptions {
  readonly kernel: Kernel;
  readonly modes: readonly ProxyMode[];
  /** Only what these modes have made is removed: another proxy has the rest. */
  readonly isSecond?: boolean;
  /** Where connect-time translation may be installed; absent: nowhere. */
  readonly connectTime?: ConnectTimePaths | undefined;
  readonly print: Print;
  /** Prints lines about failures. */
  readonly complain: Print;
}

/** How often to try if a ruleset changes while it is read, or is locked. */
const attemptsMax = 10;
const attemptPauseMs = 100;

/** Rejects while another Fairlead runs in this network namespace, unless `ignoreOther`. */
export async function runCleanup(
  action: 'remove' | 'list',
  { ignoreOtherInstance, serviceProxyName }: Config,
): Promise<void> {
  const lock = lockNameOf(serviceProxyName);
  if (action === 'remove') await holdNamespaceForCleanup(ignoreOtherInstance, lock);
  const kernel = openKernel();
  const options: CleanupOptions = {
    kernel,
    modes: availableModes(serviceProxyName),
    isSecond: serviceProxyName !== '',
    connectTime: connectTimeHere(hostFiles()),
    print: (line) => terminal.stdout.write(`${printable(line)}\n`),
    complain: (line) => terminal.stderr.write(`fairlead: ${line}\n`),
  };
  try {
    await (action === 'list' ? listCleanup(options) : cleanUp(options));
  } finally {
    kernel.close();
  }
}

/** One line for each object that `cleanUp` would remove. Rejects when that may not be all. */
export async function listCleanup(options: CleanupOptions): Promise<void> {
  await listOrRemove(removals(options), 'list', options.print);
}

/** Continues after a failure. Rejects at the end if there was one. */
export async function cleanUp(options: CleanupOptions): Promise<void> {
  const failures = await attemptAll(removals(options), 'remove', options.print);
  // Without CAP_NET_ADMIN each step fails in the same way.
  for (const text of new Set(failures.map(describeError))) options.complain(text);
  if (failures.length > 0) throw new Error('encountered an error while tearing down rules');
}

function removals({ connectTime, isSecond, kernel, modes }: CleanupOptions): Removal[] {
  if (isSecond) return modes.map((mode) => ofMode(kernel, mode));
  return [
    ...(connectTime === undefined ? [] : [ofPrograms(kernel, connectTime)]),
    ...ofFeatures(kernel),
    ...modes.map((mode) => ofMode(kernel, mode)),
    ...variants.map((variant) => ofVariant(kernel, modes, variant)),
    ofCounters(kernel),
    ofIPVS(kernel, modes),
  ];
}

function ofVariant(kernel: Kernel, modes: readonly ProxyMode[], variant: Variant): Removal {
  return async (how, report) => {
    const found = await steadily(async () => {
      const all = await findIn(kernel, variant, 'all');
      if (how === 'remove') await removeLeftovers(kernel, all);
      return all;
    });
    leftIn(withoutOurs(found, modes), variant).forEach(report);
  };
}

/**
 * Leaves out our own chains with kube-proxy's names, because the line of their mode covers them.
 */
function withoutOurs(found: Leftovers, modes: readonly ProxyMode[]): Leftovers {
  const isMarked = [...found.chains, ...found.kept].some(({ chain }) => chain === ownChain);
  if (!isMarked) return found;
  const isOurs = (table: string, chain: string) =>
    modes.some((mode) => mode.ownsChain?.(table, chain));
  return {
    ...found,
    chains: found.chains.filter(({ table, chain }) => !isOurs(table, chain)),
    jumps: found.jumps.filter(({ table, target }) => !isOurs(table, target)),
  };
}

function leftIn({ chains, jumps, kept, tables }: Leftovers, { backend, word }: Variant): Left[] {
  return [
    ...tables.map((table) => {
      const because = "only kube-proxy's nftables mode uses this name";
      return { object: `table ${word} ${table}`, because };
    }),
    ...jumps.map(({ table, chain, handle, target }) => {
      const which = backend === 'legacy' ? '' : ` handle ${handle}`;
      const because = `jumps to ${target} from where only kube-proxy does`;
      return { object: `rule ${word} ${table} ${chain}${which}`, because };
    }),
    ...chains.map(({ table, chain }) => {
      const because = "only kube-proxy's iptables or ipvs mode has it";
      return { object: `chain ${word} ${table} ${chain}`, because };
    }),
    ...kept.map(({ table, chain, because }) => {
      return { object: `chain ${word} ${table} ${chain}`, because, stays: true };
    }),
  ];
}

function ofCounters(kernel: Kernel): Removal {
  return async (how, report) => {
    const because = "only kube-proxy's iptables mode, and ours, uses this name";
    const object = ({ name }: { readonly name: string }): string => `counter ${name}`;
    if (how === 'list') {
      for (const one of await readCounters(kernel)) report({ object: object(one), because });
      return;
    }
    // The kernel releases them some time after the rules are deleted.
    for (let count = 1; ; count += 1) {
      const all = await readCounters(kernel);
      const busy = all.filter(({ references }) => references > 0);
      const idle = all.filter((one) => !busy.includes(one));
      await deleteCounters(
        kernel,
        idle.map(({ name }) => name),
      );
      for (const one of idle) report({ object: object(one), because });
      if (busy.length === 0) return;
      if (count < attemptsMax) await sleep(attemptPauseMs);
      else {
        const left = { because: 'rules count in it', stays: true };
        for (const one of busy) report({ object: object(one), ...left });
        return;
      }
    }
  };
}

function ofIPVS(kernel: Kernel, modes: readonly ProxyMode[]): Removal {
  return async (how, report) => {
    // When it is removed, ours has gone by now, and had its own interface of that name.
    if (how === 'list' && (await isOurIPVS(kernel, modes))) return;
    const found = await findIPVSLeftovers(kernel, 'all');
    if (how === 'remove') await removeIPVSLeftovers(kernel, found);
    const where = `at an address of ${linkName}, or a node port of kube-proxy's sets`;
    const name = "only kube-proxy's ipvs mode uses this name";
    for (const service of found.services) {
      report({ object: `virtual service ${serviceText(service)}`, because: where });
    }
    for (const set of found.sets) report({ object: `ipset ${set}`, because: name });
    for (const set of found.keptSets) {
      report({ object: `ipset ${set}`, because: 'rules refer to it', stays: true });
    }
    if (found.interface) report({ object: `interface ${linkName}`, because: name });
  };
}

async function steadily<T>(attempt: () => Promise<T>): Promise<T> {
  for (let count = 1; ; count += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!isPassing(error) || count >= attemptsMax) throw error;
      await sleep(attemptPauseMs);
    }
  }
}

/**
 * EAGAIN: another program holds the lock of iptables-legacy, or has changed a table of it. EINTR:
 * it has changed the ruleset while that was read.
 */
function isPassing(error: unknown): boolean {
  return isKernelError(error, 'EAGAIN') || isKernelError(error, 'EINTR');
}
