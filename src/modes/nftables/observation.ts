/** What the kernel holds of our table, grouped by frontend. */
import type { KernelReader } from '../../kernel/kernel.ts';
import { printComment, printVerdict } from '../../kernel/nft/print-verdict.ts';
import { ElementShape } from '../../kernel/ops.ts';
import { steadyDump, untilSteady } from '../../kernel/steady.ts';
import type { Family } from '../../net/address.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import { slotsOf } from '../../state/deal.ts';
import { withKernelOrder } from '../../state/pool.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Pause } from '../../time/pacer.ts';
import type { Found, ObservedShared } from '../backend.ts';
import { binary } from '../elements.ts';
import {
  bytesPerPause,
  type Dump,
  type ElementsReply,
  TableContent,
} from '../nft-table/content.ts';
import type { Fault } from '../nft-table/objects.ts';
import type { TableObject } from '../nft-table/shared.ts';
import {
  type FrontendKind,
  type FrontendMaps,
  frontendMaps,
  hashOf,
  learnFrontendKey,
  mapsOfKey,
} from './frontend-maps.ts';
import {
  type FrontendElements,
  frontendId,
  locate,
  partOf,
  type VerdictPart,
  verdictKinds,
  verdictParts,
} from './frontends.ts';
import { type SetName, type SharedSet, sharedElements, type tableLayout } from './layout.ts';
import { type NFTablesObjects, ObservedFrontend, ObservedPool } from './observed.ts';

export class NFTablesObservation implements Found<NFTablesObjects> {
  readonly family: Family;
  readonly table: TableContent<SetName>;
  readonly frontends = new Map<string, ObservedFrontend>();

  constructor(layout: ReturnType<typeof tableLayout>) {
    this.family = layout.family;
    this.table = new TableContent(layout);
  }

  get intact(): boolean {
    return this.table.isIntact;
  }

  /** Forgets what was read, because the table is deleted. */
  clear(): void {
    this.table.clear();
    this.frontends.clear();
  }

  adopt(next: Forwarding): Forwarding {
    return withKernelOrder(next, (pool) => this.#orderOf(pool, next));
  }

  /**
   * The pool in the order of the first frontend that holds any of it; unchanged if it is in order.
   */
  #orderOf(pool: 'cluster' | 'local', next: Forwarding): EndpointList {
    const list = slotsOf(next, pool);
    if (list.length < 2) return list;
    for (const frontend of next.frontends) {
      const part = partOf(pool, frontend);
      const found = part && this.frontends.get(locate(next, frontend).id)?.[part];
      if (found === undefined || found.isEmpty) continue;
      return found.isInOrderOf(list) ? list : found.inOrder(this.family);
    }
    return list;
  }

  /** The frontend of this id, made when it is asked for first. */
  frontend(id: string): ObservedFrontend {
    let found = this.frontends.get(id);
    if (found === undefined) {
      found = new ObservedFrontend(id);
      this.frontends.set(id, found);
    }
    return found;
  }

  take({ id }: FrontendElements): ObservedFrontend | undefined {
    const observed = this.frontends.get(id);
    if (observed !== undefined) observed.isTaken = true;
    return observed;
  }

  *rest(): Generator<readonly [string, ObservedFrontend]> {
    for (const one of this.frontends) if (!one[1].isTaken) yield one;
  }

  faultOf(shared: TableObject<SharedSet>): Fault | undefined {
    if ('object' in shared) return this.table.faultOf(shared.object);
    return this.table.elements(shared.set).has(sharedElements.keyOf(shared))
      ? undefined
      : 'missing';
  }

  get isHooked(): boolean {
    return this.table.isHooked;
  }

  *shared(): Generator<ObservedShared> {
    yield* this.table.namedObjects();
    for (const set of sharedElements.sets) {
      for (const key of this.table.elements(set)) yield { id: sharedElements.idOf(set, key) };
    }
  }

  /**
   * Reads set by set. Each set is consistent, but different sets are of different moments. `touched`
   * has the objects that our batches change during the dump. Changes by other programs raise the
   * generation.
   */
  async read(kernel: KernelReader, pause: Pause): Promise<void> {
    const dump: Dump = (request) => untilSteady(() => steadyDump(kernel, request));
    await this.table.read(dump, (set, record) => readElements(this, set, record, pause), pause);
  }
}

/** Receives what is read of the maps of our table, and of the sets that count. */
interface Frontends {
  readonly family: Family;
  /** The frontend of this id, made when it is asked for first. */
  frontend(id: string): ObservedFrontend;
}

/** Which part of a frontend a map holds, and to which FrontendMaps it belongs. */
interface Part<P> {
  readonly part: P;
  readonly kind: FrontendKind;
  /** Undefined = they follow from each key. */
  readonly maps?: FrontendMaps;
  /** Undefined = it is in each key. */
  readonly protocol?: number;
}

const verdictMaps = new Map<SetName, Part<VerdictPart>>();
const poolMaps = new Map<SetName, Part<'endpoints' | 'local'>>();
const countingSets = new Map<SetName, Part<'isCounted'>>();

for (const part of verdictParts) {
  // One map may be that of all frontends: those with an address come last.
  for (const kind of ['nodePort', 'service'] as const) {
    const own = verdictKinds[part].maps[kind];
    if (typeof own === 'string') verdictMaps.set(own, { part, kind });
    else {
      for (const [protocol, name] of Object.entries(own)) {
        verdictMaps.set(name, { part, kind, protocol: Number(protocol) });
      }
    }
  }
}
for (const maps of frontendMaps) {
  const { kind } = maps;
  // An element in the map of a wrong shard becomes a frontend that is not desired, and is pruned.
  poolMaps.set(maps.endpoints, { part: 'endpoints', kind, maps });
  poolMaps.set(maps.localEndpoints, { part: 'local', kind });
  countingSets.set(maps.counts, { part: 'isCounted', kind });
}

/** Reads what begins at byte `at` of a record's entries, and returns where it ends. */
type ReadEntry = (at: number) => number;

async function readElements(
  found: Frontends,
  name: SetName,
  record: ElementsReply,
  pause: Pause,
): Promise<void> {
  const read = entryReader(found, name, record);
  const { length } = record.entries;
  let at = 0;
  while (at < length) {
    const until = Math.min(at + bytesPerPause, length);
    while (at < until) at = read(at);
    const rest = pause();
    if (rest !== undefined) await rest;
  }
}

function entryReader(found: Frontends, name: SetName, record: ElementsReply): ReadEntry {
  const pools = poolMaps.get(name);
  if (pools !== undefined) return poolReader(found, pools, record);
  const counting = countingSets.get(name);
  if (counting !== undefined) return countingReader(found, counting, record);
  return verdictReader(found, verdictMaps.get(name)!, record);
}

/** A count follows each key. */
const countBytes = 8;

function countingReader(
  found: Frontends,
  set: Part<'isCounted'>,
  { entries, keyLength }: ElementsReply,
): ReadEntry {
  return (at) => {
    const end = at + keyLength;
    frontendAt(found, set, entries, at, end)[set.part] = true;
    return end + countBytes;
  };
}

/** The frontend whose key is in `entries`, from byte `from` to before `to`. */
function frontendAt(
  found: Frontends,
  { kind, maps }: Pick<Part<unknown>, 'kind' | 'maps'>,
  entries: Uint8Array,
  from: number,
  to: number,
): ObservedFrontend {
  return found.frontend(frontendId(maps ?? mapsOfKey(kind, entries, from, to), entries, from, to));
}

/**
 * Reads all entries of one frontend that follow each other. Entries come sorted, so that these are
 * usually all of the frontend's. Only speed depends on that.
 */
function poolReader(
  found: Frontends,
  map: Part<'endpoints' | 'local'>,
  { entries, keyLength, dataLength }: ElementsReply,
): ReadEntry {
  const { part } = map;
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const stride = keyLength + dataLength;
  const frontendLength = keyLength - 4;
  return (start) => {
    const frontend = frontendAt(found, map, entries, start, start + frontendLength);
    if (frontend[part] === ObservedPool.none) {
      frontend[part] = new ObservedPool(found.family, stride);
    }
    const pool = frontend[part];
    let at = start;
    do {
      pool.put(view.getUint32(at + frontendLength, true), entries, at + keyLength);
      at += stride;
    } while (at < entries.length && sameBytes(entries, start, at, frontendLength));
    return at;
  };
}

function sameBytes(bytes: Uint8Array, a: number, b: number, length: number): boolean {
  for (let i = 0; i < length; i += 1) if (bytes[a + i] !== bytes[b + i]) return false;
  return true;
}

function verdictReader(
  found: Frontends,
  map: Part<VerdictPart>,
  { entries, keyLength, shape }: ElementsReply,
): ReadEntry {
  const { part, protocol } = map;
  const words =
    (shape & ElementShape.comment) === 0 ? verdictWords(entries) : commentedWords(entries);
  return (at) => {
    const end = at + keyLength;
    const verdict = words(end);
    let [bytes, from, to] = [entries, at, end];
    if (protocol !== undefined) {
      bytes = learnFrontendKey(entries.subarray(at, end), protocol);
      [from, to] = [0, bytes.length];
    }
    frontendAt(found, map, bytes, from, to).verdicts[part] = verdict.text;
    return end + verdict.length;
  };
}

interface VerdictWords {
  /** The verdict as nft prints it. */
  readonly text: string;
  /** The bytes that it takes in the entries. */
  readonly length: number;
}

/** Reads the verdict at a byte of `entries`. Equal verdicts share one string. */
function verdictWords(entries: Uint8Array): (at: number) => VerdictWords {
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const known = new Map<number, VerdictWords & { readonly at: number }>();
  return (at) => {
    const chainAt = at + 8;
    const chainLength = view.getUint32(at + 4, true);
    const hash = hashOf(entries, at, chainAt + chainLength);
    const same = known.get(hash);
    if (same !== undefined && sameBytes(entries, same.at, at, same.length)) return same;
    const chain = binary(entries.subarray(chainAt, chainAt + chainLength));
    const text = printVerdict(view.getInt32(at, true), chain);
    const verdict = { text, length: 8 + ((chainLength + 3) & ~3), at };
    known.set(hash, verdict);
    return verdict;
  };
}

/** Reads a verdict at a byte of `entries` that a comment follows. */
function commentedWords(entries: Uint8Array): (at: number) => VerdictWords {
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const words = verdictWords(entries);
  const latin1 = Buffer.from(entries.buffer, entries.byteOffset, entries.byteLength);
  return (at) => {
    const verdict = words(at);
    const start = at + verdict.length + 4;
    const length = view.getUint32(start - 4, true);
    const comment = latin1.toString('latin1', start, start + length);
    const text = `${verdict.text}${printComment(comment)}`;
    return { text, length: verdict.length + 4 + ((length + 3) & ~3) };
  };
}
