/** Reads our table of one family into an observation. */
import { KernelError } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { contentOfRule } from '../../kernel/nft/chain.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { printVerdict } from '../../kernel/nft/print-rule.ts';
import { entryShape } from '../../kernel/nft/sets.ts';
import { ElementShape, type Reply, type Request } from '../../kernel/ops.ts';
import { binary } from '../elements.ts';
import type { Pause } from '../mode.ts';
import { contentOf } from '../set-content.ts';
import { frontendId } from './frontends.ts';
import { type SetDefinitions, type SetName, setFields, setNames, tableName } from './layout.ts';
import { type NFTablesObservation, type ObservedFrontend, ObservedPool } from './observation.ts';
import {
  type FrontendKind,
  hashOf,
  learnFrontendKey,
  type Place,
  placeOf,
  places,
} from './places.ts';

type ElementsReply = Extract<Reply, { kind: 'elements' }>;

const dumpAttempts = 5;

/**
 * Reads into `found`, set by set: each is as it was at one moment, but not all at the same one. What
 * batches of ours change meanwhile is in `touched`; what others change moves the generation.
 */
export async function observe(
  kernel: Kernel,
  found: NFTablesObservation,
  sets: SetDefinitions,
  pause: Pause,
): Promise<void> {
  const family = NFPROTO[found.family];
  const ours = { family, table: tableName };
  found.generation = await kernel.generation();
  const requests: Request[] = [
    { kind: 'tablesDump', family },
    { kind: 'chainsDump', ...ours },
    { kind: 'rulesDump', ...ours, chain: '' },
    { kind: 'setsDump', ...ours },
    { kind: 'objectsDump', ...ours },
    { kind: 'flowtablesDump', ...ours },
  ];
  for (const request of requests) {
    for (const record of await dump(kernel, request)) readObject(found, record);
    if (request.kind === 'tablesDump' && !found.table) return;
  }
  for (const name of setNames) {
    const known = found.sets.get(name);
    const { keyLength, dataLength } = setFields(found.family, sets[name]);
    if (known === undefined || known.keyLength !== keyLength) continue;
    const shape = entryShape(sets[name]);
    const request = { ...ours, set: name, shape, keyLength, dataLength };
    for (const record of await dump(kernel, { kind: 'elementsDump', ...request })) {
      if (record.kind !== 'elements') continue;
      if (record.strange > 0) found.strange = true;
      await readElements(found, name, record, pause);
    }
  }
  for (const has of found.sets.values()) {
    if (Object.hasOwn(sets, has.set)) continue;
    const content = await contentOf(has, (request) => dump(kernel, request));
    if (content !== undefined) found.contents.set(has.set, content);
  }
}

/** A dump that the ruleset's change interrupts is made again. */
async function dump(kernel: Kernel, request: Request): Promise<readonly Reply[]> {
  for (let attempt = 1; attempt <= dumpAttempts; attempt += 1) {
    const { records, consistent } = await kernel.dump(request);
    if (consistent) return records;
  }
  throw new KernelError({
    operation: `nft.${request.kind}`,
    subject: 'set' in request ? `set ${request.set} of table ${tableName}` : `table ${tableName}`,
    code: 'EINTR',
    words: `the ruleset changed during each of ${dumpAttempts} reads`,
  });
}

function readObject(found: NFTablesObservation, record: Reply): void {
  const family = NFPROTO[found.family];
  switch (record.kind) {
    case 'table':
      if (record.family !== family || record.table !== tableName) return;
      found.table = true;
      found.tableFlags = record.flags;
      return;
    case 'chain':
      if (record.table === tableName) found.chains.set(record.chain, record);
      return;
    case 'rule': {
      if (record.table !== tableName) return;
      const rules = found.rules.get(record.chain);
      if (rules === undefined) found.rules.set(record.chain, [contentOfRule(record)]);
      else rules.push(contentOfRule(record));
      return;
    }
    case 'set':
      if (record.table === tableName) found.sets.set(record.set, record);
      return;
    case 'object':
      if (record.table === tableName) found.others.push(record);
      return;
    default:
      return;
  }
}

type VerdictPart = 'verdict' | 'sticky' | 'learn' | 'refusal' | 'firewall';

/** Which part of a frontend a map holds, and whose place the map is. */
interface Part<P> {
  readonly part: P;
  readonly kind: FrontendKind;
  /** Undefined = each key tells its own. */
  readonly place?: Place;
  /** Undefined = each key tells its own. */
  readonly protocol?: number;
}

const verdictMaps = new Map<SetName, Part<VerdictPart>>([
  ['firewall-ips', { part: 'firewall', kind: 'service' }],
]);
const poolMaps = new Map<SetName, Part<'endpoints' | 'local'>>();

for (const place of places) {
  const kind = place.prefix === '' ? 'service' : 'nodePort';
  verdictMaps.set(place.verdicts, { part: 'verdict', kind });
  verdictMaps.set(place.sticky, { part: 'sticky', kind });
  if (typeof place.learn === 'string') verdictMaps.set(place.learn, { part: 'learn', kind });
  else {
    for (const [protocol, learn] of Object.entries(place.learn)) {
      verdictMaps.set(learn, { part: 'learn', kind, protocol: Number(protocol) });
    }
  }
  verdictMaps.set(place.noEndpoints, { part: 'refusal', kind });
  // What is in the map of another shard than its own belongs to no frontend that we know.
  poolMaps.set(place.endpoints, { part: 'endpoints', kind, place });
  poolMaps.set(place.localEndpoints, { part: 'local', kind });
}

/** Reads what begins at byte `at` of a record's entries, and returns where it ends. */
type ReadEntry = (at: number) => number;

/** So much is read in a few microseconds. */
const bytesPerPause = 1024;

async function readElements(
  found: NFTablesObservation,
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

function entryReader(found: NFTablesObservation, name: SetName, record: ElementsReply): ReadEntry {
  const pools = poolMaps.get(name);
  if (pools !== undefined) return poolReader(found, pools, record);
  const verdicts = verdictMaps.get(name);
  if (verdicts !== undefined) return verdictReader(found, verdicts, record);
  return keyReader(found, name, record);
}

/** The frontend whose key is in `entries`, from byte `from` to before `to`. */
function frontendAt(
  found: NFTablesObservation,
  { kind, place }: Pick<Part<unknown>, 'kind' | 'place'>,
  entries: Uint8Array,
  from: number,
  to: number,
): ObservedFrontend {
  return found.frontend(frontendId(place ?? placeOf(kind, entries, from, to), entries, from, to));
}

/**
 * Reads all entries of one frontend that follow each other. The kernel's come sorted, so that these
 * are all that there are; nothing but speed depends on that.
 */
function poolReader(
  found: NFTablesObservation,
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
  found: NFTablesObservation,
  map: Part<VerdictPart>,
  { entries, keyLength }: ElementsReply,
): ReadEntry {
  const { part, protocol } = map;
  const words = verdictWords(entries);
  return (at) => {
    const end = at + keyLength;
    const verdict = words(end);
    let [bytes, from, to] = [entries, at, end];
    if (protocol !== undefined) {
      bytes = learnFrontendKey(entries.subarray(at, end), protocol);
      [from, to] = [0, bytes.length];
    }
    frontendAt(found, map, bytes, from, to)[part] = verdict.text;
    return end + verdict.length;
  };
}

interface Verdict {
  /** In nft's words. */
  readonly text: string;
  /** Bytes that it takes in the entries. */
  readonly length: number;
}

/** Reads the verdict at a byte of `entries`. The words of one that was there before are the same. */
function verdictWords(entries: Uint8Array): (at: number) => Verdict {
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const known = new Map<number, Verdict & { readonly at: number }>();
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

function keyReader(
  found: NFTablesObservation,
  name: SetName,
  { entries, keyLength, shape }: ElementsReply,
): ReadEntry {
  // The end of an interval is an element of its own, told apart by its flag.
  const length = keyLength + ((shape & ElementShape.flags) !== 0 ? 4 : 0);
  const ids = found.elements.get(name) ?? new Set();
  found.elements.set(name, ids);
  return (at) => {
    ids.add(binary(entries.subarray(at, at + length)));
    return at + length;
  };
}
