/** What the kernel holds of ours among the tables of iptables. */

import type { KernelReader, ReplyOf } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { expressions, type Reply, unknownIndex } from '../../kernel/ops.ts';
import { readRecords } from '../../kernel/records.ts';
import { steadyDump } from '../../kernel/steady.ts';
import type { Family } from '../../net/address.ts';
import { inTurns, type Pause } from '../../time/pacer.ts';
import type { Found } from '../backend.ts';
import { chainId, firewallChain, type Part, type TableChain, wholeMode } from './layout.ts';
import { isServiceChain, type TableName } from './names.ts';
import {
  chainAt,
  type IptablesObjects,
  type ObservedChain,
  type ObservedRule,
  type ServiceChain,
  type SharedRule,
} from './objects.ts';
import { PackedChains } from './packed-chains.ts';

/**
 * Requests in flight, so that the thread that asks the kernel does not wait for the main thread.
 * Each answer is packed as soon as it comes: 64 chains of 31 rules are a megabyte of objects.
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
  readonly part: Part;
  readonly tables = new Set<TableName>();
  /** The rules of built-in chains, and of ours that belong to no Service, in order, by `chainId`. */
  readonly #fixed = new Map<string, ObservedRule[]>();
  /** Those of Services, by `chainId`. */
  readonly #packed = new PackedChains();
  readonly builtIns: TableChain[] = [];
  /** Rules that jump from chains of others (and built-in ones) to chains of ours. */
  readonly references: Reference[] = [];
  readonly #referred = new Set<string>();
  /** Ids of rules that must be the last of their chain, and are not. */
  readonly misplaced = new Set<string>();
  /** Chains (`chainId`) that a repair has compared. */
  readonly #taken = new Set<string>();
  readonly #isKnown: (id: string) => boolean;
  /** By `chainId`: the handles of rules by their expressions, except in chains of Services. */
  readonly #handles = new Map<string, Map<string, number>>();

  /** `isKnown`: whether the shared rule of this id was found. */
  constructor(family: Family, part: Part, isKnown: (id: string) => boolean) {
    this.family = family;
    this.part = part;
    this.#isKnown = isKnown;
  }

  /** Some rule leads packets into our chains. */
  get isHooked(): boolean {
    return this.references.length > 0;
  }

  take({ id }: ServiceChain): ObservedChain | undefined {
    this.#taken.add(id);
    return this.#observed(id);
  }

  #observed(id: string): ObservedChain | undefined {
    const rules = this.rulesOf(id);
    return rules && { chain: chainAt(id), rules, isReferred: this.#referred.has(id) };
  }

  *rest(): Generator<readonly [string, ObservedChain]> {
    for (const id of this.#packed.keys()) {
      if (!this.#taken.has(id)) yield [id, this.#observed(id)!];
    }
  }

  faultOf({ id }: SharedRule): 'missing' | 'wrong' | undefined {
    if (this.#isKnown(id)) return undefined;
    return this.misplaced.has(id) ? 'wrong' : 'missing';
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

  /** The rules of these chains, by `ruleName`. */
  async rulesIn(
    chains: readonly TableChain[],
    pause: Pause,
  ): Promise<Map<string, TableChain & { readonly handle: number }>> {
    const rules = new Map<string, TableChain & { readonly handle: number }>();
    for (const chain of chains) {
      await inTurns(this.#fixed.get(chainId(chain)) ?? [], pause, ({ handle }) => {
        rules.set(ruleName(chain.table, handle), { ...chain, handle });
      });
    }
    return rules;
  }

  /** `chainId`s of our chains and of built-in ones. */
  *chainIds(): Generator<string> {
    yield* this.#fixed.keys();
    yield* this.#packed.keys();
  }

  /** Returns the rules of one of our chains or a built-in one, in order; undefined without it. */
  rulesOf(id: string): readonly ObservedRule[] | undefined {
    return this.#fixed.get(id) ?? this.#packed.get(id);
  }

  /** Notes a chain of ours, or a built-in one. */
  addChain(chain: TableChain): void {
    const id = chainId(chain);
    if (isOfService(chain)) this.#packed.add(id);
    else this.#fixed.set(id, []);
  }

  /** Notes the rules of a chain of a Service. */
  setRules(chain: TableChain, rules: readonly ObservedRule[]): void {
    const id = chainId(chain);
    if (this.#packed.has(id)) this.#packed.set(id, rules);
  }

  /** Notes a rule of a chain that belongs to no Service. */
  add(chain: TableChain, rule: ObservedRule): void {
    const id = chainId(chain);
    const rules = this.#fixed.get(id);
    if (rules === undefined) return;
    rules.push(rule);
    let handles = this.#handles.get(id);
    if (handles === undefined) {
      handles = new Map();
      this.#handles.set(id, handles);
    }
    const expressions = latin1(rule.expressions);
    if (!handles.has(expressions)) handles.set(expressions, rule.handle);
  }

  /** The handle of the first rule of a chain that has these expressions. */
  find(chain: TableChain, rule: Uint8Array): number | undefined {
    return this.#handles.get(chainId(chain))?.get(latin1(rule));
  }
}

/** Whether a chain has the name of one that belongs to a Service. */
function isOfService({ table, chain }: TableChain): boolean {
  return table === 'nat' && isServiceChain(chain);
}

/** Identifies a rule by table and handle. A table never uses a handle twice. */
export function ruleName(table: TableName, handle: number): string {
  return `${table} #${handle}`;
}

/** Reads our chains of one family. The ruleset may change in the meantime. */
export async function observe(
  kernel: KernelReader,
  family: Family,
  pause: Pause,
  isKnown: (id: string) => boolean = () => false,
  part = wholeMode,
): Promise<IptablesObservation> {
  const found = new IptablesObservation(family, part, isKnown);
  await readAll(kernel, found, pause);
  return found;
}

async function readAll(
  kernel: KernelReader,
  found: IptablesObservation,
  pause: Pause,
): Promise<void> {
  const family = NFPROTO[found.family];
  for (const record of await steadyDump(kernel, { kind: 'tablesDump', family })) {
    if (record.kind !== 'table' || record.family !== family) continue;
    const table = found.part.tables.find((name) => name === record.table);
    if (table !== undefined) found.tables.add(table);
  }
  for (const table of found.tables) {
    const chains: string[] = [];
    const dump = { kind: 'chainsDump', family, table } as const;
    await steadyDump(kernel, dump, (record) => {
      if (record.kind !== 'chain') return;
      readChain(found, table, record);
      // A chain counts its rules as uses: a chain without uses has no rules to read.
      if (record.use > 0) chains.push(record.chain);
    });
    await readRules(kernel, found, { table, chains, pause });
  }
}

/**
 * Asks for the rules of each chain. For every part of a dump of a whole table, the kernel walks the
 * rules from the first one (__nf_tables_dump_rules): half a minute for 256,000 rules.
 */
async function readRules(
  kernel: KernelReader,
  found: IptablesObservation,
  { table, chains, pause }: { table: TableName; chains: readonly string[]; pause: Pause },
): Promise<void> {
  for (let i = 0; i < chains.length; i += requestsAtOnce) {
    const some = chains.slice(i, i + requestsAtOnce);
    await Promise.all(some.map((chain) => readRulesOf(kernel, found, { table, chain })));
    const rest = pause();
    if (rest !== undefined) await rest;
  }
}

async function readRulesOf(
  kernel: KernelReader,
  found: IptablesObservation,
  from: TableChain,
): Promise<void> {
  const dump = { kind: 'rulesDump', family: NFPROTO[found.family], ...from } as const;
  const rules: ObservedRule[] = [];
  await steadyDump(kernel, dump, (record) => {
    if (!isOfService(from)) readRuleOf(found, from.table, record);
    else if (isRule(record)) rules.push(record);
  });
  found.setRules(from, rules);
}

function readChain(
  found: IptablesObservation,
  table: TableName,
  { chain, hook }: ReplyOf<'chain'>,
): void {
  const isForeign = !found.part.has(table, chain) && chain !== firewallChain;
  if (hook !== unknownIndex) found.builtIns.push({ table, chain });
  else if (isForeign) return;
  found.addChain({ table, chain });
}

function isRule(record: Reply): record is ReplyOf<'rule'> {
  return record.kind === 'rule';
}

function readRuleOf(found: IptablesObservation, table: TableName, record: Reply): void {
  if (!isRule(record)) return;
  const { chain, handle, expressions: bytes } = record;
  const from = { table, chain };
  found.add(from, { handle, expressions: bytes });
  if (found.part.has(table, chain)) return;
  const target = jumpTarget(bytes) ?? '';
  if (!found.part.has(table, target)) return;
  found.refer({ handle, expressions: bytes, from, to: { table, chain: target } });
}

/** The chain that a rule jumps or goes to; undefined = none. */
export function jumpTarget(rule: Uint8Array): string | undefined {
  for (const expression of readRecords(expressions, rule)) {
    if (expression.kind === 'immediateVerdict' && expression.chain !== '') return expression.chain;
  }
  return undefined;
}
