/** The state of the fake kernel, and the journal that undoes a refused transaction. */

import type { nftOps } from '../../src/kernel/ops.ts';
import type { FieldsOf } from '../../src/kernel/records.ts';

export interface Rule {
  readonly handle: number;
  readonly expressions: Uint8Array;
  readonly comment: string;
  /** What its counter has seen. Packets change it. */
  packets: number;
}

export interface BaseChain {
  readonly type: string;
  readonly hook: number;
  readonly priority: number;
  readonly policy: number;
}

export interface Chain {
  readonly name: string;
  readonly handle: number;
  readonly base: BaseChain | undefined;
  readonly comment: string;
  readonly rules: readonly Rule[];
}

export interface Verdict {
  readonly code: number;
  readonly chain: string;
}

/** One element. Parts that its set does not have are undefined. */
export interface Element {
  readonly key: Uint8Array;
  /** NFT_SET_ELEM_* */
  readonly flags: number;
  readonly data: Uint8Array | undefined;
  readonly verdict: Verdict | undefined;
  readonly comment: string;
}

export interface NftSet {
  readonly handle: number;
  readonly fields: FieldsOf<typeof nftOps.setAdd>;
  /** The elements, by `elementId`. */
  readonly elements: Map<string, Element>;
}

/** `devices`: their names, between spaces. */
export type Flowtable = Pick<
  FieldsOf<typeof nftOps.flowtableAdd>,
  'priority' | 'flags' | 'devices'
>;

export interface Table {
  readonly family: number;
  readonly name: string;
  readonly handle: number;
  readonly comment: string;
  /** NFT_TABLE_F_* */
  readonly flags: number;
  /** Netlink port of the socket that alone may change it; 0 = none. */
  readonly owner: number;
  readonly chains: Map<string, Chain>;
  readonly sets: Map<string, NftSet>;
  /** Counters, flowtables and the like, by type and name. */
  readonly others: Map<string, { readonly type: number; readonly object: string }>;
  /** Devices of flowtables, by name of the flowtable; of those that we make. */
  readonly flowtables: Map<string, Flowtable>;
  /** The number of references to each `chain NAME` and `set NAME`. */
  readonly uses: Map<string, number>;
  /** Lists of the match `recent` of iptables, which packets fill: sources by name of the list. */
  readonly recent: Map<string, Set<string>>;
}

/** By `tableId`. */
export type Tables = Map<string, Table>;

export function tableId(family: number, name: string): string {
  return `${family} ${name}`;
}

/** Identifies an element within its set. */
export function elementId({ key, flags }: Pick<Element, 'key' | 'flags'>): string {
  return `${latin1(key)}${String.fromCharCode(flags)}`;
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

/**
 * Every change of a transaction goes through here, so that all of them can be undone. Values in the
 * maps are replaced, never changed, so undoing a map undoes everything.
 */
export class Journal {
  readonly #undo: (() => void)[] = [];

  /** Whether there is anything to commit. */
  get changed(): boolean {
    return this.#undo.length > 0;
  }

  set<V>(map: Map<string, V>, key: string, value: V): void {
    const before = map.get(key);
    const had = map.has(key);
    this.#undo.push(() => {
      if (had) map.set(key, before as V);
      else map.delete(key);
    });
    map.set(key, value);
  }

  delete<V>(map: Map<string, V>, key: string): void {
    const before = map.get(key) as V;
    if (!map.delete(key)) return;
    this.#undo.push(() => map.set(key, before));
  }

  /** Counts one reference more, or one less. */
  count(uses: Map<string, number>, reference: string, step: 1 | -1): void {
    const count = (uses.get(reference) ?? 0) + step;
    if (count === 0) this.delete(uses, reference);
    else this.set(uses, reference, count);
  }

  rollback(): void {
    for (const undo of this.#undo.reverse()) undo();
    this.#undo.length = 0;
  }
}
