/** Applies ops to the fake kernel's state, one after the other. */
import type { GoneRule } from '../../src/kernel/kernel.ts';
import { NFT_DATA_VERDICT, NFT_SET, NFT_TABLE } from '../../src/kernel/nft/constants.ts';
import { keepPolicy, type NftOp } from '../../src/kernel/ops.ts';
import { ElementWriter } from './nft-elements.ts';
import { unpack } from './nft-entries.ts';
import { checkRule, readRule, referencesOf } from './nft-rule.ts';
import {
  type BaseChain,
  type Chain,
  Journal,
  type NftSet,
  type Rule,
  type Table,
  type Tables,
  tableId,
} from './nft-state.ts';
import type { Compat } from './nft-xt.ts';
import { Refusal } from './refusal.ts';

type Op<K extends NftOp['kind']> = Extract<NftOp, { kind: K }>;
type XtRuleOp = Op<'xtRuleAdd' | 'xtRuleInsert'>;
type RuleOp = Op<'ruleAdd'> | XtRuleOp;

/** The hooks that nf_tables allows for each type of base chain (struct nft_chain_type). */
const hooksOfType: Readonly<Record<string, readonly number[]>> = {
  filter: [0, 1, 2, 3, 4],
  nat: [0, 1, 3, 4],
  route: [3],
};
/** NF_IP_PRI_CONNTRACK: a nat chain must come after it. */
const conntrackPriority = -200;

/** The sender of a transaction, and the features of the kernel. */
export interface Circumstances extends Omit<Compat, 'protocol'> {
  readonly nextHandle: () => number;
  /** The netlink port that the transaction comes from. */
  readonly port: number;
  /** Whether the kernel has tables that have an owner and outlive it. */
  readonly hasOwnership: boolean;
  readonly hasBorrowing: boolean;
}

export class Transaction {
  readonly #tables: Tables;
  readonly #circumstances: Circumstances;
  readonly #journal = new Journal();
  /** Tables that have got an owner. */
  readonly #claimed = new Set<string>();
  /** Tables with a new rule or verdict that the commit must validate. */
  readonly unchecked = new Set<Table>();
  /** Handles of new rules, by the index of their op, for the ops that ask. */
  readonly handles = new Map<number, number>();
  /** Rules that ops with `echo` have deleted. */
  readonly gone = new Map<number, GoneRule>();

  constructor(tables: Tables, circumstances: Circumstances) {
    this.#tables = tables;
    this.#circumstances = circumstances;
  }

  get changed(): boolean {
    return this.#journal.changed;
  }

  rollback(): void {
    this.#journal.rollback();
  }

  /**
   * Applies an op, or throws a Refusal. Entries before the refused one of an elements op stay
   * applied. `index` is that of the op in its batch.
   */
  run(op: NftOp, index: number): void {
    switch (op.kind) {
      case 'tableAdd':
        this.#addTable(op, 0);
        break;
      case 'tableOwn':
        this.#ownTable(op);
        break;
      case 'tableBorrow':
        if (!this.#circumstances.hasBorrowing) throw new Refusal('EOPNOTSUPP');
        this.#addTable(op, NFT_TABLE.OWNER);
        break;
      case 'tableDelete':
        this.#table(op);
        this.#journal.delete(this.#tables, tableId(op.family, op.table));
        break;
      case 'chainAdd':
        this.#addChain(op, undefined);
        break;
      case 'baseChainAdd':
        this.#addChain(op, op);
        break;
      case 'chainDelete':
        this.#deleteChain(op);
        break;
      case 'chainFlush':
        this.#setRules(this.#table(op), this.#chain(op), []);
        break;
      case 'ruleAdd':
        this.#addRule(op, op.comment);
        break;
      case 'xtRuleAdd':
      case 'xtRuleInsert': {
        const handle = this.#addRule(op, '');
        if (op.echo !== 0) this.handles.set(index, handle);
        break;
      }
      case 'ruleDelete':
        this.#deleteRule(op, index);
        break;
      case 'setAdd':
        this.#addSet(op);
        break;
      case 'setDelete':
        this.#deleteSet(op);
        break;
      case 'objectDelete': {
        const { others } = this.#table(op);
        const id = `${op.type} ${op.object}`;
        if (!others.has(id)) throw new Refusal('ENOENT');
        this.#journal.delete(others, id);
        break;
      }
      case 'flowtableAdd':
      case 'flowtableDevicesDelete':
        this.#changeFlowtable(op);
        break;
      case 'setFlush':
        new ElementWriter(this.#table(op), this.#set(op), this.#journal).flush();
        break;
      case 'elementsAdd':
      case 'elementsDelete':
        this.#elements(op);
    }
  }

  #table({ family, table: name }: { family: number; table: string }): Table {
    const table = this.#tables.get(tableId(family, name));
    if (table === undefined) throw new Refusal('ENOENT');
    this.#checkOwner(table);
    return table;
  }

  /** nft_table_lookup */
  #checkOwner({ owner }: Table): void {
    if (owner !== 0 && owner !== this.#circumstances.port) throw new Refusal('EPERM');
  }

  #chain(op: { family: number; table: string; chain: string }): Chain {
    const chain = this.#table(op).chains.get(op.chain);
    if (chain === undefined) throw new Refusal('ENOENT');
    return chain;
  }

  #set(op: { family: number; table: string; set: string }): NftSet {
    const set = this.#table(op).sets.get(op.set);
    if (set === undefined) throw new Refusal('ENOENT');
    return set;
  }

  #addTable(
    { family, table: name, comment }: Op<'tableAdd' | 'tableBorrow' | 'tableOwn'>,
    flags: number,
  ): void {
    const known = this.#tables.get(tableId(family, name));
    if (known !== undefined) {
      this.#checkOwner(known);
      return;
    }
    this.#journal.set(this.#tables, tableId(family, name), {
      family,
      name,
      handle: this.#circumstances.nextHandle(),
      comment,
      flags,
      owner: flags === 0 ? 0 : this.#circumstances.port,
      chains: new Map(),
      sets: new Map(),
      others: new Map(),
      flowtables: new Map(),
      uses: new Map(),
      recent: new Map(),
    });
  }

  /** Does not look for devices. Adding one again is not an error (nft_flowtable_update). */
  #changeFlowtable(op: Op<'flowtableAdd' | 'flowtableDevicesDelete'>): void {
    const { flowtables, others } = this.#table(op);
    const { flowtable: name } = op;
    const known = flowtables.get(name);
    const devices = new Set(known?.devices.split(' ').filter((one) => one !== ''));
    if (op.kind === 'flowtableDevicesDelete') {
      if (known === undefined || !devices.delete(op.devices)) throw new Refusal('ENOENT');
      this.#journal.set(flowtables, name, { ...known, devices: [...devices].join(' ') });
      return;
    }
    if (op.devices !== '') devices.add(op.devices);
    const { flags, priority } = op;
    this.#journal.set(flowtables, name, { flags, priority, devices: [...devices].join(' ') });
    this.#journal.set(others, `0 ${name}`, { type: 0, object: name });
  }

  /** Sets the owner. Only a table that has lost its owner may get another (nf_tables_updtable). */
  #ownTable(op: Op<'tableOwn'>): void {
    const { hasOwnership, port } = this.#circumstances;
    const id = tableId(op.family, op.table);
    const owned = NFT_TABLE.OWNER | NFT_TABLE.PERSIST;
    if (!hasOwnership) throw new Refusal('EOPNOTSUPP');
    this.#addTable(op, owned);
    const table = this.#tables.get(id)!;
    if (table.flags === owned) return;
    if (table.flags !== NFT_TABLE.PERSIST) throw new Refusal('EOPNOTSUPP');
    this.#claimed.add(id);
    this.#journal.set(this.#tables, id, { ...table, flags: owned, owner: port });
  }

  /** A chain that exists keeps its comment; a base chain may get another policy. */
  #addChain(op: Op<'chainAdd' | 'baseChainAdd'>, base: BaseChain | undefined): void {
    const { chains } = this.#table(op);
    const isClaimed = this.#claimed.has(tableId(op.family, op.table));
    if (base !== undefined && isClaimed && !chains.has(op.chain)) throw new Refusal('EINVAL');
    const known = chains.get(op.chain);
    if (base !== undefined) checkBase(base, known);
    const { chain: name, comment } = op;
    const chain = known ?? {
      name,
      handle: this.#circumstances.nextHandle(),
      base: undefined,
      comment,
      rules: [],
    };
    this.#journal.set(chains, name, { ...chain, base: base ? baseOf(base, known) : chain.base });
  }

  /** Deletes the chain and its rules (nf_tables_delchain). */
  #deleteChain(op: Op<'chainDelete'>): void {
    const table = this.#table(op);
    this.#setRules(table, this.#chain(op), []);
    if ((table.uses.get(`chain ${op.chain}`) ?? 0) > 0) throw new Refusal('EBUSY');
    this.#journal.delete(table.chains, op.chain);
  }

  /** Replaces a chain's rules. Callers have checked the new ones. */
  #setRules(table: Table, chain: Chain, rules: readonly Rule[]): void {
    const [before, after] = [new Set(chain.rules), new Set(rules)];
    const gone = chain.rules.filter((rule) => !after.has(rule));
    const come = rules.filter((rule) => !before.has(rule));
    if (gone.length === 0 && come.length === 0) return;
    for (const rule of gone) this.#refer(table, rule, -1);
    for (const rule of come) this.#refer(table, rule, 1);
    this.#journal.set(table.chains, chain.name, { ...chain, rules });
  }

  #refer({ uses }: Table, { expressions }: Rule, step: 1 | -1): void {
    for (const reference of referencesOf(readRule(expressions))) {
      this.#journal.count(uses, reference, step);
    }
  }

  /** A set that packets fill gets a size, if it has none (nft_dynset_init). */
  #limitFilledSets({ sets }: Table, rule: Uint8Array): void {
    for (const expression of readRule(rule)) {
      if (expression.kind !== 'dynset') continue;
      const set = sets.get(expression.set)!;
      const { fields } = set;
      if (fields.size > 0) continue;
      this.#journal.set(sets, expression.set, { ...set, fields: { ...fields, size: 0xffff } });
    }
  }

  #addRule(op: RuleOp, comment: string): number {
    const table = this.#table(op);
    const chain = this.#chain(op);
    const at = indexFor(chain, op);
    const expressions = op.expressions.slice();
    const protocol = 'protocol' in op ? op.protocol : 0;
    checkRule(table, readRule(expressions), { protocol, ...this.#circumstances });
    this.#limitFilledSets(table, expressions);
    const rule = { handle: this.#circumstances.nextHandle(), expressions, comment, packets: 0 };
    this.unchecked.add(table);
    this.#setRules(table, chain, chain.rules.toSpliced(at, 0, rule));
    return rule.handle;
  }

  #deleteRule(op: Op<'ruleDelete'>, index: number): void {
    const chain = this.#chain(op);
    const rule = ruleOf(chain, op.handle);
    if (op.echo !== 0) this.gone.set(index, rule);
    const rest = chain.rules.filter((other) => other !== rule);
    this.#setRules(this.#table(op), chain, rest);
  }

  /** Adds a set. One that exists may differ only in size and timeout (nft_set_is_same). */
  #addSet({ kind: _, ...op }: Op<'setAdd'>): void {
    checkSet(op);
    const { sets } = this.#table(op);
    const fields = { ...op };
    const known = sets.get(op.set);
    if (known !== undefined && !sameSet(known.fields, fields)) throw new Refusal('EEXIST');
    const set = known ?? { handle: this.#circumstances.nextHandle(), fields, elements: new Map() };
    const { timeoutMs } = fields;
    // Without a size in the op, the set keeps its own (nft_set_update).
    const size = fields.size === 0 ? set.fields.size : fields.size;
    this.#journal.set(sets, op.set, { ...set, fields: { ...set.fields, size, timeoutMs } });
  }

  #deleteSet(op: Op<'setDelete'>): void {
    const table = this.#table(op);
    const set = this.#set(op);
    if ((table.uses.get(`set ${op.set}`) ?? 0) > 0) throw new Refusal('EBUSY');
    new ElementWriter(table, set, this.#journal).flush();
    this.#journal.delete(table.sets, op.set);
  }

  #elements(op: Op<'elementsAdd' | 'elementsDelete'>): void {
    const elements = unpack(op);
    // An op without entries makes no message.
    if (elements.length === 0) return;
    const table = this.#table(op);
    const writer = new ElementWriter(table, this.#set(op), this.#journal);
    for (const [entry, element] of elements.entries()) {
      try {
        if (op.kind === 'elementsAdd') writer.add(element);
        else writer.delete(element);
      } catch (error) {
        throw error instanceof Refusal ? new Refusal(error.code, entry) : error;
      }
    }
    const verdicts = op.kind === 'elementsAdd' && elements[0]?.verdict !== undefined;
    if (verdicts) this.unchecked.add(table);
  }
}

function ruleOf({ rules }: Chain, handle: number): Rule {
  const rule = rules.find((candidate) => candidate.handle === handle);
  if (rule === undefined) throw new Refusal('ENOENT');
  return rule;
}

/** The index at which the op puts its rule. */
function indexFor(chain: Chain, op: RuleOp): number {
  const neighbour = 'position' in op ? op.position : 0;
  const at = (handle: number): number => chain.rules.indexOf(ruleOf(chain, handle));
  if (op.kind === 'xtRuleInsert') return neighbour === 0 ? 0 : at(neighbour);
  return neighbour === 0 ? chain.rules.length : at(neighbour) + 1;
}

function checkBase({ type, hook, priority, policy }: BaseChain, known: Chain | undefined): void {
  if (known !== undefined && known.base === undefined) throw new Refusal('EOPNOTSUPP');
  if (policy !== 0 && policy !== 1 && policy !== keepPolicy) throw new Refusal('EINVAL');
  const hooks = hooksOfType[type];
  if (hooks === undefined) throw new Refusal('ENOENT');
  if (!hooks.includes(hook)) throw new Refusal('EOPNOTSUPP');
  if (type === 'nat' && priority <= conntrackPriority) throw new Refusal('EOPNOTSUPP');
  if (known?.base === undefined) return;
  const { type: oldType, hook: oldHook, priority: oldPriority } = known.base;
  if (oldType !== type) throw new Refusal('EEXIST');
  if (oldHook !== hook || oldPriority !== priority) throw new Refusal('EOPNOTSUPP');
}

function baseOf({ type, hook, priority, policy }: BaseChain, known: Chain | undefined): BaseChain {
  const kept = known?.base?.policy ?? 1;
  return { type, hook, priority, policy: policy === keepPolicy ? kept : policy };
}

function sameSet(a: NftSet['fields'], b: NftSet['fields']): boolean {
  return (
    a.flags === b.flags &&
    a.keyType === b.keyType &&
    a.keyLength === b.keyLength &&
    a.dataType === b.dataType &&
    a.dataLength === b.dataLength
  );
}

function checkSet(fields: Omit<Op<'setAdd'>, 'kind'>): void {
  const { flags, keyLength, dataType, dataLength, timeoutMs } = fields;
  const has = (flag: number): boolean => (flags & flag) !== 0;
  const wrong =
    keyLength === 0 ||
    keyLength > 64 ||
    dataLength > 64 ||
    (has(NFT_SET.MAP) && dataType !== NFT_DATA_VERDICT && dataLength === 0) ||
    (timeoutMs !== 0 && !has(NFT_SET.TIMEOUT)) ||
    // Needs a description of the parts.
    has(NFT_SET.CONCAT);
  if (wrong) throw new Refusal('EINVAL');
}
