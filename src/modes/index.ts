/** Which modes there are, and which one runs. A new mode is a folder here and a line below. */
import { isKernelError, isNoAnswer } from '../kernel/errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { MissingFeature } from '../kernel/nft/probe.ts';
import { iptablesMode, likeIptables, missingForFilter } from './iptables/mode.ts';
import { describer as iptables } from './iptables/packet-path.ts';
import { ipvsMode } from './ipvs/mode.ts';
import { describer as ipvs } from './ipvs/packet-path.ts';
import { defaultIPVSSettings, type IPVSSettings, type ModeName } from './mode.ts';
import { modeNames, modeTable } from './mode-table.ts';
import { tableOf } from './nftables/layout.ts';
import { nftablesMode, nftablesModeIn } from './nftables/mode.ts';
import { describer as nftables } from './nftables/packet-path.ts';
import type { PathDescriber } from './packet-path.ts';
import type { ProxyMode } from './proxy-mode.ts';
import type { Descriptors } from './sockets/descriptors.ts';
import { userspaceMode } from './userspace/mode.ts';
import { describer as userspace } from './userspace/packet-path.ts';

export type ModeRegistry = ReadonlyMap<ModeName, ProxyMode>;

const makers: Readonly<Record<ModeName, (descriptors?: Descriptors) => ProxyMode>> = {
  nftables: () => nftablesMode,
  ipvs: () => ipvsMode,
  iptables: iptablesMode,
  userspace: userspaceMode,
};

/**
 * Every mode of this build, best first. Each call makes new instances with their own sockets. A
 * proxy with a name has mode nftables alone, in a separate table.
 */
export function builtModes(descriptors?: Descriptors, proxyName = ''): ModeRegistry {
  if (proxyName !== '') return new Map([['nftables', nftablesModeIn(tableOf(proxyName))]]);
  return new Map(modeNames.map((name) => [name, makers[name](descriptors)]));
}

export function availableModes(proxyName?: string): ProxyMode[] {
  return [...builtModes(undefined, proxyName).values()];
}

/** The modes to try for a requested mode, in order; '' = none was requested. */
function modesToTry(requested: ModeName | ''): readonly ModeName[] {
  const names: ModeName[] = [];
  for (let name = requested || modeNames[0]; name !== undefined; ) {
    names.push(name);
    name = modeTable[name].fallback;
  }
  return names;
}

/** One step from a mode that cannot run here to the next one. */
export interface Fallback {
  readonly from: ModeName;
  readonly to: ModeName;
  /** What the kernel, or this version, lacks. */
  readonly reason: string;
}

export interface ModeChoice {
  readonly mode: ProxyMode;
  /** The modes that were passed over; empty = the first one can run. */
  readonly fallbacks: readonly Fallback[];
  /** Why an empty mode means mode nftables also to packets; absent: it does not. */
  readonly notAsIptables?: string;
}

/** No mode can do what was asked for; the message says why and what to do. */
export class ModeError extends Error {
  override readonly name = 'ModeError';
}

/**
 * The mode to run: the first in order that the kernel can do. Throws ModeError when there is none,
 * and what `probe` throws: without the permission to ask, no other mode is tried.
 */
export async function selectMode(
  requested: ModeName | '',
  kernel: Kernel,
  registry: ModeRegistry = builtModes(),
  ipvs: IPVSSettings = defaultIPVSSettings,
): Promise<ModeChoice> {
  const tried: { readonly name: ModeName; readonly reason: string }[] = [];
  for (const name of modesToTry(requested)) {
    const mode = registry.get(name);
    const reason =
      mode === undefined
        ? 'is not in this version'
        : lackOf(await answerOf(() => mode.probe(kernel, ipvs)));
    if (mode !== undefined && reason === undefined) {
      const next = [...tried.map((one) => one.name), name].slice(1);
      const fallbacks = tried.map(({ name: from, reason }, i) => ({ from, to: next[i]!, reason }));
      if (requested !== '' || name !== 'nftables') return { mode, fallbacks };
      const notAsIptables = lackOf(await answerOf(() => missingForFilter(kernel)));
      if (notAsIptables !== undefined) return { mode, fallbacks, notAsIptables };
      return { mode: likeIptables(mode), fallbacks };
    }
    tried.push({ name, reason: reason! });
  }
  const reasons = tried.map(({ name, reason }) => `${name} ${reason}`).join('; ');
  const known = [...registry.keys()].join(', ');
  throw new ModeError(`no proxy mode can run: ${reasons} (--proxy-mode; there are: ${known})`);
}

/** How often a kernel is asked that is short of memory. */
const asksMax = 3;

/**
 * What the kernel lacks. Throws what `probe` throws. A kernel that is short of memory is asked
 * again. If it still does not answer, it is taken for one that lacks nothing: what it refuses later
 * is retried anyway.
 */
async function answerOf(
  probe: () => Promise<readonly MissingFeature[]>,
): Promise<readonly MissingFeature[]> {
  for (let asks = 1; asks <= asksMax; asks += 1) {
    try {
      return await probe();
    } catch (error) {
      if (!(isKernelError(error) && isNoAnswer(error.code))) throw error;
    }
  }
  return [];
}

/** Undefined = nothing. */
function lackOf(missing: readonly MissingFeature[]): string | undefined {
  if (missing.length === 0) return undefined;
  const features = missing.map(({ feature, advice }) => `${feature}: ${advice}`);
  return `needs what this kernel lacks: ${features.join('; ')}`;
}

export const pathDescribers: Readonly<Record<ModeName, PathDescriber>> = {
  nftables,
  ipvs,
  iptables,
  userspace,
};
