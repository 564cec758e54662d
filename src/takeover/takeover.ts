/**
 * Takes over from kube-proxy and from our other modes, make before break: when our own rules are in
 * force and verified, it removes what is provably kube-proxy's or another mode's. Established
 * connections continue, because connection tracking does not depend on rules.
 */
import { deleteCounters, readCounters } from '../kernel/acct.ts';
import { isAbsence } from '../kernel/errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { NFPROTO } from '../kernel/nft/constants.ts';
import { familyWord } from '../kernel/nft/words.ts';
import type { ModeFacts, ModeName, OwnedObject } from '../modes/mode.ts';
import type { ProxyMode } from '../modes/proxy-mode.ts';
import { type Family, families } from '../net/address.ts';
import { Backoff } from '../time/backoff.ts';
import { type Clock, Wakeup } from '../time/clock.ts';
import type { ForeignTable } from './foreign-tables.ts';
import {
  findIPVSLeftovers,
  type IPVSLeftovers,
  isAnyIPVS,
  removeIPVSLeftovers,
} from './ipvs-leftovers.ts';
import {
  type Backend,
  findIn,
  type Kind,
  kinds,
  type Leftovers,
  type Variant,
  variants,
} from './leftovers.ts';
import { findLegacyTables } from './legacy-tables.ts';
import { nftablesTable, ownChain } from './names.ts';
import type { KeptChain } from './removable.ts';
import { removeLeftovers } from './removal.ts';
import { addSign, hasSign, removeSign } from './sign.ts';

export type TakeoverEvent =
  | {
      /** It is gone. */
      readonly kind: 'removed';
      readonly leftovers: Leftovers;
      /** It was gone before: kube-proxy must have written it again. */
      readonly again: boolean;
    }
  /** It has to stay. */
  | {
      readonly kind: 'kept';
      readonly backend: Backend;
      readonly family: Family;
      readonly kept: readonly KeptChain[];
    }
  /** What another mode of ours had left is removed when its connections have ended. */
  | { readonly kind: 'draining'; readonly mode: ModeName; readonly connections: number }
  /** What another mode of ours had left is removed. */
  | {
      readonly kind: 'replaced';
      readonly mode: ModeName;
      readonly by: ModeName;
      readonly objects: readonly OwnedObject[];
    }
  /**
   * What kube-proxy's ipvs mode had in addition to rules is removed, except what still carries
   * traffic.
   */
  | { readonly kind: 'IPVS'; readonly leftovers: IPVSLeftovers }
  | {
      readonly kind: 'failed';
      /** Of kube-proxy (a family, or IPVS), counters, iptables-legacy, or one of our modes. */
      readonly of: Subject;
      readonly error: Error;
      readonly retryMs: number;
    }
  /** A table with our name that we have not made is replaced by ours. */
  | { readonly kind: 'foreign-table'; readonly table: ForeignTable }
  /** Counters in which no rule counts any more are removed; their names. */
  | { readonly kind: 'counters'; readonly names: readonly string[] }
  /** Other programs use iptables-legacy: its tables, with the number of rules and chains. */
  | { readonly kind: 'legacy'; readonly tables: readonly string[] };

type Subject = Family | 'IPVS' | 'nfacct' | Variant['word'] | ModeName;

export interface TakeoverOptions {
  readonly kernel: Kernel;
  /** The mode that runs: its own objects may have kube-proxy's names. */
  readonly mode: ModeFacts;
  /** Every mode of this build: any of them may have run before. */
  readonly modes: readonly ProxyMode[];
  /** Families whose table `kube-proxy` stays, or is made, as a sign for other programs. */
  readonly signed: () => readonly Family[];
  readonly clock: Clock;
  /** Resolves when our rules are in force and verified by reading them back from the kernel. */
  readonly verify: () => Promise<void>;
  readonly observer: (event: TakeoverEvent) => void;
}

const nothingKnown = JSON.stringify([false, 0, []]);

/** How often to look again: kube-proxy may still run, and then writes its rules again. */
const lookAgainMs = 60_000;
const retryLimits = { firstMs: 100, secondMs: 1000, maxMs: 60_000 };

/**
 * What a mode replaces of kube-proxy's objects in nf_tables. A mode whose chains have kube-proxy's
 * names adopts these when it writes its own.
 */
function kindsReplacedBy({ hasKubeProxyNames }: ModeFacts): readonly Kind[] {
  return kinds.filter((kind) => !(hasKubeProxyNames && kind === 'shared names'));
}

export class Takeover {
  readonly #options: TakeoverOptions;
  readonly #wakeup: Wakeup;
  readonly #tookOver = new Set<Variant>();
  /** The chains that stay, as last reported. */
  readonly #kept = new Map<Variant, string>();
  /** Modes that may have left something. It is not written again, so each mode is handled once. */
  readonly #others: Set<ProxyMode>;
  /** Modes among these that still have connections. */
  readonly #draining = new Set<ProxyMode>();
  /** kube-proxy's named counters may exist: they were not found missing since its rules were. */
  #mayHaveCounters = true;
  /** The tables of iptables-legacy are read and reported once, because they may be large. */
  #lookedAtLegacy = false;
  /** What was last reported of IPVS. */
  #ipvs = '';
  /** See `TakeoverOptions.verify`; once for all that a look finds. */
  #verified: Promise<void> | undefined;

  constructor(options: TakeoverOptions) {
    const { mode, modes } = options;
    this.#options = options;
    // Chains with kube-proxy's names are found as kube-proxy's: where others need them they stay.
    this.#others = new Set(
      modes.filter(({ name, hasKubeProxyNames }) => name !== mode.name && !hasKubeProxyNames),
    );
    this.#wakeup = new Wakeup(options.clock);
  }

  /** Until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, observer } = this.#options;
    signal.addEventListener('abort', () => this.#wakeup.wake(), { once: true });
    const unwatch = this.#watchSigns();
    const backoff = new Backoff(retryLimits, clock);
    while (!signal.aborted) {
      const failures = await this.#look();
      if (signal.aborted) break;
      const waitMs = failures.length === 0 ? lookAgainMs : backoff.failed();
      for (const failure of failures) observer({ kind: 'failed', ...failure, retryMs: waitMs });
      await this.#wakeup.wait(waitMs);
    }
    await unwatch();
  }

  /**
   * Adds signs again that another program has removed. The result ends that, and resolves when no
   * more are added.
   */
  #watchSigns(): () => Promise<void> {
    const { kernel, mode, signed } = this.#options;
    // Whether the mode was asked for may change while it runs, and so may the families.
    if (mode.name !== 'nftables') return async () => {};
    const tables = families.map((family) => ({ family: NFPROTO[family], table: nftablesTable }));
    let state: 'idle' | 'asked' | 'adding' | 'ended' = 'idle';
    let adding = Promise.resolve();
    const add = async (): Promise<void> => {
      while (state === 'asked') {
        state = 'adding';
        for (const family of signed()) await addSign(kernel, family).catch(() => this.wake());
      }
      if (state === 'adding') state = 'idle';
    };
    const changed = (): void => {
      const isIdle = state === 'idle';
      if (state !== 'ended') state = 'asked';
      if (isIdle) adding = add();
    };
    // The end of the watch is harmless: they are looked at regularly.
    const unwatch = kernel.watch(tables, { changed, ended: () => {} });
    return () => {
      state = 'ended';
      unwatch();
      return adding;
    };
  }

  /** Looks soon. */
  wake(): void {
    this.#wakeup.wake();
  }

  /** Tries all removals. A failure of one does not stop the others. */
  async #look(): Promise<{ readonly of: Subject; readonly error: Error }[]> {
    const failures: { readonly of: Subject; readonly error: Error }[] = [];
    this.#verified = undefined;
    const attempt = async (of: Subject, remove: () => Promise<void>): Promise<void> => {
      await remove().catch((error: Error) => {
        // A kernel without this part has nothing of it to remove.
        if (!isAbsence(error)) failures.push({ of, error });
      });
    };
    for (const mode of this.#others) await attempt(mode.name, () => this.#replace(mode));
    for (const variant of variants) {
      const of = variant.backend === 'legacy' ? variant.word : variant.family;
      await attempt(of, () => this.#takeOver(variant));
    }
    // Sets last, because rules of kube-proxy's refer to them.
    await attempt('IPVS', () => this.#takeOverIPVS());
    await attempt('nfacct', () => this.#takeOverCounters());
    await attempt('iptables-legacy', () => this.#mentionLegacy());
    return failures;
  }

  /** A comparison takes time, and the next one waits for a multiple of it. */
  #verify(): Promise<void> {
    this.#verified ??= this.#options.verify();
    return this.#verified;
  }

  /** Deletes counters without references. Others are looked at again. */
  async #takeOverCounters(): Promise<void> {
    const { kernel, mode, observer } = this.#options;
    // Each question makes a kernel without nfacct look for the module again.
    if (mode.ownsChain !== undefined || !this.#mayHaveCounters) return;
    const found = await readCounters(kernel);
    const idle = found.filter(({ references }) => references === 0);
    const names = idle.map(({ name }) => name);
    await deleteCounters(kernel, names);
    this.#mayHaveCounters = idle.length < found.length;
    if (names.length > 0) observer({ kind: 'counters', names });
  }

  async #mentionLegacy(): Promise<void> {
    if (this.#lookedAtLegacy) return;
    const tables = await findLegacyTables(this.#options.kernel);
    if (tables.length > 0) this.#options.observer({ kind: 'legacy', tables });
    this.#lookedAtLegacy = true;
  }

  async #replace(mode: ProxyMode): Promise<void> {
    const { kernel, observer } = this.#options;
    const by = this.#options.mode.name;
    const objects = await mode.owned(kernel);
    if (objects.length > 0) {
      await this.#verify();
      const connections = await retire(mode, kernel);
      if (connections > 0) {
        if (!this.#draining.has(mode)) observer({ kind: 'draining', mode: mode.name, connections });
        this.#draining.add(mode);
        return;
      }
      observer({ kind: 'replaced', mode: mode.name, by, objects });
    }
    this.#others.delete(mode);
  }

  async #takeOver(variant: Variant): Promise<void> {
    const { kernel, observer } = this.#options;
    const isSigned = this.#options.signed().includes(variant.family);
    if (variant.backend === 'nf_tables') await this.#sign(variant.family, isSigned);
    let leftovers = await this.#find(variant);
    // What refers to a chain may be a rule that our own mode is about to replace.
    if (isAny(leftovers) || this.#isNews(variant, leftovers)) {
      await this.#verify();
      // It may have changed while verifying.
      leftovers = await this.#find(variant);
      await removeLeftovers(kernel, leftovers, isSigned ? 'sign' : 'nothing');
      if (isAny(leftovers)) observer(this.#removed(variant, leftovers));
      this.#mayHaveCounters = true;
    }
    this.#tookOver.add(variant);
    const { backend, family, kept } = leftovers;
    if (this.#isNews(variant, leftovers)) observer({ kind: 'kept', backend, family, kept });
    this.#kept.set(variant, JSON.stringify(kept));
  }

  async #sign(family: Family, isSigned: boolean): Promise<void> {
    const { kernel } = this.#options;
    if (isSigned) return addSign(kernel, family);
    if (!(await hasSign(kernel, family))) return;
    await this.#verify();
    await removeSign(kernel, family);
  }

  #isNews(variant: Variant, { kept }: Leftovers): boolean {
    return kept.length > 0 && JSON.stringify(kept) !== this.#kept.get(variant);
  }

  async #takeOverIPVS(): Promise<void> {
    const { kernel, mode, observer } = this.#options;
    // What our ipvs mode has left looks the same.
    if ([...this.#others].some(({ usesIPVS }) => usesIPVS)) return;
    const scope = mode.usesIPVS ? 'sets' : 'idle';
    // The interface is our own then, and asking for sets would load the module again and again.
    if (scope === 'sets' && this.#ipvs === nothingKnown) return;
    let leftovers = await findIPVSLeftovers(kernel, scope);
    const isAny = isAnyIPVS(leftovers);
    if (isAny) {
      await this.#verify();
      leftovers = await findIPVSLeftovers(kernel, scope);
      await removeIPVSLeftovers(kernel, leftovers);
    }
    const { busy, foreign, keptSets } = leftovers;
    const known = JSON.stringify([busy > 0, foreign, keptSets]);
    const isNews = known !== this.#ipvs && known !== nothingKnown;
    this.#ipvs = known;
    if (isAny || isNews) observer({ kind: 'IPVS', leftovers });
  }

  #removed(variant: Variant, leftovers: Leftovers): TakeoverEvent {
    const { mode: by, modes } = this.#options;
    const before = modes.find(({ hasKubeProxyNames }) => hasKubeProxyNames);
    if (before !== undefined && leftovers.chains.some(({ chain }) => chain === ownChain)) {
      return { kind: 'replaced', mode: before.name, by: by.name, objects: ownedBy(leftovers) };
    }
    return { kind: 'removed', leftovers, again: this.#tookOver.has(variant) };
  }

  #find(variant: Variant): Promise<Leftovers> {
    const { kernel, mode } = this.#options;
    return findIn(kernel, variant, 'replaced', kindsReplacedBy(mode), mode);
  }
}

function isAny({ chains, jumps, tables }: Leftovers): boolean {
  return chains.length + jumps.length + tables.length > 0;
}

/** Resolves to the number of connections that keep something from being removed. */
async function retire(mode: ProxyMode, kernel: Kernel): Promise<number> {
  if (mode.retire !== undefined) return mode.retire(kernel);
  await mode.cleanup(kernel);
  return 0;
}

/** The leftovers as a mode lists its own objects. */
function ownedBy({ chains, family, jumps }: Leftovers): OwnedObject[] {
  const word = familyWord(NFPROTO[family]);
  const because = `only Fairlead's iptables mode has ${ownChain} among them`;
  return [
    ...jumps.map(({ table, chain, target }) => `jump from ${word} ${table} ${chain} to ${target}`),
    ...chains.map(({ table, chain }) => `chain ${word} ${table} ${chain}`),
  ].map((object) => ({ object, because }));
}
