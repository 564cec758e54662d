/** Tables that Fairlead makes in addition to those of its modes: their comment says that it did. */
import { madeAt } from '../../net/made-at.ts';
import { isPassing, orElse } from '../errors.ts';
import { failureOf, refusal } from '../failures.ts';
import type { Kernel, KernelFailure, KernelReader, ReplyOf, TableName } from '../kernel.ts';
import {
  ElementShape,
  type NftOp,
  nftOps,
  type Reply,
  type Request,
  unknownIndex,
} from '../ops.ts';
import { RecordWriter } from '../records.ts';
import { steadyDump, untilSteady } from '../steady.ts';
import {
  type ChainDefinition,
  contentOfRule,
  hasDesiredHook,
  hasDesiredRules,
  writeChain,
  writeRules,
} from './chain.ts';
import { NFT_DATA_VERDICT, NFT_SET, VERDICT } from './constants.ts';
import { readEntries } from './entries.ts';
import { findTable } from './find-table.ts';
import { isDesiredSet, type SetFields } from './sets.ts';
import { familyWord } from './words.ts';

type Writer = RecordWriter<typeof nftOps>;

const noKeys: ReadonlySet<string> = new Set();
const noParts: Parts = new Map();

export interface OwnTableName extends TableName {
  readonly comment: string;
}

/** What defines a table: it is made again where any of this differs. */
export interface OwnContent {
  /** The target of a jump comes first. */
  readonly chains: readonly ChainDefinition[];
  readonly sets: readonly SetFields[];
  readonly flowtable?: Flowtable;
}

/** What changes in a table that stays. */
export interface Elements {
  /** By the name of the set; keys as in `writeKeys`, in verdict maps each as `gotoEntry` has it. */
  readonly keys: Readonly<Record<string, ReadonlySet<string>>>;
  /** Of the flowtable. */
  readonly devices: ReadonlySet<string>;
  /** By the names of their chains, to which elements may lead. */
  readonly parts?: Parts;
}

/** Elements that change in place: to bring a table to them costs what has changed. */
export class LiveElements implements Elements {
  readonly keys: Record<string, Set<string>> = {};
  readonly devices = noKeys;
  readonly parts = new Map<string, Part>();
  /** Those that have changed since `settle`, and whether they were there. */
  #keys = new Map<string, Map<string, boolean>>();
  #parts = new Map<string, Part | undefined>();

  setKey(set: string, key: string, isThere: boolean): void {
    this.keys[set] ??= new Set();
    const [keys, changed] = [this.keys[set], madeAt(this.#keys, set, () => new Map())];
    if (!changed.has(key)) changed.set(key, keys.has(key));
    if (isThere) keys.add(key);
    else keys.delete(key);
  }

  setPart(name: string, part: Part | undefined): void {
    if (!this.#parts.has(name)) this.#parts.set(name, this.parts.get(name));
    if (part === undefined) this.parts.delete(name);
    else this.parts.set(name, part);
  }

  /** What has changed, as it was and as it is. */
  get changes(): readonly [Elements, Elements] {
    const [was, is] = [new LiveElements(), new LiveElements()];
    for (const [set, changed] of this.#keys) {
      for (const [key, isOld] of changed) {
        if (isOld) was.setKey(set, key, true);
        if (this.keys[set]!.has(key)) is.setKey(set, key, true);
      }
    }
    for (const [name, old] of this.#parts) {
      const now = this.parts.get(name);
      if (old !== undefined) was.parts.set(name, old);
      if (now !== undefined) is.parts.set(name, now);
    }
    return [was, is];
  }

  /** A table was brought to them, or will be read as a whole. */
  settle(): void {
    this.#keys.clear();
    this.#parts.clear();
  }
}

/** A chain that says by its name what it holds, and the sets that its rules use. */
export interface Part {
  readonly chain: ChainDefinition;
  readonly sets: readonly SetFields[];
}

type Parts = ReadonlyMap<string, Part>;

type Flowtable = Omit<Extract<NftOp, { kind: 'flowtableAdd' }>, 'kind' | 'devices'>;

/**
 * What became of a table. `kept`: it stays, perhaps with other elements. `made`: there was none.
 * `replaced`: there was one that no other program had changed; `repaired`: another one had.
 * `again`: nothing was written, because an element or a device was gone, or the kernel refused
 * devices (with the reasons).
 */
type Brought =
  | { readonly kind: 'kept' | 'made' | 'replaced' | 'repaired' | 'foreign' }
  | { readonly kind: 'again'; readonly refused: ReadonlyMap<string, string> };

/** When who keeps such a table brings it up to date, other than after a change. */
export const upkeep = {
  /** After a failure. */
  retryMs: 2000,
  /** What it depends on may change in silence: default routes, addresses of node ports. */
  lookMs: 60_000,
  /** After an update that took `tookMs`. */
  restMs: (tookMs: number): number => Math.min(2000, 20 * tookMs),
} as const;

/**
 * Keeps one such table as it is desired. The table is read at first, after another program may have
 * changed it, and after a failure. Otherwise its elements are those that were written last.
 */
export class OwnTable {
  readonly #kernel: Kernel;
  readonly #name: OwnTableName;
  readonly #changed: () => void;
  /** What was written last; undefined: nothing yet. */
  #content: OwnContent | undefined;
  /** Undefined: it is to be read. */
  #known: Elements | undefined;
  /** How often another program may have changed it. */
  #doubts = 0;
  #mayBeThere = true;
  #stopWatching: (() => void) | undefined;

  /** `changed`: another program may have changed the table. */
  constructor(kernel: Kernel, name: OwnTableName, changed: () => void = () => {}) {
    this.#kernel = kernel;
    this.#name = name;
    this.#changed = changed;
  }

  /** This process or an earlier one may have made it. */
  get mayBeThere(): boolean {
    return this.#mayBeThere;
  }

  /**
   * Brings the table to this content with these elements, in one transaction. `replaces`: whether
   * a table with the right content is made again, given its elements; `isOurs`: by this process.
   * `renewed`: the set whose elements expire, and begin their time again.
   * Rejects with KernelError; the next call reads the table.
   */
  async bring(
    content: OwnContent,
    elements: Elements,
    replaces: (known: Elements, isOurs: boolean) => boolean,
    renewed?: string,
  ): Promise<Brought> {
    this.#watch();
    const doubts = this.#doubts;
    const isOurs = this.#content !== undefined;
    const before = this.#content ?? content;
    const desired = elements.parts ?? noParts;
    const found = this.#known ?? (await untilSteady(() => this.#read(before, desired)));
    this.#known = undefined;
    if (found === 'foreign') return { kind: found };
    const isIntact = typeof found === 'object';
    const isKept = isIntact && before === content && !replaces(found, isOurs);
    const writer = new RecordWriter(nftOps);
    if (!isKept) writeTable(writer, this.#name, content, found !== undefined);
    const isLive = isKept && found === elements && elements instanceof LiveElements;
    const all = [isKept ? found : noElements, elements] as const;
    const [known, next] = isLive ? elements.changes : all;
    const [knownParts, parts] = [known, next].map((one) => one.parts ?? noParts) as [Parts, Parts];
    writeParts(writer, this.#name, absentFrom(knownParts, parts));
    const added = bringDevices(writer, content.flowtable, known.devices, next.devices);
    for (const fields of content.sets) {
      const [has, desired] = [known, next].map(({ keys }) => keys[fields.set] ?? noKeys);
      bringKeys(writer, fields, has!, desired!, fields.set === renewed);
    }
    if (!isKept) for (const chain of content.chains) writeRules(writer, this.#name, chain);
    deleteParts(writer, this.#name, absentFrom(parts, knownParts));
    if (writer.count > 0) {
      this.#mayBeThere = true;
      const result = await this.#kernel.apply(writer.finish());
      if (result.kind === 'failed') return this.#refused(result.failures, added, isKept);
    }
    this.#content = content;
    if (doubts === this.#doubts) this.#known = elements;
    if (isKept) return { kind: 'kept' };
    if (found === undefined) return { kind: 'made' };
    return { kind: isOurs && !isIntact ? 'repaired' : 'replaced' };
  }

  /** Resolves to whether there was one that we made. */
  async remove(): Promise<boolean> {
    this.unwatch();
    this.#content = undefined;
    this.#known = undefined;
    const isRemoved = this.#mayBeThere && (await removeTable(this.#kernel, this.#name));
    this.#mayBeThere = false;
    return isRemoved;
  }

  /** Follows no change of others any more, until `bring`. */
  unwatch(): void {
    this.#stopWatching?.();
    this.#stopWatching = undefined;
  }

  #watch(): void {
    if (this.#stopWatching !== undefined) return;
    const doubt = (): void => {
      this.#doubts += 1;
      this.#known = undefined;
    };
    const changed = (): void => {
      doubt();
      this.#changed();
    };
    // What changes until the next call of `bring`, which watches again, would be missed.
    const ended = (): void => {
      doubt();
      this.#stopWatching = undefined;
    };
    this.#stopWatching = this.#kernel.watch([this.#name], { changed, ended });
  }

  /** `changed`: it is ours, and not as `content` says. */
  async #read(
    content: OwnContent,
    desired: Parts,
  ): Promise<Elements | 'changed' | 'foreign' | undefined> {
    const kernel = this.#kernel;
    const table = await orElse(findTable(kernel, this.#name), undefined);
    if (table === undefined) return undefined;
    if (table.comment !== this.#name.comment) return 'foreign';
    if (table.flags !== 0) return 'changed';
    const parts = await readParts(kernel, this.#name, content, desired);
    if (parts === undefined) return 'changed';
    const keys: Record<string, ReadonlySet<string>> = {};
    for (const fields of content.sets) {
      // Packets fill the others.
      if ((fields.flags & NFT_SET.EVAL) === 0) keys[fields.set] = await readKeys(kernel, fields);
    }
    const devices = await readDevices(kernel, this.#name, content.flowtable);
    return devices === undefined ? 'changed' : { keys, devices, parts };
  }

  #refused(
    failures: readonly KernelFailure[],
    added: ReadonlyMap<number, string>,
    isKept: boolean,
  ): Brought {
    const refused = new Map<string, string>();
    let isGone = false;
    for (const { code, message, op } of failures) {
      const device = op === undefined ? undefined : added.get(op);
      if (device === undefined && !isKept) continue;
      if (code === 'ENOENT' || code === 'ENODEV') isGone = true;
      else if (device !== undefined && !isPassing(code) && code !== 'EPERM') {
        refused.set(device, `${message} (${code})`);
      }
    }
    if (isGone || refused.size > 0) return { kind: 'again', refused };
    throw refusal('nft.apply', `table ${tableText(this.#name)}`, failures[0]!);
  }
}

const noElements: Elements = { keys: {}, devices: noKeys };

/** As it is listed: `inet fairlead-fast-path`. */
export function tableText({ family, table }: TableName): string {
  return `${familyWord(family)} ${table}`;
}

/** Undefined: there is no table of this name. A kernel without nf_tables has none. */
export async function makerOf(
  kernel: Kernel,
  own: OwnTableName,
): Promise<'ours' | 'foreign' | undefined> {
  const found = await orElse(findTable(kernel, own), undefined);
  return found && (found.comment === own.comment ? 'ours' : 'foreign');
}

/** Resolves to whether there was one that we made. */
export async function removeTable(kernel: Kernel, own: OwnTableName): Promise<boolean> {
  if ((await makerOf(kernel, own)) !== 'ours') return false;
  const writer = new RecordWriter(nftOps);
  writer.write('tableDelete', own);
  const failure = await failureOf(kernel, writer.finish());
  if (failure === undefined) return true;
  if (failure.code === 'ENOENT') return false;
  throw refusal('nft.apply', `table ${tableText(own)}`, failure);
}

/**
 * The parts that the table has: desired ones that are as they should be, and others by name alone.
 * Undefined: its content or a desired part is not as it should be. Elements may be any. Rejects
 * with KernelError: EINTR if another program writes in the meantime.
 */
async function readParts(
  kernel: KernelReader,
  { family, table }: TableName,
  content: OwnContent,
  desired: Parts,
): Promise<Parts | undefined> {
  const at = { family, table };
  const allChains = await readTable(kernel, 'chain', { kind: 'chainsDump', ...at });
  const allRules = await readTable(kernel, 'rule', { kind: 'rulesDump', ...at, chain: '' });
  const allSets = await readTable(kernel, 'set', { kind: 'setsDump', ...at });
  const chains = new Map(allChains.map((one) => [one.chain, one]));
  const rules = Map.groupBy(allRules, ({ chain }) => chain);
  const sets = new Map(allSets.map((one) => [one.set, one]));
  const hasChain = (chain: ChainDefinition): boolean => {
    const has = chains.get(chain.name);
    const own = (rules.get(chain.name) ?? []).map(contentOfRule);
    return has !== undefined && hasDesiredHook(has, chain) && hasDesiredRules(has, own, chain);
  };
  const hasSet = (fields: SetFields): boolean => {
    const has = sets.get(fields.set);
    return has !== undefined && isDesiredSet(has, fields);
  };
  if (!content.chains.every(hasChain) || !content.sets.every(hasSet)) return undefined;
  const fixed = new Set(content.chains.map(({ name }) => name));
  const parts = new Map<string, Part>();
  for (const { chain: name, hook } of allChains) {
    if (fixed.has(name)) continue;
    const part = desired.get(name);
    if (part === undefined ? hook !== unknownIndex : !hasChain(part.chain)) return undefined;
    if (part?.sets.every(hasSet) === false) return undefined;
    parts.set(name, part ?? { chain: { name, base: undefined, rules: [] }, sets: [] });
  }
  const used = [content, ...parts.values()].flatMap((one) => one.sets.map(({ set }) => set));
  const isUsed = new Set(used);
  const others = allSets.filter(({ set }) => !isUsed.has(set));
  if (others.length === 0) return parts;
  const unneeded = [...parts.values()].find(({ chain }) => !desired.has(chain.name));
  if (unneeded === undefined) return undefined;
  return parts.set(unneeded.chain.name, { ...unneeded, sets: others });
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

async function readKeys(kernel: KernelReader, fields: SetFields): Promise<ReadonlySet<string>> {
  const { family, keyLength, set, table } = fields;
  const shape = { shape: shapeOf(fields), keyLength, dataLength: 0 };
  const request = { kind: 'elementsDump', family, table, set, ...shape } as const;
  const keys = new Set<string>();
  for (const record of await readTable(kernel, 'elements', request)) {
    for (const { key, verdict } of readEntries(record)) {
      keys.add(verdict === undefined ? latin1(key) : gotoEntry(latin1(key), verdict.chain));
    }
  }
  return keys;
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('latin1');
}

function shapeOf({ dataType }: SetFields): number {
  return dataType === NFT_DATA_VERDICT ? ElementShape.verdict : 0;
}

/** An entry of a verdict map, for `writeKeys`. */
export function gotoEntry(key: string, chain: string): string {
  const name = Buffer.from(chain);
  const entry = Buffer.alloc(8 + ((name.length + 3) & ~3));
  entry.writeInt32LE(VERDICT.goto, 0);
  entry.writeUInt32LE(name.length, 4);
  name.copy(entry, 8);
  return key + latin1(entry);
}

/** Undefined: the table has other flowtables. */
async function readDevices(
  kernel: KernelReader,
  { family, table }: TableName,
  desired: Flowtable | undefined,
): Promise<ReadonlySet<string> | undefined> {
  if (desired === undefined) return noKeys;
  const known = await readTable(kernel, 'flowtable', { kind: 'flowtablesDump', family, table });
  const [one] = known;
  const isRight =
    known.length === 1 &&
    one?.flowtable === desired.flowtable &&
    one.flags === desired.flags &&
    // Without devices the kernel may not report a priority.
    (one.devices === '' || one.priority === desired.priority);
  if (!isRight) return undefined;
  return new Set(one.devices.split(' ').filter((name) => name !== ''));
}

/** Makes the table, its sets, flowtable and chains, without rules; `isThere`: in place of one. */
function writeTable(
  writer: Writer,
  name: OwnTableName,
  { chains, flowtable, sets }: OwnContent,
  isThere: boolean,
): void {
  if (isThere) writer.write('tableDelete', name);
  writer.write('tableAdd', name);
  for (const fields of sets) writer.write('setAdd', fields);
  for (const chain of chains) writeChain(writer, name, chain);
  if (flowtable !== undefined) writer.write('flowtableAdd', { ...flowtable, devices: '' });
}

function writeParts(writer: Writer, name: OwnTableName, parts: readonly Part[]): void {
  for (const { chain, sets } of parts) {
    for (const fields of sets) writer.write('setAdd', fields);
    writeChain(writer, name, chain);
  }
  for (const { chain } of parts) writeRules(writer, name, chain);
}

/** Chains may refer to one another: their rules go first. */
function deleteParts(writer: Writer, name: OwnTableName, parts: readonly Part[]): void {
  const { family, table } = name;
  const chains = parts.map((part) => ({ family, table, chain: part.chain.name }));
  for (const chain of chains) writer.write('chainFlush', chain);
  for (const chain of chains) writer.write('chainDelete', chain);
  for (const { set } of parts.flatMap(({ sets }) => sets)) {
    writer.write('setDelete', { family, table, set });
  }
}

function absentFrom(some: Parts, all: Parts): readonly Part[] {
  return [...all.values()].filter(({ chain }) => !some.has(chain.name));
}

/** Returns the device that each op adds, by its index. */
function bringDevices(
  writer: Writer,
  flowtable: Flowtable | undefined,
  known: ReadonlySet<string>,
  desired: ReadonlySet<string>,
): ReadonlyMap<number, string> {
  const added = new Map<number, string>();
  if (flowtable === undefined) return added;
  const { flags: _, ...inFlowtable } = flowtable;
  for (const devices of without(known, desired)) {
    writer.write('flowtableDevicesDelete', { ...inFlowtable, devices });
  }
  for (const devices of without(desired, known)) {
    added.set(writer.count, devices);
    writer.write('flowtableAdd', { ...flowtable, devices });
  }
  return added;
}

/** Brings elements that are keys alone from `known` to `desired`; keys as in `writeKeys`. */
function bringKeys(
  writer: Writer,
  fields: SetFields,
  known: ReadonlySet<string>,
  desired: ReadonlySet<string>,
  isRenewed: boolean,
): void {
  const { keyLength } = fields;
  const [stays, has] = isRenewed ? [noKeys, noKeys] : [desired, known];
  const gone = without(known, stays).map((entry) => entry.slice(0, keyLength));
  writeKeys(writer, 'elementsDelete', { ...fields, dataType: 0 }, gone);
  writeKeys(writer, 'elementsAdd', fields, without(desired, has));
}

/** Adds or deletes elements that are keys alone: texts, a character for each byte (Latin-1). */
export function writeKeys(
  writer: Writer,
  kind: 'elementsAdd' | 'elementsDelete',
  fields: SetFields,
  keys: readonly string[],
): void {
  if (keys.length === 0) return;
  const { family, keyLength, set, table } = fields;
  const shape = { shape: shapeOf(fields), keyLength, dataLength: 0 };
  const entries = Buffer.from(keys.join(''), 'latin1');
  writer.write(kind, { family, table, set, ...shape, count: keys.length, entries });
}

/** Sorted, so that the result does not depend on the order of insertion. */
function without(all: ReadonlySet<string>, others: ReadonlySet<string>): string[] {
  return [...all].filter((one) => !others.has(one)).sort();
}
