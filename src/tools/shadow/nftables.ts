/** Reads what kube-proxy's nftables mode does with connections (behaviour document 6). */

import type { Kernel, ReplyOf, TableName } from '../../kernel/kernel.ts';
import {
  NFPROTO,
  NFT_DATA_VERDICT,
  NFT_SET,
  NFT_SET_ELEM_INTERVAL_END,
  protocolOf,
  VERDICT,
} from '../../kernel/nft/constants.ts';
import { type Entry, readEntries } from '../../kernel/nft/entries.ts';
import { ElementShape } from '../../kernel/ops.ts';
import { Address, addressBytes, type CIDR, type Family } from '../../net/address.ts';
import { EndpointList } from '../../net/endpoint-list.ts';
import { cidrsOf, predecessor } from '../../net/interval.ts';
import { madeAt } from '../../net/made-at.ts';
import { nftablesTable } from '../../takeover/names.ts';
import { Chains } from './chains.ts';
import { type Condition, meaningOf, type RuleMeaning } from './nft-rule.ts';
import {
  blocksOf,
  fromOutside,
  frontendText,
  type HeldFrontend,
  nowhere,
  type Pool,
  type Programmed,
  type Reach,
} from './reach.ts';

/** Undefined when kube-proxy's nftables mode has no table of this family. */
export async function readNFTables(
  kernel: Kernel,
  family: Family,
): Promise<Programmed | undefined> {
  const table = await NftTable.open(kernel, family);
  if (table === undefined) return undefined;
  const reader = new Reader(table);
  return { mode: 'nftables', family, frontends: await reader.frontends() };
}

/** Returns the effect of a chain on connections, or undefined if its rules can't be read. */
type Way = Pick<Reach, 'endpoints' | 'nearby' | 'masquerade' | 'affinitySeconds'> | undefined;

class Reader {
  readonly #table: NftTable;
  readonly #family: Family;
  readonly #ways = new Map<string, Promise<Way>>();

  constructor(table: NftTable) {
    this.#table = table;
    this.#family = table.family;
  }

  async frontends(): Promise<Map<string, HeldFrontend | undefined>> {
    const [served, refused] = [
      await this.#verdicts('service-ips', 'service-nodeports'),
      await this.#verdicts('no-endpoint-services', 'no-endpoint-nodeports'),
    ];
    const guarded = await this.#verdicts('firewall-ips');
    const found = new Map<string, HeldFrontend | undefined>();
    for (const text of new Set([...served.keys(), ...refused.keys()])) {
      const chain = served.get(text)?.chain;
      const way = chain === undefined ? { ...nowhere, ...plain } : await this.#way(chain);
      const guard = guarded.get(text)?.chain;
      const clients = guard === undefined ? undefined : await this.#clients(guard);
      if (way === undefined || clients === null) {
        found.set(text, undefined);
        continue;
      }
      const refusal = refusalOf(refused.get(text));
      const reach = { ...way, refusal, clients };
      found.set(text, { reach, owner: ownerOf(chain ?? guard ?? '') });
    }
    return found;
  }

  /** The verdicts of the maps, by the text of the frontend. */
  async #verdicts(...maps: readonly string[]): Promise<Map<string, Entry['verdict']>> {
    const found = new Map<string, Entry['verdict']>();
    for (const map of maps) {
      for (const { key, verdict } of (await this.#table.elements(map)) ?? []) {
        found.set(this.#frontendOf(key), verdict);
      }
    }
    return found;
  }

  /** The text of the frontend with the key `[address .] protocol . port`. */
  #frontendOf(key: Uint8Array): string {
    const at = key.length - 8;
    const address = at === 0 ? undefined : key.subarray(0, addressBytes[this.#family]);
    const port = (key[at + 4]! << 8) | key[at + 5]!;
    return frontendText(address, port, protocolOf(key[at]) ?? 'TCP');
  }

  #way(chain: string): Promise<Way> {
    return madeAt(this.#ways, chain, () => this.#readWay(chain));
  }

  async #readWay(chain: string): Promise<Way> {
    if (!chain.startsWith('external-')) {
      const pool = await this.#pool(chain);
      return pool && { ...pool, ...plain };
    }
    return this.#external(chain);
  }

  /** Reads a chain `external-`. Rules with conditions are for the node and its pods. */
  async #external(chain: string): Promise<Way> {
    let [everyone, nearby]: [Pool, Pool | undefined] = [nowhere, undefined];
    let masquerade = false;
    for (const rule of await this.#meanings(chain)) {
      if (rule === undefined) return undefined;
      const isForAll = rule.conditions.length === 0;
      if (rule.marks && isForAll) masquerade = true;
      if (rule.verdict === undefined) continue;
      const pool = await this.#pool(rule.verdict.chain);
      if (pool === undefined) return undefined;
      if (isForAll) everyone = pool;
      else nearby = pool;
    }
    return fromOutside(everyone, nearby, masquerade);
  }

  /** Reads a chain `service-` or `local-`. */
  async #pool(chain: string): Promise<Pool | undefined> {
    if (!this.#table.chains.has(chain)) return undefined;
    const endpoints = new Set<string>();
    let affinitySeconds = 0;
    for (const rule of await this.#meanings(chain)) {
      if (rule === undefined) return undefined;
      // Rules with conditions are for session affinity.
      if (rule.conditions.length > 0) continue;
      const chosen = await this.#chosen(rule);
      if (chosen === undefined) return undefined;
      for (const endpoint of chosen.endpoints) endpoints.add(endpoint);
      affinitySeconds = Math.max(affinitySeconds, chosen.affinitySeconds);
    }
    return { endpoints, affinitySeconds };
  }

  async #chosen({ choice, destination }: RuleMeaning): Promise<Pool | undefined> {
    if (choice !== undefined) return this.#chosenChains(choice);
    if (destination?.kind === 'endpoint') {
      const endpoints = new Set([this.#endpointOf(destination.address, destination.port)]);
      return { endpoints, affinitySeconds: 0 };
    }
    if (destination === undefined) return undefined;
    const elements = await this.#table.elements(destination.set);
    if (elements === undefined) return undefined;
    const size = addressBytes[this.#family];
    const texts = elements.map(({ data }) =>
      this.#endpointOf(data.subarray(0, size), data.subarray(size, size + 2)),
    );
    return { endpoints: new Set(texts), affinitySeconds: 0 };
  }

  /** Reads the chains `endpoint-` that a map leads to. They may remember their clients. */
  async #chosenChains(map: string): Promise<Pool | undefined> {
    const elements = await this.#table.elements(map);
    if (elements === undefined) return undefined;
    const endpoints = new Set<string>();
    let affinityMs = 0;
    for (const { verdict } of elements) {
      for (const rule of await this.#meanings(verdict?.chain ?? '')) {
        if (rule?.destination?.kind === 'endpoint') {
          endpoints.add(this.#endpointOf(rule.destination.address, rule.destination.port));
        }
        if (rule?.remembers === undefined) continue;
        const { set, timeoutMs } = rule.remembers;
        affinityMs = timeoutMs || this.#table.timeoutMs(set) || 0;
      }
    }
    return { endpoints, affinitySeconds: affinityMs / 1000 };
  }

  #endpointOf(address: Uint8Array, port: Uint8Array): string {
    const number = (port[0]! << 8) | port[1]!;
    return EndpointList.of(this.#family, [{ address, port: number }]).text(0);
  }

  /** The clients that a chain `firewall-` lets in; null = its rules can't be read. */
  async #clients(chain: string): Promise<readonly string[] | null> {
    const [rule, ...more] = await this.#meanings(chain);
    if (rule === undefined || more.length > 0 || rule.verdict?.code !== VERDICT.drop) return null;
    const [condition, ...others] = rule.conditions;
    if (condition?.inverted !== true || others.length > 0) return null;
    if (condition.kind === 'equals') return blocksOf([this.#blockOf(condition)]);
    const elements = await this.#table.elements(condition.set);
    return elements === undefined ? null : blocksOf(this.#blocks(elements));
  }

  /** The block of a rule that compares with a single one, and needs no set. */
  #blockOf({ data, mask }: Extract<Condition, { kind: 'equals' }>): CIDR {
    const bytes = new Uint8Array(addressBytes[this.#family]);
    bytes.set(data);
    const bits = mask === undefined ? data.length * 8 : ones(mask);
    return { address: Address.from(bytes), prefixLength: bits };
  }

  /** The blocks of an interval set. An interval ends before the next key with the end flag. */
  #blocks(elements: readonly Entry[]): CIDR[] {
    const sorted = elements.toSorted((a, b) => {
      return Buffer.compare(a.key, b.key) || b.flags - a.flags;
    });
    const blocks: CIDR[] = [];
    let first: Uint8Array | undefined;
    const until = (last: Uint8Array): void => {
      if (first !== undefined) blocks.push(...cidrsOf({ first, last }));
      first = undefined;
    };
    for (const { key, flags } of sorted) {
      if ((flags & NFT_SET_ELEM_INTERVAL_END) === 0) first = key;
      else if (first !== undefined) until(predecessor(key));
    }
    until(new Uint8Array(addressBytes[this.#family]).fill(0xff));
    return blocks;
  }

  async #meanings(chain: string): Promise<(RuleMeaning | undefined)[]> {
    return (await this.#table.chains.rules(chain)).map(meaningOf);
  }
}

const plain = { nearby: undefined, masquerade: false } as const;

function ones(mask: Uint8Array): number {
  let count = 0;
  for (const byte of mask) for (let bit = byte; bit > 0; bit &= bit - 1) count += 1;
  return count;
}

function refusalOf(verdict: Entry['verdict']): Reach['refusal'] {
  if (verdict === undefined) return undefined;
  return verdict.code === VERDICT.drop ? 'drop' : 'reject';
}

/** The Service port in a chain's name: `service-ABCDEFGH-ns/name/tcp/port` (6.7). */
function ownerOf(chain: string): HeldFrontend['owner'] {
  const match = /^[a-z]+-[A-Z2-7]{8}-([^/]+\/[^/]+)\/[a-z]+\/(.*)$/.exec(chain);
  return match === null ? undefined : { service: match[1]!, port: match[2]! };
}

type SetReply = ReplyOf<'set'>;

/**
 * The table of kube-proxy's nftables mode as it is in the kernel: sets, rules by chain, elements,
 * without the meaning of its rules.
 */
class NftTable {
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
