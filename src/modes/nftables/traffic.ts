/** Reads what elements have counted. Packets count in them, so that only the kernel knows. */
import type { Kernel } from '../../kernel/kernel.ts';
import { IPPROTO, NFPROTO } from '../../kernel/nft/constants.ts';
import { dumpShape, fieldsOfSet } from '../../kernel/nft/sets.ts';
import type { Reply } from '../../kernel/ops.ts';
import { type Address, addressBytes, type Family, formatEndpoint } from '../../net/address.ts';
import type { Protocol } from '../../net/protocol.ts';
import { binary } from '../elements.ts';
import type { Pause } from '../mode.ts';
import type { Count, Destination, RefusalReason } from '../traffic-counts.ts';
import { type SetName, setDefinitions, tableName } from './layout.ts';

/** What the elements of a set count, and which parts their keys have. */
interface Counting {
  readonly set: SetName;
  readonly parts: readonly ('address' | 'protocol' | 'port')[];
  readonly of: 'connections' | 'endpoint' | RefusalReason;
}

const frontend = ['address', 'protocol', 'port'] as const;

const countings: readonly Counting[] = [
  { set: 'connections', parts: frontend, of: 'connections' },
  { set: 'nodeport-connections', parts: ['protocol', 'port'], of: 'connections' },
  { set: 'endpoint-connections', parts: frontend, of: 'endpoint' },
  { set: 'refused-no-endpoints', parts: frontend, of: 'no_endpoints' },
  { set: 'refused-no-local-endpoints', parts: frontend, of: 'no_local_endpoints' },
  { set: 'refused-source-ranges', parts: frontend, of: 'source_ranges' },
  { set: 'refused-ports', parts: ['address'], of: 'no_such_port' },
  { set: 'refused-addresses', parts: ['protocol'], of: 'no_such_service' },
];

/** Reads set after set. Rejects with KernelError when the kernel can't be read. */
export async function readTraffic(
  kernel: Kernel,
  family: Family,
  pause: Pause,
  told: (count: Count) => void,
): Promise<void> {
  const definitions = setDefinitions(family);
  for (const counting of countings) {
    const definition = definitions[counting.set];
    const { keyLength, dataLength } = fieldsOfSet(family, tableName, definition);
    const shape = dumpShape(definition);
    const request = { family: NFPROTO[family], table: tableName, set: counting.set } as const;
    const layout = { shape, keyLength, dataLength };
    const { records } = await kernel.dump({ kind: 'elementsDump', ...request, ...layout });
    for (const record of records) {
      if (record.kind === 'elements') await readRecord(family, counting, record, pause, told);
    }
  }
}

/** So many elements are read in a few microseconds. */
const entriesPerPause = 16;

async function readRecord(
  family: Family,
  counting: Counting,
  { entries, keyLength }: Extract<Reply, { kind: 'elements' }>,
  pause: Pause,
  told: (count: Count) => void,
): Promise<void> {
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const stride = keyLength + 8;
  for (let at = 0, read = 1; at < entries.length; at += stride, read += 1) {
    const key = entries.subarray(at, at + keyLength);
    const count = Number(view.getBigUint64(at + keyLength, true));
    if (count > 0) told(countOf(family, counting, key, count));
    if (read % entriesPerPause !== 0) continue;
    const rest = pause();
    if (rest !== undefined) await rest;
  }
}

function countOf(family: Family, counting: Counting, key: Uint8Array, count: number): Count {
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
    case 'endpoint': {
      const endpoint = formatEndpoint(reader.address().bytes, reader.port());
      return { id, count, destination, of: { kind: 'endpoint', endpoint } };
    }
    default:
      return { id, count, destination, of: { kind: 'refusals', reason: counting.of } };
  }
}

const protocols = new Map(
  (Object.entries(IPPROTO) as [Protocol, number][]).map(([name, number]) => [number, name]),
);

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
    return { family: this.#family, bytes: this.#key.slice(this.#at - length, this.#at) };
  }

  /** Undefined for an address that no Service has. */
  protocol(): Protocol | undefined {
    this.#at += 4;
    return protocols.get(this.#key[this.#at - 4]!);
  }

  port(): number {
    this.#at += 4;
    return (this.#key[this.#at - 4]! << 8) | this.#key[this.#at - 3]!;
  }
}
