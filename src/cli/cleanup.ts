/**
 * `--cleanup`: removes the rules of every mode, Fairlead's and kube-proxy's. With `--dry-run` it
 * lists them with the reason why they are recognised (behaviour document 1.6, 3.6).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { connectTimeHere } from '../connect-time/cgroup.ts';
import { endUnused } from '../connect-time/maps/attached.ts';
import type { ConnectTimePaths } from '../connect-time/maps/choice.ts';
import { hostFiles } from '../host/files.ts';
import { deleteCounters, readCounters } from '../kernel/acct.ts';
import { isAbsence, isKernelError, orNone } from '../kernel/errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import { availableModes } from '../modes/index.ts';
import type { ProxyMode } from '../modes/mode.ts';
import { printable } from '../serve/printable.ts';
import {
  findIPVSLeftovers,
  type IPVSLeftovers,
  isOurIPVS,
  removeIPVSLeftovers,
  serviceText,
} from '../takeover/ipvs-leftovers.ts';
import {
  findLeftovers,
  findLegacyLeftovers,
  kinds,
  type Leftovers,
} from '../takeover/leftovers.ts';
import { linkName, ownChain } from '../takeover/names.ts';
import { removeLeftovers } from '../takeover/removal.ts';
import { endingLines, failureOf, listConnectTime, nothing } from './connect-time.ts';
import { describeError } from './errors.ts';
import { featureObjects } from './feature-objects.ts';
import { holdNamespaceForCleanup } from './instance.ts';
import { terminal } from './terminal.ts';

export interface CleanupOptions {
  readonly kernel: Kernel;
  readonly modes: readonly ProxyMode[];
  /** Where connect-time translation may be installed; absent: nowhere. */
  readonly connectTime?: ConnectTimePaths | undefined;
  /** Prints lines, given without newline. */
  readonly print: (line: string) => void;
  /** Prints lines about failures. */
  readonly complain: (line: string) => void;
}

/** How often to try if a ruleset changes while it is read, or is locked. */
const attemptsMax = 10;
const attemptPauseMs = 100;

/** Where kube-proxy's rules may be; `word` begins a line about a chain there. */
const variants = [
  { backend: 'nf_tables', family: 'IPv4', word: 'ip' },
  { backend: 'nf_tables', family: 'IPv6', word: 'ip6' },
  { backend: 'legacy', family: 'IPv4', word: 'iptables-legacy' },
  { backend: 'legacy', family: 'IPv6', word: 'ip6tables-legacy' },
] as const;
type Variant = (typeof variants)[number];

/** Rejects while another Fairlead runs in this network namespace, unless `ignoreOther`. */
export async function runCleanup(action: 'remove' | 'list', ignoreOther: boolean): Promise<void> {
  if (action === 'remove') await holdNamespaceForCleanup(ignoreOther);
  const kernel = openKernel();
  const options: CleanupOptions = {
    kernel,
    modes: availableModes(),
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
  const { connectTime, kernel, modes } = options;
  let count = 0;
  const print = (line: string): void => {
    count += 1;
    options.print(line);
  };
  const programs = connectTime && (await listConnectTime(kernel, connectTime));
  for (const line of programs?.lines ?? []) print(line);
  for (const { feature, isThere, object } of featureObjects) {
    if (await isThere(kernel)) print(`${object}: our ${feature} made it`);
  }
  for (const mode of modes) {
    for (const { object, because } of await orNone(mode.owned(kernel))) {
      print(`${object}: ${because}`);
    }
  }
  for (const variant of variants) {
    const lines = steadily(() => find(kernel, variant)).then((found) =>
      list(withoutOurs(found, modes), variant),
    );
    for (const line of await orNone(lines)) print(line);
  }
  for (const { name } of await orNone(readCounters(kernel))) {
    print(`counter ${name}: only kube-proxy's iptables mode, and ours, uses this name`);
  }
  if (!(await isOurIPVS(kernel, modes))) {
    const lines = findIPVSLeftovers(kernel, 'all').then(listIPVS);
    for (const line of await orNone(lines)) print(line);
  }
  if (programs?.failure !== undefined) throw new Error(programs.failure);
  if (count === 0) print(nothing);
}

/** Continues after a failure. Rejects at the end if there was one. */
export async function cleanUp(options: CleanupOptions): Promise<void> {
  const { complain, connectTime, kernel, modes, print } = options;
  const complaints = new Set<string>();
  const attempt = async (remove: () => Promise<void>): Promise<void> => {
    try {
      await remove();
    } catch (error) {
      if (isAbsence(error)) return;
      // Without CAP_NET_ADMIN each step fails in the same way.
      const complaint = describeError(error);
      if (!complaints.has(complaint)) complain(complaint);
      complaints.add(complaint);
    }
  };
  if (connectTime !== undefined) {
    await attempt(async () => {
      const ending = await endUnused(kernel, connectTime, false);
      for (const line of endingLines(ending, connectTime)) print(line);
      const failure = failureOf(ending);
      if (failure !== undefined) throw new Error(failure);
    });
  }
  for (const { object, remove } of featureObjects) {
    await attempt(async () => {
      if (await remove(kernel)) print(`removed ${object}`);
    });
  }
  for (const mode of modes) {
    await attempt(async () => {
      const owned = await mode.owned(kernel);
      await mode.cleanup(kernel);
      for (const { object } of owned) print(`removed ${object}`);
    });
  }
  for (const variant of variants) {
    await attempt(async () => {
      const leftovers = await steadily(async () => {
        const found = await find(kernel, variant);
        await removeLeftovers(kernel, found);
        return found;
      });
      for (const line of summary(leftovers, variant)) print(line);
    });
  }
  await attempt(() => removeCounters(options));
  // Ours has been removed by now, and had its own interface of that name.
  await attempt(async () => {
    const leftovers = await findIPVSLeftovers(kernel, 'all');
    await removeIPVSLeftovers(kernel, leftovers);
    for (const line of summaryOfIPVS(leftovers)) print(line);
  });
  if (complaints.size > 0) throw new Error('encountered an error while tearing down rules');
}

function find(kernel: Kernel, { backend, family }: Variant): Promise<Leftovers> {
  if (backend === 'legacy') return findLegacyLeftovers(kernel, family, 'all');
  return findLeftovers(kernel, family, kinds, 'all');
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

/** Removes counters. The kernel releases them some time after the rules are deleted. */
async function removeCounters({ kernel, print }: CleanupOptions): Promise<void> {
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
