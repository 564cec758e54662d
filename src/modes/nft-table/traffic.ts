/** Reads what elements have counted. Packets count in them, so that only the kernel knows. */
import type { KernelReader, ReplyOf } from '../../kernel/kernel.ts';
import { protocolOf } from '../../kernel/nft/constants.ts';
import { dumpShape, fieldsOfSet } from '../../kernel/nft/sets.ts';
import { Address, addressBytes, type Family, formatEndpoint } from '../../net/address.ts';
import type { Protocol } from '../../net/protocol.ts';
import type { Destination } from '../../state/services-by-frontend.ts';
import type { Pause } from '../../time/pacer.ts';
import { binary } from '../elements.ts';
import type { Count, RefusalReason } from '../traffic-counts.ts';
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

type Elements = ReplyOf<'elements'>;

/** Reads set after set. Rejects with KernelError when the kernel can't be read. */
export async function readCountings<Name extends string>(
  kernel: KernelReader,
  layout: TableLayout<Name>,
  countings: readonly Counting<Name>[],
  pause: Pause,
  report: (count: Count) => void,
): Promise<void> {
  const { family, table } = layout;
  const read: (readonly [Counting<Name>, Elements[]])[] = [];
  let areAnswersWhole = true;
  for (const counting of countings) {
    const definition = layout.sets[counting.set];
    const { keyLength, dataLength, size } = fieldsOfSet(family, table, definition);
    const request = { ...inTable(layout), set: counting.set, keyLength, dataLength } as const;
    const shape = dumpShape(definition);
    const { records } = await kernel.dump({ kind: 'elementsDump', ...request, shape });
    const dumped = records.filter((record) => record.kind === 'elements');
    read.push([counting, dumped]);
    const count = dumped.reduce((sum, one) => sum + one.entries.length / strideOf(one), 0);
    if (counting.of === 'answers') areAnswersWhole = count < fullPart * size;
  }
  for (const [counting, records] of read) {
    const of = { family, counting, areAnswersWhole };
    for (const record of records) await readRecord(of, record, pause, report);
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

async function readRecord(
  of: Source,
  record: Elements,
  pause: Pause,
  report: (count: Count) => void,
): Promise<void> {
  const { entries, keyLength } = record;
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const stride = strideOf(record);
  for (let at = 0, read = 1; at < entries.length; at += stride, read += 1) {
    const key = entries.subarray(at, at + keyLength);
    const count = Number(view.getBigUint64(at + keyLength, true));
    if (count > 0) report(countOf(of, key, count));
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
