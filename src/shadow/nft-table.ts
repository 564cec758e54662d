/** The table of kube-proxy's nftables mode as it is in the kernel: sets, rules by chain, elements. */
import type { Kernel, TableName } from '../kernel/kernel.ts';
import { NFPROTO, NFT_DATA_VERDICT, NFT_SET } from '../kernel/nft/constants.ts';
import { ElementShape, type Reply } from '../kernel/ops.ts';
import type { Family } from '../net/address.ts';
import { nftablesTable } from '../takeover/names.ts';
import { Chains } from './chains.ts';

type SetReply = Extract<Reply, { kind: 'set' }>;

/** An element; `flags` only of sets of intervals. */
export interface Element {
  readonly key: Uint8Array;
  readonly flags: number;
  readonly data: Uint8Array;
  readonly verdict: { readonly code: number; readonly chain: string } | undefined;
}

/** Reads no rule's meaning. */
export class NftTable {
  readonly family: Family;
  readonly chains: Chains;
  readonly #kernel: Kernel;
  readonly #sets: ReadonlyMap<string, SetReply>;

  private constructor(kernel: Kernel, family: Family, chains: Chains, sets: readonly SetReply[]) {
    this.#kernel = kernel;
    this.family = family;
    this.chains = chains;
    this.#sets = new Map(sets.map((set) => [set.set, set]));
  }

  /** Undefined when there is no such table. Rejects with KernelError. */
  static async open(kernel: Kernel, family: Family): Promise<NftTable | undefined> {
    const place = tableName(family);
    const chains = await Chains.open(kernel, place);
    if (chains === undefined) return undefined;
    const { records } = await kernel.dump({ kind: 'setsDump', ...place });
    const sets = records.filter((one) => one.kind === 'set');
    return new NftTable(kernel, family, chains, sets);
  }

  /** The set's own timeout; 0 = none, undefined = there is no such set. */
  timeoutMs(set: string): number | undefined {
    return this.#sets.get(set)?.timeoutMs;
  }

  /** Undefined when there is no such set, or no more. */
  async elements(name: string): Promise<readonly Element[] | undefined> {
    const set = this.#sets.get(name);
    if (set === undefined) return undefined;
    const { keyLength } = set;
    const shape = shapeOf(set);
    const dataLength = (shape & ElementShape.data) === 0 ? 0 : set.dataLength;
    const request = { ...tableName(this.family), set: name, shape, keyLength, dataLength };
    const found: Element[] = [];
    let isThere = (set.flags & NFT_SET.ANONYMOUS) === 0;
    for (const one of (await this.#kernel.dump({ kind: 'elementsDump', ...request })).records) {
      if (one.kind !== 'elements') continue;
      isThere = true;
      readEntries(one.entries, { shape, keyLength, dataLength }, found);
    }
    return isThere ? found : undefined;
  }
}

function tableName(family: Family): TableName {
  return { family: NFPROTO[family], table: nftablesTable };
}

function shapeOf({ dataType, flags }: SetReply): number {
  if (dataType === NFT_DATA_VERDICT) return ElementShape.verdict;
  if ((flags & NFT_SET.MAP) !== 0) return ElementShape.data;
  return (flags & NFT_SET.INTERVAL) === 0 ? 0 : ElementShape.flags;
}

interface EntryLayout {
  readonly shape: number;
  readonly keyLength: number;
  readonly dataLength: number;
}

const noBytes = new Uint8Array(0);
const padded = (length: number): number => (length + 3) & ~3;

function readEntries(entries: Uint8Array, layout: EntryLayout, into: Element[]): void {
  const { shape, keyLength, dataLength } = layout;
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  let at = 0;
  while (at < entries.length) {
    const key = entries.subarray(at, at + keyLength);
    at += padded(keyLength);
    let [flags, data]: [number, Uint8Array] = [0, noBytes];
    let verdict: Element['verdict'];
    if (shape === ElementShape.flags) {
      flags = view.getUint32(at, true);
      at += 4;
    } else if (shape === ElementShape.data) {
      data = entries.subarray(at, at + dataLength);
      at += padded(dataLength);
    } else if (shape === ElementShape.verdict) {
      const length = view.getUint32(at + 4, true);
      const chain = Buffer.from(entries.subarray(at + 8, at + 8 + length)).toString('utf8');
      verdict = { code: view.getInt32(at, true), chain };
      at += 8 + padded(length);
    }
    into.push({ key, flags, data, verdict });
  }
}
