/** What the kernel holds of ours among the tables of iptables. */
import { KernelError } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { expressions, type Reply, unknownIndex } from '../../kernel/ops.ts';
import { readRecords } from '../../kernel/records.ts';
import type { Family } from '../../net/address.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Found } from '../backend.ts';
import { inTurns, type Pause } from '../mode.ts';
import {
  chainId,
  firewallChain,
  isOurs,
  sharedChains,
  type TableChain,
  tableNames,
} from './layout.ts';
import { isServiceChain, type TableName } from './names.ts';
import {
  chainAt,
  type HeldChain,
  type IptablesObjects,
  type ObservedRule,
  type ServiceChain,
  type SharedRule,
} from './objects.ts';

const sharedChainIds: ReadonlySet<string> = new Set(sharedChains.map(chainId));

const dumpAttempts = 5;
/**
 * Requests in flight, so that the thread that asks the kernel does not wait for the main thread.
 */
const requestsAtOnce = 64;

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

export interface Reference extends ObservedRule {
  readonly from: TableChain;
  readonly to: TableChain;
}

export class IptablesObservation implements Found<IptablesObjects> {
  readonly family: Family;
  generation = 0;
  readonly intact = true;
  readonly tables = new Set<TableName>();
  /** The rules of our chains and of built-in ones in order, by `chainId`. */
  readonly chains = new Map<string, ObservedRule[]>();
  readonly builtIns: TableChain[] = [];
  /** Rules that jump from chains of others (and built-in ones) to chains of ours. */
  readonly references: Reference[] = [];
  readonly #referred = new Set<string>();
  readonly touched = new Set<string>();
  /** `ruleName`s of rules that batches have deleted since. */
  readonly deleted = new Set<string>();
  /** `ruleName`s of jumps that a repair has found as they are wanted. */
  readonly kept = new Set<string>();
  /** Chains (`chainId`) that a repair has compared. */
  readonly #taken = new Set<string>();
  readonly #isKnown: (id: string) => boolean;
  /** By `chainId`: the handles of rules by their expressions. */
  readonly #handles = new Map<string, Map<string, number>>();

  /** `isKnown`: whether the shared rule of this id was found. */
  constructor(family: Family, isKnown: (id: string) => boolean) {
    this.family = family;
    this.#isKnown = isKnown;
  }

  take({ id }: ServiceChain): HeldChain | undefined {
    this.#taken.add(id);
    return this.#held(id);
  }

  #held(id: string): HeldChain | undefined {
    const rules = this.chains.get(id);
    return rules && { chain: chainAt(id), rules, isReferred: this.#referred.has(id) };
  }

  *rest(): Generator<readonly [string, HeldChain]> {
    for (const id of this.chains.keys()) {
      if (this.#taken.has(id)) continue;
      const { table, chain } = chainAt(id);
      if (table !== 'nat' || !isServiceChain(chain)) continue;
      yield [id, this.#held(id)!];
    }
  }

  faultOf({ id }: SharedRule): 'missing' | undefined {
    return this.#isKnown(id) ? undefined : 'missing';
  }

  /** None: shared rules have handles, and `prune` in `repair.ts` deletes them. */
  shared(): readonly [] {
    return [];
  }

  /** Notes a rule of others that jumps to a chain of ours. */
  refer(reference: Reference): void {
    this.references.push(reference);
    this.#referred.add(chainId(reference.to));
  }

  /** The rules in chains of all Services, by `ruleName`. */
  async sharedRules(pause: Pause): Promise<Map<string, TableChain & { readonly handle: number }>> {
    const rules = new Map<string, TableChain & { readonly handle: number }>();
    for (const chain of sharedChains) {
      await inTurns(this.chains.get(chainId(chain)) ?? [], pause, ({ handle }) => {
        rules.set(ruleName(chain.table, handle), { ...chain, handle });
      });
    }
    return rules;
  }

  /** Notes a rule of a chain that `chains` has. */
  add(chain: TableChain, rule: ObservedRule): void {
    const id = chainId(chain);
    const rules = this.chains.get(id);
    if (rules === undefined) return;
    rules.push(rule);
    if (!sharedChainIds.has(id)) return;
    let handles = this.#handles.get(id);
    if (handles === undefined) {
      handles = new Map();
      this.#handles.set(id, handles);
    }
    const expressions = latin1(rule.expressions);
    if (!handles.has(expressions)) handles.set(expressions, rule.handle);
  }

  /** The handle of the first rule of a chain of all Services that has these expressions. */
  find(chain: TableChain, rule: Uint8Array): number | undefined {
    return this.#handles.get(chainId(chain))?.get(latin1(rule));
  }

  /** This mode has an order of endpoints of its own, so that there is none to adopt. */
  adopt(next: Forwarding): Forwarding {
    return next;
  }
}

/** Identifies a rule by table and handle. A table never uses a handle twice. */
export function ruleName(table: TableName, handle: number): string {
  return `${table} #${handle}`;
}

/** Reads our chains of one family. A dump that a change of the ruleset interrupts is read again. */
export async function observe(
  kernel: Kernel,
  family: Family,
  pause: Pause,
  isKnown: (id: string) => boolean = () => false,
): Promise<IptablesObservation> {
  for (let attempt = 1; attempt <= dumpAttempts; attempt += 1) {
    const found = new IptablesObservation(family, isKnown);
    found.generation = await kernel.generation();
    if ((await readAll(kernel, found, pause)) && (await kernel.generation()) === found.generation) {
      return found;
    }
  }
  throw new KernelError({
    operation: 'nft.dump',
    subject: `tables of ${family === 'IPv4' ? 'iptables' : 'ip6tables'}`,
    code: 'EINTR',
    words: `the ruleset changed during each of ${dumpAttempts} reads`,
  });
}

async function readAll(kernel: Kernel, found: IptablesObservation, pause: Pause): Promise<boolean> {
  const family = NFPROTO[found.family];
  const tables = await kernel.dump({ kind: 'tablesDump', family });
  if (!tables.consistent) return false;
  for (const record of tables.records) {
    if (record.kind === 'table' && record.family === family && isTableName(record.table)) {
      found.tables.add(record.table);
    }
  }
  for (const table of found.tables) {
    const { consistent, records } = await kernel.dump({ kind: 'chainsDump', family, table });
    if (!consistent) return false;
    // A chain counts its rules as uses: a chain without uses has no rules to read.
    const chains = records.flatMap((record) =>
      record.kind === 'chain' && record.use > 0 ? [record.chain] : [],
    );
    for (const record of records) readChain(found, table, record);
    if (!(await readRules(kernel, found, { table, chains, pause }))) return false;
  }
  return true;
}

/**
 * Asks for the rules of each chain. For every part of a dump of a whole table, the kernel walks the
 * rules from the first one (__nf_tables_dump_rules): half a minute for 256,000 rules.
 */
async function readRules(
  kernel: Kernel,
  found: IptablesObservation,
  { table, chains, pause }: { table: TableName; chains: readonly string[]; pause: Pause },
): Promise<boolean> {
  const family = NFPROTO[found.family];
  for (let i = 0; i < chains.length; i += requestsAtOnce) {
    const some = chains.slice(i, i + requestsAtOnce);
    const dumps = some.map((chain) => kernel.dump({ kind: 'rulesDump', family, table, chain }));
    for (const { consistent, records } of await Promise.all(dumps)) {
      if (!consistent) return false;
      await inTurns(records, pause, (record) => readRuleOf(found, table, record));
    }
  }
  return true;
}

function isTableName(name: string): name is TableName {
  return (tableNames as readonly string[]).includes(name);
}

function readChain(found: IptablesObservation, table: TableName, record: Reply): void {
  if (record.kind !== 'chain') return;
  const { chain, hook } = record;
  const isForeign = !isOurs(table, chain) && chain !== firewallChain;
  if (hook !== unknownIndex) found.builtIns.push({ table, chain });
  else if (isForeign) return;
  found.chains.set(chainId({ table, chain }), []);
}

function readRuleOf(found: IptablesObservation, table: TableName, record: Reply): void {
  if (record.kind !== 'rule') return;
  const { chain, handle, expressions: bytes } = record;
  const from = { table, chain };
  found.add(from, { handle, expressions: bytes });
  if (isOurs(table, chain)) return;
  const target = jumpTarget(bytes);
  if (target === undefined || !isOurs(table, target)) return;
  found.refer({ handle, expressions: bytes, from, to: { table, chain: target } });
}

/** The chain that a rule jumps or goes to; undefined = none. */
export function jumpTarget(rule: Uint8Array): string | undefined {
  for (const expression of readRecords(expressions, rule)) {
    if (expression.kind === 'immediateVerdict' && expression.chain !== '') return expression.chain;
  }
  return undefined;
}
