/** Writes the content of a table, except elements. */
import { acceptPolicy, type ChainDefinition } from '../../kernel/nft/chain.ts';
import type { ElementBuffers } from '../../kernel/nft/element-buffer.ts';
import { compileRule } from '../../kernel/nft/rule.ts';
import { fieldsOfSet, type SetDefinition } from '../../kernel/nft/sets.ts';
import type { nftOps } from '../../kernel/ops.ts';
import type { RecordWriter } from '../../kernel/records.ts';
import { inTable, type TableLayout } from './layout.ts';
import { deletions, isNamedSet, type NamedObject } from './objects.ts';
import type { TableOwnership } from './ownership.ts';

export class TableWriter<Name extends string> {
  readonly #layout: TableLayout<Name>;
  readonly #out: Pick<RecordWriter<typeof nftOps>, 'write'>;
  /** For the elements of sets that are made with their content. */
  readonly #buffers: ElementBuffers<Name>;
  #count = 0;
  #makesLayout = false;

  constructor(
    layout: TableLayout<Name>,
    out: Pick<RecordWriter<typeof nftOps>, 'write'>,
    buffers: ElementBuffers<Name>,
  ) {
    this.#layout = layout;
    this.#out = out;
    this.#buffers = buffers;
  }

  /** Ops that were written. */
  get count(): number {
    return this.#count;
  }

  /** Whether it makes the table, or sets of its layout. */
  get makesLayout(): boolean {
    return this.#makesLayout;
  }

  /** Makes the table and the sets of its layout. `isThere`: deletes the existing table first. */
  startTable(ownership: TableOwnership, isThere: boolean): void {
    const { comment, sets } = this.#layout;
    const table = inTable(this.#layout);
    if (isThere) this.#write('tableDelete', table);
    this.#write(ownership.op, { ...table, comment });
    ownership.made();
    for (const definition of Object.values<SetDefinition>(sets)) this.addSet(definition);
  }

  /** Makes a set of the layout. */
  addSet(definition: SetDefinition): void {
    this.#makesLayout = true;
    this.#addSet(definition);
  }

  #addSet(definition: SetDefinition): void {
    const { family, table } = this.#layout;
    this.#write('setAdd', fieldsOfSet(family, table, definition));
  }

  /** Makes the chain and its rules; a chain that exists loses the rules that it had. */
  putChain({ name, base, rules }: ChainDefinition): void {
    const chain = { ...inTable(this.#layout), chain: name };
    const comment = '';
    if (base === undefined) this.#write('chainAdd', { ...chain, comment });
    else this.#write('baseChainAdd', { ...chain, ...base, policy: acceptPolicy, comment });
    this.#write('chainFlush', chain);
    for (const rule of rules) {
      this.#write('ruleAdd', { ...chain, expressions: compileRule(rule), comment });
    }
  }

  /** Makes the object whole. `isThere`: the set may hold anything. */
  putObject(object: NamedObject, isThere: boolean): void {
    if (!isNamedSet(object)) {
      this.putChain(object);
      return;
    }
    const { definition, elements } = object;
    if (!(definition.name in this.#layout.sets)) this.#addSet(definition);
    if (isThere) this.#write('setFlush', { ...inTable(this.#layout), set: definition.name });
    if (elements !== undefined) this.#buffers.to('add', definition, '').packed(elements);
  }

  /** Deletes chains and sets that nothing of ours refers to. */
  deleteObjects(ids: readonly string[]): void {
    for (const { kind, ...fields } of deletions(inTable(this.#layout), ids)) {
      this.#write(kind, fields as never);
    }
  }

  readonly #write: RecordWriter<typeof nftOps>['write'] = (kind, fields) => {
    this.#count += 1;
    return this.#out.write(kind, fields);
  };
}
