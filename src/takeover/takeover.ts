/**
 * Takes over from kube-proxy, make before break: once our own rules are programmed and verified,
 * removes what is provably kube-proxy's. Established connections go on, because connection
 * tracking belongs to neither.
 */
import type { HostFiles } from '../host/files.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { ModeName } from '../modes/mode.ts';
import type { Family } from '../state/address.ts';
import { Bell, type Clock } from '../sync/clock.ts';
import { Backoff } from '../sync/retry.ts';
import { type Elsewhere, lookElsewhere } from './elsewhere.ts';
import { findLeftovers, type KeptChain, type Kind, type Leftovers } from './leftovers.ts';
import { removeLeftovers } from './removal.ts';

export type TakeoverEvent =
  | {
      /** It is gone. */
      readonly kind: 'removed';
      readonly leftovers: Leftovers;
      /** It was gone before: kube-proxy must have written it again. */
      readonly again: boolean;
    }
  /** It has to stay. */
  | { readonly kind: 'kept'; readonly family: Family; readonly kept: readonly KeptChain[] }
  | {
      readonly kind: 'failed';
      readonly family: Family;
      readonly error: Error;
      readonly retryMs: number;
    }
  | { readonly kind: 'elsewhere'; readonly found: Elsewhere };

export interface TakeoverOptions {
  readonly kernel: Kernel;
  /** Undefined: nobody looks beyond nf_tables. */
  readonly host: HostFiles | undefined;
  /** The mode that runs: its own objects may have kube-proxy's names. */
  readonly mode: ModeName;
  readonly clock: Clock;
  /** Resolves when our rules are in force and were read back from the kernel as wanted. */
  readonly verify: () => Promise<void>;
  readonly observer: (event: TakeoverEvent) => void;
}

/** kube-proxy may be running still, and writes its rules again until it is stopped. */
const lookAgainMs = 60_000;
const retryLimits = { firstMs: 100, secondMs: 1000, maxMs: 60_000 };

const families: readonly Family[] = ['IPv4', 'IPv6'];

/** What of kube-proxy's a mode replaces in nf_tables. */
function kindsReplacedBy(mode: ModeName): readonly Kind[] {
  return mode === 'iptables' ? ['nftables'] : ['nftables', 'iptables'];
}

export class Takeover {
  readonly #options: TakeoverOptions;
  readonly #bell: Bell;
  readonly #tookOver = new Set<Family>();
  /** What is known to stay, so that it is told once. */
  readonly #kept = new Map<Family, string>();

  constructor(options: TakeoverOptions) {
    this.#options = options;
    this.#bell = new Bell(options.clock);
  }

  /** Until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, host, mode, observer } = this.#options;
    signal.addEventListener('abort', () => this.#bell.ring(), { once: true });
    if (host !== undefined) {
      const found = lookElsewhere(host);
      const isIPVS = mode !== 'ipvs' && found.dummyInterface;
      if (isIPVS || found.legacyTables.length > 0) observer({ kind: 'elsewhere', found });
    }
    const backoff = new Backoff(retryLimits, clock);
    while (!signal.aborted) {
      const failures = await this.#look();
      if (signal.aborted) return;
      const waitMs = failures.length === 0 ? lookAgainMs : backoff.failed();
      for (const failure of failures) observer({ kind: 'failed', ...failure, retryMs: waitMs });
      await this.#bell.wait(waitMs);
    }
  }

  /** One family does not wait for the other. */
  async #look(): Promise<{ readonly family: Family; readonly error: Error }[]> {
    const failures = [];
    for (const family of families) {
      try {
        await this.#takeOver(family);
      } catch (error) {
        failures.push({ family, error: error as Error });
      }
    }
    return failures;
  }

  async #takeOver(family: Family): Promise<void> {
    const { observer, verify } = this.#options;
    let leftovers = await this.#find(family);
    if (isAny(leftovers)) {
      await verify();
      // That may have taken its time.
      leftovers = await this.#find(family);
      await removeLeftovers(this.#options.kernel, leftovers);
      observer({ kind: 'removed', leftovers, again: this.#tookOver.has(family) });
    }
    this.#tookOver.add(family);
    const { kept } = leftovers;
    const known = JSON.stringify(kept);
    if (kept.length > 0 && known !== this.#kept.get(family)) {
      observer({ kind: 'kept', family, kept });
    }
    this.#kept.set(family, known);
  }

  #find(family: Family): Promise<Leftovers> {
    const { kernel, mode } = this.#options;
    return findLeftovers(kernel, family, kindsReplacedBy(mode), 'replaced');
  }
}

function isAny({ chains, jumps, tables }: Leftovers): boolean {
  return chains.length + jumps.length + tables.length > 0;
}
