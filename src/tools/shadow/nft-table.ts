/** The table of kube-proxy's nftables mode as it is in the kernel: sets, rules by chain, elements. */
import type { Kernel, ReplyOf, TableName } from '../../kernel/kernel.ts';
import { NFPROTO, NFT_DATA_VERDICT, NFT_SET } from '../../kernel/nft/constants.ts';
import { type Entry, readEntries } from '../../kernel/nft/entries.ts';
import { ElementShape } from '../../kernel/ops.ts';
import type { Family } from '../../net/address.ts';
import { nftablesTable } from '../../takeover/names.ts';
import { Chains } from './chains.ts';

type SetReply = ReplyOf<'set'>;

/** The table, without the meaning of its rules. */
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

  /** Undefined when kube-proxy has no such table. Rejects with KernelError. */
  static async open(kernel: Kernel, family: Family): Promise<NftTable | undefined> {
    const place = tableName(family);
    const chains = await Chains.open(kernel, place);
    // Without it the table is only a sign (`src/takeover/sign.ts`).
    if (!chains?.has('services')) return undefined;
    const { records } = await kernel.dump({ kind: 'setsDump', ...place });
    const sets = records.filter((one) => one.kind === 'set');
    return new NftTable(kernel, family, chains, sets);
  }

  /** Returns the set's timeout: 0 without one, undefined if the set does not exist. */
  timeoutMs(set: string): number | undefined {
    return this.#sets.get(set)?.timeoutMs;
  }

  /** Returns undefined if the set does not exist, or was deleted during the dump. */
  async elements(name: string): Promise<readonly Entry[] | undefined> {
    const set = this.#sets.get(name);
    if (set === undefined) return undefined;
    const { keyLength } = set;
    const shape = shapeOf(set);
    const dataLength = (shape & ElementShape.data) === 0 ? 0 : set.dataLength;
    const request = { ...tableName(this.family), set: name, shape, keyLength, dataLength };
    const found: Entry[] = [];
    let isThere = (set.flags & NFT_SET.ANONYMOUS) === 0;
    for (const one of (await this.#kernel.dump({ kind: 'elementsDump', ...request })).records) {
      if (one.kind !== 'elements') continue;
      isThere = true;
      for (const entry of readEntries(one)) found.push(entry);
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
