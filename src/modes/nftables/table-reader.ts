/** Reads our table of one family into an observation. */
import { KernelError } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { printVerdict } from '../../kernel/nft/print-rule.ts';
import { entryShape } from '../../kernel/nft/sets.ts';
import { ElementShape, type Reply, type Request } from '../../kernel/ops.ts';
import { binary, elementId, rangeId } from '../elements.ts';
import type { Pause } from '../mode.ts';
import {
  isAffinitySet,
  type SetDefinitions,
  type SetName,
  setFields,
  setNames,
  tableName,
} from './layout.ts';
import type { NFTablesObservation } from './observation.ts';
import { type FrontendKind, type Place, placeOf, places } from './places.ts';

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
  ];
  for (const request of requests) {
    for (const record of await dump(kernel, request)) readObject(found, record);
    if (request.kind === 'tablesDump' && !found.table) return;
  }
  for (const name of setNames) {
    // Its content belongs to the packets that fill it.
    if (isAffinitySet(name)) continue;
    const known = found.sets.get(name);
    const { keyLength, dataLength } = setFields(found.family, sets[name]);
    if (known === undefined || known.keyLength !== keyLength) continue;
    const shape = entryShape(sets[name]);
    const request = { ...ours, set: name, shape, keyLength, dataLength };
    for (const record of await dump(kernel, { kind: 'elementsDump', ...request })) {
      if (record.kind === 'elements') await readElements(found, name, record, pause);
    }
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
      if (rules === undefined) found.rules.set(record.chain, [record.expressions]);
      else rules.push(record.expressions);
      return;
    }
    case 'set':
      if (record.table === tableName) found.sets.set(record.set, record);
      return;
    default:
      return;
  }
}

/** Which part of a frontend a map holds, and whose place the map is. */
interface Part<P> {
  readonly part: P;
  readonly placeOf: (key: Uint8Array) => Place;
}

const verdictMaps = new Map<SetName, Part<'verdict' | 'learn' | 'refusal'>>();
const poolMaps = new Map<SetName, Part<'endpoints' | 'local'>>();

for (const place of places) {
  const kind: FrontendKind = place.prefix === '' ? 'service' : 'nodePort';
  const byKey = (key: Uint8Array): Place => placeOf(kind, key);
  verdictMaps.set(place.verdicts, { part: 'verdict', placeOf: byKey });
  verdictMaps.set(place.learn, { part: 'learn', placeOf: byKey });
  verdictMaps.set(place.noEndpoints, { part: 'refusal', placeOf: byKey });
  // What is in the map of another shard than its own belongs to no frontend that we know.
  poolMaps.set(place.endpoints, { part: 'endpoints', placeOf: () => place });
  poolMaps.set(place.localEndpoints, { part: 'local', placeOf: byKey });
}

async function readElements(
  found: NFTablesObservation,
  name: SetName,
  record: ElementsReply,
  pause: Pause,
): Promise<void> {
  const pools = poolMaps.get(name);
  const verdicts = verdictMaps.get(name);
  let at = 0;
  while (at < record.entries.length) {
    if (pools !== undefined) at = readPool(found, pools, record, at);
    else if (verdicts !== undefined) at = readVerdict(found, verdicts, record, at);
    else at = readKey(found, name, record, at);
    const rest = pause();
    if (rest !== undefined) await rest;
  }
}

/**
 * The entries from `at` on that are of one frontend. The kernel's come sorted, so that these are
 * all of its entries; nothing but speed depends on that. Returns where they end.
 */
function readPool(
  found: NFTablesObservation,
  { part, placeOf: place }: Part<'endpoints' | 'local'>,
  { entries, keyLength, dataLength }: ElementsReply,
  at: number,
): number {
  const stride = keyLength + dataLength;
  const frontendLength = keyLength - 4;
  let end = at + stride;
  while (end < entries.length && sameBytes(entries, at, end, frontendLength)) end += stride;
  const key = entries.subarray(at, at + frontendLength);
  const pool = found.frontend(place(key), key)[part];
  pool.reserve((end - at) / stride);
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  for (let entry = at; entry < end; entry += stride) {
    pool.put(view.getUint32(entry + frontendLength, true), entries, entry + keyLength);
  }
  return end;
}

function sameBytes(bytes: Uint8Array, a: number, b: number, length: number): boolean {
  for (let i = 0; i < length; i += 1) if (bytes[a + i] !== bytes[b + i]) return false;
  return true;
}

function readVerdict(
  found: NFTablesObservation,
  { part, placeOf: place }: Part<'verdict' | 'learn' | 'refusal'>,
  { entries, keyLength }: ElementsReply,
  at: number,
): number {
  const view = new DataView(entries.buffer, entries.byteOffset + at + keyLength);
  const code = view.getInt32(0, true);
  const length = view.getUint32(4, true);
  const chainAt = at + keyLength + 8;
  const chain = binary(entries.subarray(chainAt, chainAt + length));
  const key = entries.subarray(at, at + keyLength);
  found.frontend(place(key), key)[part] = printVerdict(code, chain);
  return chainAt + ((length + 3) & ~3);
}

function readKey(
  found: NFTablesObservation,
  name: SetName,
  { entries, keyLength, shape }: ElementsReply,
  at: number,
): number {
  const key = entries.subarray(at, at + keyLength);
  const hasEnd = (shape & ElementShape.keyEnd) !== 0;
  const hasFlags = (shape & ElementShape.flags) !== 0;
  const end = at + keyLength + (hasEnd ? keyLength : hasFlags ? 4 : 0);
  const extra = entries.subarray(at + keyLength, end);
  const frontendLength = keyLength - (found.family === 'IPv4' ? 4 : 16);
  if (name === 'firewall-ips') {
    found.frontend(placeOf('service', key), key).firewalled = true;
  } else if (name === 'source-ranges') {
    const frontend = key.subarray(0, frontendLength);
    const held = found.frontend(placeOf('service', frontend), frontend);
    const range = { first: key.subarray(frontendLength), last: extra.subarray(frontendLength) };
    held.clients ??= new Map();
    held.clients.set(rangeId(range), range);
  } else {
    let keys = found.keys.get(name);
    if (keys === undefined) {
      keys = new Map();
      found.keys.set(name, keys);
    }
    // The end of an interval is an element of its own, told apart by its flag.
    keys.set(elementId(key, extra), key);
  }
  return end;
}
