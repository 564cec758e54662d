/**
 * `--cleanup`: removes the rules of every mode, ours and kube-proxy's, or with `--dry-run` says
 * which they are and how we know (behaviour document 1.6, 3.6).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Kernel } from '../kernel/kernel.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import { availableModes } from '../modes/index.ts';
import type { ProxyMode } from '../modes/mode.ts';
import type { Family } from '../state/address.ts';
import {
  findIPVSLeftovers,
  type IPVSLeftovers,
  removeIPVSLeftovers,
  serviceText,
} from '../takeover/ipvs-leftovers.ts';
import { findLeftovers, type Leftovers, UnsteadyError } from '../takeover/leftovers.ts';
import { findLegacyTables } from '../takeover/legacy-tables.ts';
import { linkName } from '../takeover/names.ts';
import { removeLeftovers } from '../takeover/removal.ts';
import { describeError } from './describe-error.ts';

export interface CleanupOptions {
  readonly kernel: Kernel;
  readonly modes: readonly ProxyMode[];
  /** Takes lines without their end. */
  readonly print: (line: string) => void;
  /** Takes lines about what could not be done, or is up to the operator. */
  readonly complain: (line: string) => void;
}

/** How often a ruleset that changes while it is read is read again. */
const attemptsMax = 10;
const attemptPauseMs = 100;

const families = [
  { family: 'IPv4', word: 'ip' },
  { family: 'IPv6', word: 'ip6' },
] as const;

export async function runCleanup(action: 'remove' | 'list'): Promise<void> {
  const kernel = openKernel();
  const options: CleanupOptions = {
    kernel,
    modes: availableModes(),
    print: (line) => process.stdout.write(`${line}\n`),
    complain: (line) => process.stderr.write(`fairlead: ${line}\n`),
  };
  try {
    await (action === 'list' ? listCleanup(options) : cleanUp(options));
  } finally {
    kernel.close();
  }
}

/** One line for each object that `cleanUp` would remove. */
export async function listCleanup(options: CleanupOptions): Promise<void> {
  const { kernel, modes, print } = options;
  for (const mode of modes) {
    for (const { object, because } of await mode.owned(kernel)) print(`${object}: ${because}`);
  }
  for (const { family, word } of families) {
    const { chains, jumps, kept, tables } = await findSteadily(kernel, family);
    for (const table of tables) {
      print(`table ${word} ${table}: only kube-proxy's nftables mode uses this name`);
    }
    for (const { table, chain, handle, target } of jumps) {
      const rule = `rule ${word} ${table} ${chain} handle ${handle}`;
      print(`${rule}: jumps to ${target} from where only kube-proxy does`);
    }
    for (const { table, chain } of chains) {
      print(`chain ${word} ${table} ${chain}: only kube-proxy's iptables or ipvs mode has it`);
    }
    for (const { table, chain, because } of kept) {
      print(`(stays: chain ${word} ${table} ${chain}: ${because})`);
    }
  }
  if (!(await isOurIPVS(options))) {
    for (const line of listIPVS(await findIPVSLeftovers(kernel, 'all'))) print(line);
  }
  await mention(options);
}

/** Goes on after a failure. Rejects in the end if there was one. */
export async function cleanUp(options: CleanupOptions): Promise<void> {
  const { complain, kernel, modes, print } = options;
  let failed = false;
  const attempt = async (remove: () => Promise<void>): Promise<void> => {
    try {
      await remove();
    } catch (error) {
      failed = true;
      complain(describeError(error));
    }
  };
  for (const mode of modes) {
    await attempt(async () => {
      const owned = await mode.owned(kernel);
      await mode.cleanup(kernel);
      for (const { object } of owned) print(`removed ${object}`);
    });
  }
  for (const { family, word } of families) {
    await attempt(async () => {
      const leftovers = await findSteadily(kernel, family);
      await removeLeftovers(kernel, leftovers);
      for (const line of summary(leftovers, word)) print(line);
    });
  }
  // Ours is gone by now, and had its own interface of that name.
  await attempt(async () => {
    const leftovers = await findIPVSLeftovers(kernel, 'all');
    await removeIPVSLeftovers(kernel, leftovers);
    for (const line of summaryOfIPVS(leftovers)) print(line);
  });
  await mention(options);
  if (failed) throw new Error('encountered an error while tearing down rules');
}

function summary({ tables, chains, jumps, kept }: Leftovers, word: string): string[] {
  const lines = tables.map((table) => `removed table ${word} ${table}`);
  if (chains.length + jumps.length > 0) {
    const counts = `${chains.length} chains and ${jumps.length} rules that jump to them`;
    lines.push(`removed ${counts} of kube-proxy's from the iptables tables of family ${word}`);
  }
  for (const { table, chain, because } of kept) {
    lines.push(`left chain ${word} ${table} ${chain}: ${because}`);
  }
  return lines;
}

/** The interface and what is at its addresses belong to our own ipvs mode. */
async function isOurIPVS({ kernel, modes }: CleanupOptions): Promise<boolean> {
  const mode = modes.find(({ name }) => name === 'ipvs');
  return mode !== undefined && (await mode.owned(kernel)).length > 0;
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

/** What is beyond netlink. */
async function mention({ kernel, complain }: CleanupOptions): Promise<void> {
  for (const table of await findLegacyTables(kernel)) complain(`not looked through: ${table}`);
}

async function findSteadily(kernel: Kernel, family: Family): Promise<Leftovers> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await findLeftovers(kernel, family, ['nftables', 'iptables'], 'all');
    } catch (error) {
      if (!(error instanceof UnsteadyError) || attempt >= attemptsMax) throw error;
      await sleep(attemptPauseMs);
    }
  }
}
