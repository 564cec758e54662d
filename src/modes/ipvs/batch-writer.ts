/**
 * Collects the ops of one batch and puts them into an order that is safe at each step, for only
 * its parts about nf_tables are transactions: a frontend appears when all that it needs is there,
 * and what it needed goes after it.
 */
import type { KernelFailure } from '../../kernel/kernel.ts';
import { acceptPolicy, type ChainDefinition } from '../../kernel/nft/chain.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { SetLanes } from '../../kernel/nft/lane.ts';
import { compileRule } from '../../kernel/nft/rule.ts';
import { fieldsOfSet, type SetDefinition } from '../../kernel/nft/sets.ts';
import { kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { IFA_F } from '../../kernel/route-ops.ts';
import { addressBytes, type Family } from '../../net/address.ts';
import type { Batch } from '../mode.ts';
import { deletions, isNamedSet, type NamedObject } from '../named-objects.ts';
import type { TableOwnership } from '../ownership.ts';
import { linkName, type SetDefinitions, type SetName, tableComment, tableName } from './layout.ts';

type Writer = RecordWriter<typeof kernelOps>;

/** One op, and who is to blame if the kernel refuses it; empty = nobody in particular. */
export interface PlannedOp {
  readonly owner: string;
  /** Appends the op; returns its index. */
  readonly write: (out: Writer) => number;
}

interface PlannedAddress {
  readonly owner: string;
  readonly bytes: Uint8Array;
}

/** Who is to blame for an op that was refused, or for one of its entries. */
type Blame = (entry: number | undefined) => string | undefined;

/** Approximate bytes of one op, for `byteLength`. */
const opBytes = 64;

export class BatchWriter {
  /** Elements that the first transaction changes. */
  readonly first: SetLanes<SetName>;
  /** Elements that the last transaction changes. */
  readonly last: SetLanes<SetName>;
  /** Virtual services and real servers that come, before addresses do. */
  readonly additions: PlannedOp[] = [];
  /** Those that go, after addresses did, and after what takes their place has come. */
  readonly removals: PlannedOp[] = [];
  readonly #family: Family;
  readonly #table: PlannedOp[] = [];
  /** Ids of chains and sets. */
  readonly #unused: string[] = [];
  readonly #bound: PlannedAddress[] = [];
  readonly #unbound: PlannedAddress[] = [];
  #link: 'is there' | 'missing' = 'is there';

  constructor(family: Family, sets: SetDefinitions) {
    this.#family = family;
    const table = { family, table: tableName };
    this.first = new SetLanes(table, sets);
    this.last = new SetLanes(table, sets);
  }

  get byteLength(): number {
    const ops = this.#table.length + this.additions.length + this.removals.length;
    const addresses = this.#bound.length + this.#unbound.length;
    const elements = this.first.byteLength + this.last.byteLength;
    return elements + ops * opBytes + addresses * addressBytes[this.#family];
  }

  addTable(ownership: TableOwnership): void {
    const { op } = ownership;
    const fields = { ...this.#inTable(), comment: tableComment };
    this.#plan((out) => out.write(op, fields));
    ownership.made();
  }

  deleteTable(): void {
    this.#plan((out) => out.write('tableDelete', this.#inTable()));
  }

  addSet(definition: SetDefinition): void {
    const fields = fieldsOfSet(this.#family, tableName, definition);
    this.#plan((out) => out.write('setAdd', fields));
  }

  /** Makes the chain and its rules; a chain that exists loses the rules that it had. */
  putChain({ name, base, rules }: ChainDefinition): void {
    const chain = { ...this.#inTable(), chain: name };
    const comment = '';
    if (base === undefined) {
      this.#plan((out) => out.write('chainAdd', { ...chain, comment }));
    } else {
      const fields = { ...chain, ...base, policy: acceptPolicy, comment };
      this.#plan((out) => out.write('baseChainAdd', fields));
    }
    this.#plan((out) => out.write('chainFlush', chain));
    for (const rule of rules) {
      const fields = { ...chain, expressions: compileRule(rule), comment };
      this.#plan((out) => out.write('ruleAdd', fields));
    }
  }

  /** Makes the object whole. `isThere`: the set may exist, and hold anything. */
  putObject(object: NamedObject, isThere: boolean): void {
    if (!isNamedSet(object)) {
      this.putChain(object);
      return;
    }
    const { definition, elements } = object;
    this.addSet(definition);
    if (elements === undefined) return;
    const set = { ...this.#inTable(), set: definition.name };
    if (isThere) this.#plan((out) => out.write('setFlush', set));
    this.first.to('add', definition, '').packed(elements);
  }

  /** Deletes a chain or a set that nothing of ours refers to. */
  deleteObject(id: string): void {
    this.#unused.push(id);
  }

  addLink(): void {
    this.#link = 'missing';
  }

  /** Puts an address on our link. */
  bind(owner: string, bytes: Uint8Array): void {
    this.#bound.push({ owner, bytes });
  }

  unbind(owner: string, bytes: Uint8Array): void {
    this.#unbound.push({ owner, bytes });
  }

  /** Undefined when there is nothing to do. */
  batch(): Batch | undefined {
    const out: Writer = new RecordWriter(kernelOps);
    const blames = new Map<number, Blame>();
    const writeAll = (ops: readonly PlannedOp[]): void => {
      for (const { owner, write } of ops) blames.set(write(out), () => owner);
    };
    const writeLanes = (lanes: SetLanes<SetName>): void => {
      for (const [op, lane] of lanes.write(out)) blames.set(op, (entry) => lane.ownerOf(entry));
    };
    writeAll(this.#table);
    writeLanes(this.first);
    writeAll(this.additions);
    this.#writeLink(out, blames);
    writeAll(this.removals);
    writeLanes(this.last);
    const unused = this.#deleteUnused(out);
    if (out.count === 0) return undefined;
    const lanes = this.first.count + this.last.count;
    const addresses = this.#bound.length + this.#unbound.length;
    const others = this.#table.length + this.additions.length + this.removals.length;
    const links = this.#link === 'missing' ? 1 : 0;
    return {
      ops: out.finish(),
      transactions: this.#transactions(others - this.#table.length + addresses + links),
      writes: lanes + unused + addresses + others + links,
      culprits: (failure) => culprits(blames, failure),
    };
  }

  /** Returns how many ops that takes. */
  #deleteUnused(out: Writer): number {
    const { count } = out;
    for (const { kind, ...fields } of deletions(this.#inTable(), this.#unused)) {
      out.write(kind, fields as never);
    }
    return out.count - count;
  }

  /** How many transactions of nf_tables there are, with so many other ops between them. */
  #transactions(between: number): number {
    const first = this.#table.length + this.first.count > 0 ? 1 : 0;
    const last = this.last.count + this.#unused.length > 0 ? 1 : 0;
    return between === 0 ? Math.max(first, last) : first + last;
  }

  #writeLink(out: Writer, blames: Map<number, Blame>): void {
    if (this.#link === 'missing') out.write('linkAdd', { link: linkName, type: 'dummy' });
    const fields = {
      family: NFPROTO[this.#family],
      link: linkName,
      index: 0,
      prefixLength: addressBytes[this.#family] * 8,
    };
    for (const [kind, planned] of [
      ['addressesAdd', this.#bound],
      ['addressesDelete', this.#unbound],
    ] as const) {
      if (planned.length === 0) continue;
      const addresses = Buffer.concat(planned.map(({ bytes }) => bytes));
      const op =
        kind === 'addressesAdd'
          ? out.write(kind, { ...fields, addresses, flags: IFA_F.NODAD })
          : out.write(kind, { ...fields, addresses });
      const [first, ...rest] = planned;
      blames.set(op, (entry) => {
        if (entry !== undefined) return planned[entry]?.owner;
        return rest.length === 0 ? first!.owner : undefined;
      });
    }
  }

  #plan(write: PlannedOp['write']): void {
    this.#table.push({ owner: '', write });
  }

  #inTable() {
    return { family: NFPROTO[this.#family], table: tableName };
  }
}

function culprits(blames: ReadonlyMap<number, Blame>, { op, entry }: KernelFailure): string[] {
  const owner = op === undefined ? undefined : blames.get(op)?.(entry);
  return owner === undefined || owner === '' ? [] : [owner];
}
