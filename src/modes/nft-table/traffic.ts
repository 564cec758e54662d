/** Reads what elements have counted. Packets count in them, so that only the kernel knows. */
import { failureOf } from '../../kernel/failures.ts';
import type { Kernel, ReplyOf } from '../../kernel/kernel.ts';
import { protocolOf } from '../../kernel/nft/constants.ts';
import { writeKeys } from '../../kernel/nft/own-table.ts';
import { dumpShape, fieldsOfSet, type SetFields } from '../../kernel/nft/sets.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { Address, addressBytes, type Family, formatEndpoint } from '../../net/address.ts';
import type { Protocol } from '../../net/protocol.ts';
import type { Destination } from '../../state/frontends-in-force.ts';
import type { Pause } from '../../time/pacer.ts';
import { binary } from '../elements.ts';
import { fairShares } from '../fair-shares.ts';
import type { Count, CountTaker, RefusalReason } from '../traffic-counts.ts';
import { inTable, type TableLayout } from './layout.ts';

/** What the elements of a set count, and which parts their keys have. */
export interface Counting<Name extends string> {
  readonly set: Name;
  readonly parts: readonly ('address' | 'protocol' | 'port')[];
  readonly of: 'connections' | EndpointKind | RefusalReason;
}

type EndpointKind = 'endpoint' | 'answers' | 'resets';

export const frontendParts = ['address', 'protocol', 'port'] as const;

export const refusalCountings = [
  { set: 'refused-no-endpoints', parts: frontendParts, of: 'no_endpoints' },
  { set: 'refused-no-local-endpoints', parts: frontendParts, of: 'no_local_endpoints' },
  { set: 'refused-source-ranges', parts: frontendParts, of: 'source_ranges' },
  { set: 'refused-ports', parts: ['address'], of: 'no_such_port' },
  { set: 'refused-addresses', parts: ['protocol'], of: 'no_such_service' },
] as const;

/**
 * From this part of its size on, answers may be missing from a set: packets add nothing to a full
 * one, and what has expired since was in it.
 */
const fullPart = 0.9;

/** From this part of its size on, a set that packets fill is emptied, down to the second part. */
const crowdedPart = 0.75;
const keptPart = 0.5;

/** Deleted in one commit, which the kernel refuses when one of them has just expired. */
const keysPerCommit = 1024;

type Elements = ReplyOf<'elements'>;

/** A set that was read. */
interface ReadSet {
  readonly fields: SetFields;
  readonly records: readonly Elements[];
  /** Whose each key is, where packets have nearly filled the set. */
  readonly owners: Map<string, string> | undefined;
}

/** Reads set after set. Rejects with KernelError when the kernel can't be read. */
export async function readCountings<Name extends string>(
  kernel: Pick<Kernel, 'apply' | 'dump'>,
  layout: TableLayout<Name>,
  countings: readonly Counting<Name>[],
  pause: Pause,
  report: CountTaker,
): Promise<void> {
  const { family, table } = layout;
  const read: (readonly [Counting<Name>, ReadSet])[] = [];
  let areAnswersWhole = true;
  for (const counting of countings) {
    const definition = layout.sets[counting.set];
    const fields = fieldsOfSet(family, table, definition);
    const { dataLength, keyLength, size } = fields;
    const request = { ...inTable(layout), set: counting.set, keyLength, dataLength } as const;
    const shape = dumpShape(definition);
    const answer = await kernel.dump({ kind: 'elementsDump', ...request, shape });
    const records = answer.records.filter((record) => record.kind === 'elements');
    const count = records.reduce((sum, one) => sum + one.entries.length / strideOf(one), 0);
    const isCrowded = size > 0 && count >= crowdedPart * size;
    read.push([counting, { fields, records, owners: isCrowded ? new Map() : undefined }]);
    if (counting.of === 'answers') areAnswersWhole = count < fullPart * size;
  }
  const gone = new Set<string>();
  for (const [counting, { fields, owners, records }] of read) {
    const of = { family, counting, areAnswersWhole };
    for (const record of records) {
      await eachEntry(record, pause, (key, count) => {
        const owner = count > 0 ? report(countOf(of, key, count)) : '';
        owners?.set(binary(key), owner);
      });
    }
    if (owners === undefined) continue;
    const kept = keptPart * fields.size;
    const { beyond } = await fairShares([...owners], ([, owner]) => owner, kept, pause);
    for (const [key] of beyond) gone.add(key);
  }
  // What is not deleted now is deleted at another reading.
  const sets = read.map(([, one]) => one);
  if (gone.size > 0) await deleteKeys(kernel, sets, gone, pause).catch(() => undefined);
}

/**
 * Deletes these keys from all sets that packets fill. A key leaves all of them in one commit: what
 * is sent to an endpoint is compared with what it answers.
 */
async function deleteKeys(
  kernel: Pick<Kernel, 'apply' | 'dump'>,
  sets: readonly ReadSet[],
  keys: ReadonlySet<string>,
  pause: Pause,
): Promise<void> {
  const held: (readonly [SetFields, Set<string>])[] = [];
  for (const { fields, records } of sets) {
    if (fields.size === 0) continue;
    const own = new Set<string>();
    held.push([fields, own]);
    for (const record of records) {
      await eachEntry(record, pause, (bytes) => {
        const key = binary(bytes);
        if (keys.has(key)) own.add(key);
      });
    }
  }
  const all = [...keys];
  for (let at = 0; at < all.length; at += keysPerCommit) {
    const part = all.slice(at, at + keysPerCommit);
    const writer = new RecordWriter(nftOps);
    for (const [fields, own] of held) {
      const deleted = part.filter((key) => own.has(key));
      writeKeys(writer, 'elementsDelete', fields, deleted);
    }
    await failureOf(kernel, writer.finish());
  }
}

/** A counter follows each key. */
function strideOf({ keyLength }: Elements): number {
  return keyLength + 8;
}

/** What a record is of. */
interface Source {
  readonly family: Family;
  readonly counting: Counting<string>;
  readonly areAnswersWhole: boolean;
}

/** Elements read between two pauses; reading them takes a few microseconds. */
const entriesPerPause = 16;

/** Takes each key with what its element has counted. */
export async function eachEntry(
  record: Elements,
  pause: Pause,
  take: (key: Uint8Array, count: number) => void,
): Promise<void> {
  const { entries, keyLength } = record;
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const stride = strideOf(record);
  for (let at = 0, read = 1; at < entries.length; at += stride, read += 1) {
    const key = entries.subarray(at, at + keyLength);
    take(key, Number(view.getBigUint64(at + keyLength, true)));
    if (read % entriesPerPause !== 0) continue;
    const rest = pause();
    if (rest !== undefined) await rest;
  }
}

function countOf(
  { areAnswersWhole, counting, family }: Source,
  key: Uint8Array,
  count: number,
): Count {
  const reader = new KeyReader(family, key);
  const destination: Destination = {
    address: counting.parts.includes('address') ? reader.address() : undefined,
    protocol: counting.parts.includes('protocol') ? reader.protocol() : undefined,
    port: counting.parts.includes('port') ? reader.port() : undefined,
  };
  const id = [counting.set, binary(key)].join(' ');
  switch (counting.of) {
    case 'connections':
      return { id, count, destination, of: { kind: 'connections' } };
    case 'endpoint':
    case 'answers':
    case 'resets': {
      const endpoint = formatEndpoint(reader.address().bytes, reader.port());
      const { protocol } = destination;
      const isFollowed = areAnswersWhole && (protocol === 'TCP' || protocol === 'UDP');
      return { id, count, destination, of: { kind: counting.of, endpoint, isFollowed } };
    }
    default:
      return { id, count, destination, of: { kind: 'refusals', reason: counting.of } };
  }
}

/** Takes the parts of a key, each padded to 4 bytes, one after the other. */
class KeyReader {
  readonly #family: Family;
  readonly #key: Uint8Array;
  #at = 0;

  constructor(family: Family, key: Uint8Array) {
    this.#family = family;
    this.#key = key;
  }

  address(): Address {
    const length = addressBytes[this.#family];
    this.#at += length;
    return Address.from(this.#key.subarray(this.#at - length, this.#at));
  }

  /** Undefined for an address that no Service has. */
  protocol(): Protocol | undefined {
    this.#at += 4;
    return protocolOf(this.#key[this.#at - 4]!);
  }

  port(): number {
    this.#at += 4;
    return (this.#key[this.#at - 4]! << 8) | this.#key[this.#at - 3]!;
  }
}
