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
  type IPVSLeftovers,
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
  return {
    list: async (print) => {
      const found = await steadily(() => findIn(kernel, variant, 'all'));
      for (const line of list(withoutOurs(found, modes), variant)) print(line);
    },
    remove: async (print) => {
      const leftovers = await steadily(async () => {
        const found = await findIn(kernel, variant, 'all');
        await removeLeftovers(kernel, found);
        return found;
      });
      for (const line of summary(leftovers, variant)) print(line);
    },
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

function list({ chains, jumps, kept, tables }: Leftovers, { backend, word }: Variant): string[] {
  return [
    ...tables.map(
      (table) => `table ${word} ${table}: only kube-proxy's nftables mode uses this name`,
    ),
    ...jumps.map(({ table, chain, handle, target }) => {
      const which = backend === 'legacy' ? '' : ` handle ${handle}`;
      return `rule ${word} ${table} ${chain}${which}: jumps to ${target} from where only kube-proxy does`;
    }),
    ...chains.map(({ table, chain }) => {
      return `chain ${word} ${table} ${chain}: only kube-proxy's iptables or ipvs mode has it`;
    }),
    ...kept.map(
      ({ table, chain, because }) => `(stays: chain ${word} ${table} ${chain}: ${because})`,
    ),
  ];
}

function summary({ tables, chains, jumps, kept }: Leftovers, { backend, word }: Variant): string[] {
  const lines = tables.map((table) => `removed table ${word} ${table}`);
  if (chains.length + jumps.length > 0) {
    const counts = `${chains.length} chains and ${jumps.length} rules that jump to them`;
    const from = backend === 'legacy' ? word : `the iptables tables of family ${word}`;
    lines.push(`removed ${counts} of kube-proxy's from ${from}`);
  }
  for (const { table, chain, because } of kept) {
    lines.push(`left chain ${word} ${table} ${chain}: ${because}`);
  }
  return lines;
}

function ofCounters(kernel: Kernel): Removal {
  return {
    list: async (print) => {
      for (const { name } of await readCounters(kernel)) {
        print(`counter ${name}: only kube-proxy's iptables mode, and ours, uses this name`);
      }
    },
    remove: (print) => removeCounters(kernel, print),
  };
}

/** Removes counters. The kernel releases them some time after the rules are deleted. */
async function removeCounters(kernel: Kernel, print: Print): Promise<void> {
  for (let count = 1; ; count += 1) {
    const all = await readCounters(kernel);
    const busy = all.filter(({ references }) => references > 0).map(({ name }) => name);
    const idle = all.map(({ name }) => name).filter((name) => !busy.includes(name));
    await deleteCounters(kernel, idle);
    for (const name of idle) print(`removed counter ${name}`);
    if (busy.length === 0) return;
    if (count >= attemptsMax) {
      for (const name of busy) print(`left counter ${name}: rules count in it`);
      return;
    }
    await sleep(attemptPauseMs);
  }
}

function ofIPVS(kernel: Kernel, modes: readonly ProxyMode[]): Removal {
  return {
    list: async (print) => {
      if (await isOurIPVS(kernel, modes)) return;
      for (const line of listIPVS(await findIPVSLeftovers(kernel, 'all'))) print(line);
    },
    // Ours has been removed by now, and had its own interface of that name.
    remove: async (print) => {
      const leftovers = await findIPVSLeftovers(kernel, 'all');
      await removeIPVSLeftovers(kernel, leftovers);
      for (const line of summaryOfIPVS(leftovers)) print(line);
    },
  };
}

function listIPVS({ services, sets, keptSets, ...found }: IPVSLeftovers): string[] {
  const because = `at an address of ${linkName}, or a node port of kube-proxy's sets`;
  return [
    ...services.map((service) => `virtual service ${serviceText(service)}: ${because}`),
    ...sets.map((set) => `ipset ${set}: only kube-proxy's ipvs mode uses this name`),
    ...keptSets.map((set) => `(stays, while rules refer to it: ipset ${set})`),
    ...(found.interface ? [`interface ${linkName}: only kube-proxy's ipvs mode has it`] : []),
  ];
}

function summaryOfIPVS({ services, sets, keptSets, ...found }: IPVSLeftovers): string[] {
  const lines = keptSets.map((set) => `left ipset ${set}: rules refer to it`);
  if (services.length + sets.length > 0) {
    lines.push(
      `removed ${services.length} virtual services and ${sets.length} sets of kube-proxy's`,
    );
  }
  return found.interface ? [...lines, `removed interface ${linkName}`] : lines;
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
