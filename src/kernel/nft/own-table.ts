/** Tables that Fairlead makes in addition to those of its modes: their comment says that it did. */
import { orElse } from '../errors.ts';
import { failureOf, refusal } from '../failures.ts';
import type { Kernel, KernelReader, ReplyOf, TableName } from '../kernel.ts';
import { nftOps, type Reply, type Request } from '../ops.ts';
import { RecordWriter } from '../records.ts';
import { steadyDump } from '../steady.ts';
import {
  type ChainDefinition,
  contentOfRule,
  hasDesiredHook,
  hasDesiredRules,
  writeChain,
  writeRules,
} from './chain.ts';
import { findTable } from './find-table.ts';
import { isDesiredSet, type SetFields } from './sets.ts';
import { familyWord } from './words.ts';

export interface OwnTable extends TableName {
  readonly comment: string;
}

/** All that such a table holds but elements, and a flowtable. */
export interface OwnContent {
  readonly own: OwnTable;
  /** The target of a jump comes first. */
  readonly chains: readonly ChainDefinition[];
  readonly sets: readonly SetFields[];
}

/** As it is listed: `inet fairlead-fast-path`. */
export function tableText({ family, table }: TableName): string {
  return `${familyWord(family)} ${table}`;
}

/** Undefined: there is no table of this name. A kernel without nf_tables has none. */
export async function makerOf(
  kernel: Kernel,
  own: OwnTable,
): Promise<'ours' | 'foreign' | undefined> {
  const found = await orElse(findTable(kernel, own), undefined);
  return found && (found.comment === own.comment ? 'ours' : 'foreign');
}

/** Resolves to whether there was one that we made. */
export async function removeTable(kernel: Kernel, own: OwnTable): Promise<boolean> {
  if ((await makerOf(kernel, own)) !== 'ours') return false;
  const writer = new RecordWriter(nftOps);
  writer.write('tableDelete', own);
  const failure = await failureOf(kernel, writer.finish());
  if (failure === undefined) return true;
  if (failure.code === 'ENOENT') return false;
  throw refusal('nft.apply', `table ${tableText(own)}`, failure);
}

/**
 * Whether the table has these chains and sets, and no others. Elements may be any. Rejects with
 * KernelError: EINTR if another program writes in the meantime.
 */
export async function hasContent(
  kernel: KernelReader,
  { chains, own, sets }: OwnContent,
): Promise<boolean> {
  const at = { family: own.family, table: own.table };
  const heldChains = await readTable(kernel, 'chain', { kind: 'chainsDump', ...at });
  const rules = await readTable(kernel, 'rule', { kind: 'rulesDump', ...at, chain: '' });
  const heldSets = await readTable(kernel, 'set', { kind: 'setsDump', ...at });
  return (
    heldChains.length === chains.length &&
    heldSets.length === sets.length &&
    chains.every((chain) => {
      const has = heldChains.find((one) => one.chain === chain.name);
      const own = rules.filter((one) => one.chain === chain.name).map(contentOfRule);
      return has !== undefined && hasDesiredHook(has, chain) && hasDesiredRules(has, own, chain);
    }) &&
    sets.every((fields) => {
      const has = heldSets.find(({ set }) => set === fields.set);
      return has !== undefined && isDesiredSet(has, fields);
    })
  );
}

/** Reads what a table has of one kind. Rejects as `steadyDump` does. */
export async function readTable<Kind extends Reply['kind']>(
  kernel: KernelReader,
  kind: Kind,
  request: Request & TableName,
): Promise<ReplyOf<Kind>[]> {
  const records = await steadyDump(kernel, request);
  return records.filter(
    (one): one is ReplyOf<Kind> =>
      one.kind === kind && (!('table' in one) || one.table === request.table),
  );
}

type Writer = RecordWriter<typeof nftOps>;

/** Makes the table, its sets and its chains; `isThere`: in place of one that we made. */
export function writeTable(
  writer: Writer,
  { chains, own, sets }: OwnContent,
  isThere: boolean,
): void {
  if (isThere) writer.write('tableDelete', own);
  writer.write('tableAdd', own);
  for (const fields of sets) writer.write('setAdd', fields);
  for (const chain of chains) writeChain(writer, own, chain);
}

/** Makes the rules of a table that `writeTable` began: they refer to all else that it holds. */
export function writeTableRules(writer: Writer, { chains, own }: OwnContent): void {
  for (const chain of chains) writeRules(writer, own, chain);
}

/** Brings elements that are keys alone from `held` to `desired`; keys as in `writeKeys`. */
export function bringKeys(
  writer: Writer,
  fields: SetFields,
  held: ReadonlySet<string>,
  desired: ReadonlySet<string>,
): void {
  writeKeys(writer, 'elementsDelete', fields, without(held, desired));
  writeKeys(writer, 'elementsAdd', fields, without(desired, held));
}

/** Adds or deletes elements that are keys alone: texts, a character for each byte (Latin-1). */
export function writeKeys(
  writer: Writer,
  kind: 'elementsAdd' | 'elementsDelete',
  { family, keyLength, set, table }: SetFields,
  keys: readonly string[],
): void {
  if (keys.length === 0) return;
  const shape = { shape: 0, keyLength, dataLength: 0 };
  const entries = Buffer.from(keys.join(''), 'latin1');
  writer.write(kind, { family, table, set, ...shape, count: keys.length, entries });
}

/** Sorted, so that the result does not depend on the order of insertion. */
export function without(all: ReadonlySet<string>, others: ReadonlySet<string>): string[] {
  return [...all].filter((one) => !others.has(one)).sort();
}
