/**
 * Reads how many connections programs have counted, by frontend and endpoint, and makes room in the
 * map. An element without an endpoint holds the sum of the deleted elements of its frontend.
 */
import type { Kernel } from '../../kernel/kernel.ts';
import { kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { binary } from '../../modes/elements.ts';
import { fairShares } from '../../modes/fair-shares.ts';
import type { CountTaker } from '../../modes/traffic-counts.ts';
import { type Family, formatEndpoint } from '../../net/address.ts';
import type { Destination } from '../../state/frontends-in-force.ts';
import type { Pause } from '../../time/pacer.ts';
import { countedBytes, readCountedKey } from './layout.ts';
import { readMap } from './read-map.ts';

/** The most elements that a reading leaves in the map, so that there is room for new ones. */
const keptMax = 2 ** 16;

const maps = { IPv4: 'counts4', IPv6: 'counts6' } as const satisfies Record<Family, string>;

interface Element {
  readonly key: Uint8Array;
  readonly id: string;
  readonly count: number;
  /** As text; undefined: this is the sum of deleted elements. */
  readonly endpoint: string | undefined;
}

interface CountedFrontend {
  readonly id: string;
  namespace: string;
  readonly destination: Destination;
  readonly elements: Element[];
}

interface Reader {
  readonly kernel: Kernel;
  readonly directory: string;
  readonly family: Family;
  readonly pause: Pause;
}

export class ConnectTimeCounts {
  readonly #keptMax: number;
  /** Counts by key of the last reading, if that found more elements than may be kept. */
  readonly #last = new Map<Family, ReadonlyMap<string, number>>();

  constructor(most: number = keptMax) {
    this.#keptMax = most;
  }

  /** Passes `take` the sum of each frontend, and the count of each of its endpoints. */
  async read(reader: Reader, take: CountTaker): Promise<void> {
    const frontends = await readFrontends(reader);
    let elements = 0;
    for (const frontend of frontends.values()) {
      const { destination, elements: own, id } = frontend;
      elements += own.length;
      const count = sum(own);
      frontend.namespace = take({
        id: `connect-time ${id}`,
        count,
        destination,
        of: { kind: 'connections' },
      });
      for (const one of own) {
        if (one.endpoint === undefined) continue;
        const of = { kind: 'endpoint', endpoint: one.endpoint } as const;
        take({ id: `connect-time ${one.id}`, count: one.count, destination, of });
      }
    }
    await this.#makeRoom(reader, frontends, elements);
  }

  /**
   * Sums up and deletes elements that have counted no connection since the last reading, and where
   * the others are too many, those that namespaces have beyond their shares.
   */
  async #makeRoom(
    { directory, family, kernel, pause }: Reader,
    frontends: ReadonlyMap<string, CountedFrontend>,
    elements: number,
  ): Promise<void> {
    const last = this.#last.get(family) ?? new Map<string, number>();
    this.#last.delete(family);
    if (elements <= this.#keptMax) return;
    const added: Element[] = [];
    const deleted: Element[] = [];
    const now = new Map<string, number>();
    const moved: { readonly id: string; readonly namespace: string }[] = [];
    for (const { elements: own, namespace } of frontends.values()) {
      for (const { count, endpoint, id } of own) {
        now.set(id, count);
        if (last.size === 0 || last.get(id) === count || endpoint === undefined) continue;
        moved.push({ id, namespace });
      }
    }
    const shares = await fairShares(moved, (one) => one.namespace, this.#keptMax, pause);
    const beyond = new Set(shares.beyond.map(({ id }) => id));
    for (const { elements: own } of frontends.values()) {
      const idle = own.filter(({ count, id }) => last.get(id) === count || beyond.has(id));
      const folded = foldedOf(own, idle);
      if (folded !== undefined) added.push(folded);
      deleted.push(...idle.filter(({ id }) => id !== folded?.id));
    }
    this.#last.set(family, now);
    const out = new RecordWriter(kernelOps);
    const inMap = { directory, map: maps[family] };
    // A full map has room for sums after that.
    if (deleted.length > 0) out.write('bpfElementsDelete', { ...inMap, keys: keysOf(deleted) });
    if (added.length > 0) {
      const values = Buffer.concat(added.map(({ count }) => countValue(count)));
      out.write('bpfElementsAdd', { ...inMap, keys: keysOf(added), values });
    }
    await kernel.apply(out.finish());
  }
}

async function readFrontends({
  directory,
  family,
  kernel,
  pause,
}: Reader): Promise<Map<string, CountedFrontend>> {
  const frontends = new Map<string, CountedFrontend>();
  const map = { directory, map: maps[family], ...countedBytes };
  await readMap(kernel, map, pause, (key, value) => {
    const { address, endpoint, frontend, port, protocol } = readCountedKey(family, key);
    const id = binary(frontend);
    let of = frontends.get(id);
    if (of === undefined) {
      of = { id, namespace: '', destination: { address, port, protocol }, elements: [] };
      frontends.set(id, of);
    }
    of.elements.push({
      key,
      id: binary(key),
      count: Number(new DataView(value.buffer, value.byteOffset).getBigUint64(0, true)),
      endpoint: endpoint && formatEndpoint(endpoint.bytes, endpoint.port),
    });
  });
  return frontends;
}

/** The element with the sum of the idle endpoints of a frontend; undefined: all are in use. */
function foldedOf(own: readonly Element[], idle: readonly Element[]): Element | undefined {
  const deleted = own.find(({ endpoint }) => endpoint === undefined);
  const endpoints = idle.filter(({ endpoint }) => endpoint !== undefined);
  const [first] = endpoints;
  if (first === undefined) {
    // The sum of a frontend must not shrink, so that it is deleted only as its last element.
    return deleted !== undefined && idle.includes(deleted) && own.length > 1 ? deleted : undefined;
  }
  const key = first.key.slice().fill(0, countedBytes.frontendBytes);
  return {
    key,
    id: binary(key),
    count: sum(endpoints) + (deleted?.count ?? 0),
    endpoint: undefined,
  };
}

function keysOf(elements: readonly Element[]): Buffer {
  return Buffer.concat(elements.map(({ key }) => key));
}

function countValue(count: number): Uint8Array {
  const value = Buffer.alloc(countedBytes.valueBytes);
  value.writeBigUInt64LE(BigInt(count));
  return value;
}

function sum(elements: readonly Element[]): number {
  return elements.reduce((all, { count }) => all + count, 0);
}
