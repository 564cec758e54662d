/** Reads base chains of other programs that can stop packets, with the chains that they jump to. */
import { createHash } from 'node:crypto';
import type { KernelReader, ReplyOf, TableName } from '../../../kernel/kernel.ts';
import { readClauses } from '../../../kernel/nft/clauses.ts';
import { NFPROTO, VERDICT } from '../../../kernel/nft/constants.ts';
import { chainText, ruleText } from '../../../kernel/nft/print-rule.ts';
import { builtInChains } from '../../../kernel/xt/tables.ts';
import type { ModeName } from '../../../modes/mode.ts';
import { type Hook, seenAt } from './hooks.ts';
import { readRule } from './rules.ts';
import { type Members, membersOf } from './sets.ts';
import { canStop, type WalkedRule } from './walk.ts';

/** A base chain in which packets to Services can end. */
export interface ForeignChain extends Hook {
  /** NFPROTO_* of its table; NFPROTO_INET is for both families. */
  readonly family: number;
  /** `inet firewalld filter_FORWARD` */
  readonly name: string;
  readonly chain: string;
  readonly isDropPolicy: boolean;
  /** Those of its table. */
  readonly chains: ReadonlyMap<string, readonly WalkedRule[]>;
  /** The same as long as what was read is the same. */
  readonly digest: string;
}

/** NFPROTO_INET */
export const bothFamilies = 1;
const familiesOfIP: readonly number[] = [bothFamilies, NFPROTO.IPv4, NFPROTO.IPv6];

/** Of a table with more rules, only the policies are known. */
const rulesMax = 3000;

/**
 * Chains with which this proxy, or kube-proxy, serves Services, with their tables. In table filter,
 * KUBE-NODEPORTS accepts health checks.
 */
const ofServices =
  /^(?:nat KUBE-NODEPORTS|\S+ KUBE-(?:SERVICES|EXTERNAL-SERVICES|PROXY-FIREWALL|HAIRPIN))$/;

type Chain = ReplyOf<'chain'>;
type BaseChain = Pick<Chain, 'chain' | 'hook' | 'policy' | 'priority' | 'type'>;

/** Rejects with KernelError. */
export async function readForeignChains(
  kernel: KernelReader,
  mode: ModeName,
): Promise<readonly ForeignChain[]> {
  const { records } = await kernel.dump({ kind: 'tablesDump', family: 0 });
  const chains: ForeignChain[] = [];
  for (const one of records) {
    if (one.kind !== 'table' || !familiesOfIP.includes(one.family)) continue;
    if (one.table.startsWith('fairlead') || one.table === 'kube-proxy') continue;
    chains.push(...(await chainsOfTable(kernel, mode, one)));
  }
  return chains;
}

async function chainsOfTable(
  kernel: KernelReader,
  mode: ModeName,
  of: TableName,
): Promise<ForeignChain[]> {
  const { family, table } = of;
  const bases = (await baseChains(kernel, mode, of)).filter((one) => seenAt(mode, one).length > 0);
  if (bases.length === 0) return [];
  const reader = new TableReader(kernel, { family, table });
  for (const { chain } of bases) await reader.read(chain);
  const { chains } = reader;
  const digest = reader.digest();
  if (reader.isTooLarge) for (const { chain } of bases) chains.set(chain, [unread]);
  return bases
    .map(({ chain, hook, policy, priority, type }) => {
      const name = chainText({ family, table, chain });
      const isDropPolicy = policy === VERDICT.drop;
      return { family, name, chain, hook, priority, type, isDropPolicy, chains, digest };
    })
    .filter(({ chain, isDropPolicy }) => isDropPolicy || canStop(chains, chain));
}

const unread: WalkedRule = {
  ...{ conditions: [], senders: [], text: () => '' },
  action: { kind: 'unsure' },
};

/** In mode iptables, table nat has chains for each Service, and no policy that drops. */
async function baseChains(
  kernel: KernelReader,
  mode: ModeName,
  { family, table }: TableName,
): Promise<readonly BaseChain[]> {
  if (mode === 'iptables' && family !== bothFamilies && table === 'nat') {
    const at = Object.entries(builtInChains.nat);
    return at.map(([chain, hook]) => ({ chain, ...hook, policy: VERDICT.accept }));
  }
  const bases: Chain[] = [];
  await kernel.dump({ kind: 'chainsDump', family, table }, (one) => {
    if (one.kind === 'chain' && one.type !== '') bases.push(one);
  });
  return bases;
}

class TableReader {
  readonly chains = new Map<string, readonly WalkedRule[]>();
  isTooLarge = false;
  readonly #kernel: KernelReader;
  readonly #of: TableName;
  readonly #sets = new Map<string, Members>();
  readonly #hash = createHash('sha1');
  #areSetsRead = false;
  #count = 0;

  constructor(kernel: KernelReader, of: TableName) {
    this.#kernel = kernel;
    this.#of = of;
  }

  /** Of all that was read; once. */
  digest(): string {
    return this.#hash.digest('hex');
  }

  /** The chain, and all that packets can come to from there. */
  async read(chain: string): Promise<void> {
    if (this.chains.has(chain) || this.isTooLarge) return;
    if (ofServices.test(`${this.#of.table} ${chain}`)) return;
    this.chains.set(chain, []);
    const rules: ReplyOf<'rule'>[] = [];
    await this.#kernel.dump({ kind: 'rulesDump', ...this.#of, chain }, (one) => {
      if (one.kind !== 'rule') return;
      this.#count += 1;
      if (this.#count <= rulesMax) rules.push(one);
    });
    if (this.#count > rulesMax) {
      this.isTooLarge = true;
      return;
    }
    const read: WalkedRule[] = [];
    for (const rule of rules) read.push(await this.#rule(rule));
    this.chains.set(chain, read);
    for (const { action } of read) {
      if (action.kind === 'jump' || action.kind === 'goto') await this.read(action.chain);
    }
  }

  async #rule(rule: ReplyOf<'rule'>): Promise<WalkedRule> {
    const { comment, expressions: bytes, family, handle } = rule;
    this.#hash.update(`${rule.chain} ${handle} ${comment}\n`).update(bytes);
    const clauses = readClauses(bytes);
    if (clauses.some(({ kind }) => kind === 'lookup')) await this.#readSets();
    const text = (): string => {
      const remark = comment === '' ? '' : ` comment "${comment}"`;
      const words = ruleText(family, bytes);
      return `rule ${handle} of chain ${chainText(rule)}: ${words}${remark}`;
    };
    return { ...readRule(clauses, this.#sets), text };
  }

  async #readSets(): Promise<void> {
    if (this.#areSetsRead) return;
    this.#areSetsRead = true;
    const { records } = await this.#kernel.dump({ kind: 'setsDump', ...this.#of });
    for (const one of records) {
      if (one.kind !== 'set') continue;
      const note = (bytes: Uint8Array): unknown => this.#hash.update(bytes);
      this.#hash.update(`set ${one.set}\n`);
      const members = await membersOf(this.#kernel, one, note);
      if (members !== undefined) this.#sets.set(one.set, members);
    }
  }
}
