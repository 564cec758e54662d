/** Collects the ops of one transaction on our table and puts them into an order that works. */

import type { KernelFailure } from '../../kernel/kernel.ts';
import { acceptPolicy, type ChainDefinition } from '../../kernel/nft/chain.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { type Lane, SetLanes } from '../../kernel/nft/lane.ts';
import { compileRule } from '../../kernel/nft/rule.ts';
import type { SetDefinition } from '../../kernel/nft/sets.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import type { Family } from '../../net/address.ts';
import { mergeCIDRs } from '../../net/interval.ts';
import { binary } from '../elements.ts';
import type { Batch, Environment, ModeConfig } from '../mode.ts';
import { deletions, isNamedSet, type NamedObject } from '../named-objects.ts';
import type { TableOwnership } from '../ownership.ts';
import { fixedChains } from './chains.ts';
import type { Lanes } from './lanes.ts';
import { type SetDefinitions, setFields, tableComment, tableName } from './layout.ts';

export class TableWriter {
  readonly lanes: Lanes;
  readonly #family: Family;
  readonly #writer = new RecordWriter(nftOps);
  readonly #unused: string[] = [];
  #rulesAndObjects = 0;

  constructor(family: Family, sets: SetDefinitions) {
    this.#family = family;
    this.lanes = new SetLanes({ family, table: tableName }, sets);
  }

  get byteLength(): number {
    return this.#writer.byteLength + this.lanes.byteLength;
  }

  addTable(ownership: TableOwnership): void {
    this.#write(ownership.op, { ...this.#inTable(), comment: tableComment });
    ownership.made();
  }

  deleteTable(): void {
    this.#write('tableDelete', this.#inTable());
  }

  addSet(definition: SetDefinition): void {
    this.#write('setAdd', setFields(this.#family, definition));
  }

  /** Makes the chain and its rules; a chain that exists loses the rules that it had. */
  putChain({ name, base, rules }: ChainDefinition): void {
    const chain = { ...this.#inTable(), chain: name };
    const comment = '';
    if (base === undefined) this.#write('chainAdd', { ...chain, comment });
    else this.#write('baseChainAdd', { ...chain, ...base, policy: acceptPolicy, comment });
    this.#write('chainFlush', chain);
    for (const rule of rules) {
      this.#write('ruleAdd', { ...chain, expressions: compileRule(rule), comment });
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
    if (isThere) this.#write('setFlush', { ...this.#inTable(), set: definition.name });
    if (elements !== undefined) this.lanes.to('add', definition, '').packed(elements);
  }

  /** Deletes it at the end of the transaction, when nothing refers to it any more. */
  deleteObject(id: string): void {
    this.#unused.push(id);
  }

  /** Writes what differs between two environments. */
  environment(config: ModeConfig, before: Environment, next: Environment): void {
    this.#serviceCIDRs(before, next);
    const old = nodePortKeys(before);
    const wanted = nodePortKeys(next);
    for (const [id, key] of old) {
      if (!wanted.has(id)) this.lanes.to('delete', 'nodeport-ips', '').key(key);
    }
    for (const [id, key] of wanted) {
      if (!old.has(id)) this.lanes.to('add', 'nodeport-ips', '').key(key);
    }
    if ((before.nodePortAddresses === 'all') === (next.nodePortAddresses === 'all')) return;
    for (const chain of fixedChains(config, next)) {
      if (environmentChains.has(chain.name)) this.putChain(chain);
    }
  }

  #serviceCIDRs(before: Environment, next: Environment): void {
    const old = mergeCIDRs(before.serviceCIDRs);
    const wanted = mergeCIDRs(next.serviceCIDRs);
    const same =
      old.length === wanted.length &&
      old.every(({ first, last }, i) => {
        const other = wanted[i]!;
        return Buffer.compare(first, other.first) === 0 && Buffer.compare(last, other.last) === 0;
      });
    if (same) return;
    for (const range of old) this.lanes.to('delete', 'service-cidrs', '').range(range);
    for (const range of wanted) this.lanes.to('add', 'service-cidrs', '').range(range);
  }

  /** The transaction; undefined when there is nothing to do. */
  batch(): Batch | undefined {
    const lanes = this.lanes.write(this.#writer);
    this.#deleteUnused();
    if (this.#writer.count === 0) return undefined;
    return {
      ops: this.#writer.finish(),
      writes: this.#rulesAndObjects + this.lanes.count,
      culprits: (failure) => culprits(lanes, failure),
    };
  }

  #deleteUnused(): void {
    for (const { kind, ...fields } of deletions(this.#inTable(), this.#unused)) {
      this.#write(kind, fields as never);
    }
  }

  #inTable() {
    return { family: NFPROTO[this.#family], table: tableName };
  }

  readonly #write: RecordWriter<typeof nftOps>['write'] = (kind, fields) => {
    this.#rulesAndObjects += 1;
    return this.#writer.write(kind, fields);
  };
}

/** The chains that depend on the environment. */
export const environmentChains: ReadonlySet<string> = new Set([
  'services',
  'nodeport-endpoints-check',
]);

/** Keys of `nodeport-ips`, each once. */
export function nodePortKeys({ nodePortAddresses }: Environment): Map<string, Uint8Array> {
  const addresses = nodePortAddresses === 'all' ? [] : nodePortAddresses;
  return new Map(addresses.map(({ bytes }) => [binary(bytes), bytes]));
}

function culprits(lanes: ReadonlyMap<number, Lane>, failure: KernelFailure): string[] {
  const lane = failure.op === undefined ? undefined : lanes.get(failure.op);
  const owner = lane?.ownerOf(failure.entry);
  return owner === undefined || owner === '' ? [] : [owner];
}
