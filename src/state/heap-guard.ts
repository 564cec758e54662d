/**
 * Bounds what objects take of V8's heap, which ends the process when it is full. The namespace that
 * holds most does not get more: its new Services are left out, and if that does not suffice, its
 * newest ones are dropped. All others are served as before.
 */

import { Columns, type List } from '../net/list.ts';
import type { Change, Resource, Taken } from './change.ts';
import { levelWithin } from './level.ts';
import type { ClusterState } from './store.ts';
import { type EndpointSlice, namespaceOf, type Service, type UnservedService } from './types.ts';

interface HeapGuardOptions {
  readonly state: ClusterState;
  /** The size at which V8 ends the process. */
  readonly heapBytesMax: number;
  /** A Service (`namespace/name`) is not served for lack of memory. `uid`: its metadata.uid. */
  readonly leftOut: (service: string, uid: string) => void;
}

/** The share of the heap from which on objects are left out. */
const fullShare = 0.8;

/** What the heap holds of a process that serves nothing, bytes. */
const idleBytes = 24 * 1024 * 1024;

/** Dropping goes down to this share of the bytes for objects: it is not needed each time then. */
const droppedToShare = 0.95;

/** At this share of them, 60 % of the heap, there is room for what was left out. */
const roomShare = 0.75;

/** A heap that was measured as full gets down to this share of its size. */
const measuredToShare = 0.7;

/** After such a measure, the next one shows its effect. */
const effectMs = 30_000;

/** Between two readings of what was left out: the least, and the most while it does not fit. */
const readingMs = { min: 60_000, max: 3_600_000 } as const;

/** What a change is about. */
interface Step {
  readonly resource: Resource;
  readonly key: string;
  /** The key of the Service. */
  readonly service: string;
  readonly before: number;
  readonly after: number;
}

export class HeapGuard {
  readonly #options: HeapGuardOptions;
  readonly #leftOut = new LeftOut();
  /** By namespace. */
  readonly #bytes = new Map<string, number>();
  #total = 0;
  /** The most bytes of a namespace; undefined: to be found. */
  #largest: number | undefined = 0;
  #bytesMax: number;
  #measureAtMs = Number.NEGATIVE_INFINITY;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #readingMs: number = readingMs.min;

  constructor(options: HeapGuardOptions) {
    this.#options = options;
    this.#bytesMax = this.#usualMax;
  }

  /** What objects take, about; and the most that they may take. */
  get bytes(): { readonly taken: number; readonly max: number } {
    return { taken: this.#total, max: this.#bytesMax };
  }

  get leftOut(): Pick<LeftOut, 'count' | 'namespaces'> {
    return this.#leftOut;
  }

  /** Applies a change to the state, unless it has no room. */
  apply(change: Change): Taken {
    const step = this.#stepOf(change);
    if (step === undefined) return this.#options.state.apply(change);
    if (change.kind === 'slice-unused') return this.#takeUnused(change, step);
    const { key, resource, service } = step;
    const namespace = namespaceOf(key);
    if (this.#hasNoRoom(namespace, step)) {
      this.#leaveOut(resource, key);
      if (change.kind === 'service') this.#options.leftOut(key, change.service.uid);
      return 'left out';
    }
    this.#leftOut.delete(namespace, `${resource} ${key}`);
    const taken = this.#take(change, step);
    if (this.#total <= this.#bytesMax) return taken;
    this.#makeRoom();
    return step.after > 0 && !this.#isKnown(service) ? 'left out' : taken;
  }

  /**
   * `liveBytes`: what a collection of the whole heap has left. Where that is more than objects were
   * taken to need, they may take less.
   */
  measured(liveBytes: number, nowMs: number): void {
    const { heapBytesMax } = this.#options;
    if (liveBytes < roomShare * fullShare * heapBytesMax) this.#bytesMax = this.#usualMax;
    if (liveBytes < fullShare * heapBytesMax || nowMs < this.#measureAtMs) return;
    this.#measureAtMs = nowMs + effectMs;
    const fitting = (this.#total * measuredToShare * heapBytesMax) / liveBytes;
    // What else may fill the heap is not the fault of Services.
    this.#bytesMax = Math.max(fitting, this.#usualMax / 2);
    if (this.#total > this.#bytesMax) this.#makeRoom();
  }

  /** Whether what was left out is to be read again now. */
  takeReading(nowMs: number): boolean {
    if (nowMs < this.#readAtMs) return false;
    if (this.#leftOut.count === 0) this.#readingMs = readingMs.min;
    const hasRoom = this.#total <= roomShare * this.#bytesMax;
    if (this.#leftOut.count === 0 || !hasRoom) return false;
    this.#readAtMs = nowMs + this.#readingMs;
    this.#readingMs = Math.min(2 * this.#readingMs, readingMs.max);
    this.#leftOut.clear();
    return true;
  }

  get #usualMax(): number {
    return Math.max(0, fullShare * this.#options.heapBytesMax - idleBytes);
  }

  /** Undefined: the change is about something that tenants cannot write. */
  #stepOf(change: Change): Step | undefined {
    const { state } = this.#options;
    const ofService = (key: string, after: number): Step => {
      const before = bytesOfService(state.service(key)) + bytesOfUnserved(state.unserved.get(key));
      return { resource: 'services', key, service: key, before, after };
    };
    const ofSlice = (key: string, after: number, service = ''): Step => {
      const before = bytesOfSlice(state.slice(key));
      return { resource: 'endpointslices', key, service, before, after };
    };
    switch (change.kind) {
      case 'service':
        return ofService(change.service.key, bytesOfService(change.service));
      case 'service-unserved':
        return ofService(change.unserved.key, bytesOfUnserved(change.unserved));
      case 'service-gone':
        return ofService(change.key, 0);
      case 'slice':
        return ofSlice(change.slice.key, bytesOfSlice(change.slice), change.slice.service);
      case 'slice-unused':
        return ofSlice(change.unused.key, 0);
      case 'slice-gone':
        return ofSlice(change.key, 0);
      default:
        return undefined;
    }
  }

  /** Whether a new object would make the namespace with most even larger. */
  #hasNoRoom(namespace: string, { service, before, after }: Step): boolean {
    if (before > 0 || this.#total + after <= this.#bytesMax || this.#isKnown(service)) return false;
    return (this.#bytes.get(namespace) ?? 0) + after >= this.#mostBytes();
  }

  #isKnown(service: string): boolean {
    const { state } = this.#options;
    return (
      state.service(service) !== undefined ||
      state.unserved.has(service) ||
      state.slices(service).length > 0
    );
  }

  /** Of those that are not used few are kept. */
  #takeUnused(change: Extract<Change, { kind: 'slice-unused' }>, step: Step): Taken {
    const taken = this.#take(change, step);
    const { key, service } = change.unused;
    const isKept = this.#options.state.unusedSlices(service).some((one) => one.key === key);
    return isKept ? taken : 'left out';
  }

  #take(change: Change, { key, before, after }: Step): Taken {
    const taken = this.#options.state.apply(change);
    if (before === after) return taken;
    const namespace = namespaceOf(key);
    const was = this.#bytes.get(namespace) ?? 0;
    const bytes = was + after - before;
    this.#total += after - before;
    if (bytes > 0) this.#bytes.set(namespace, bytes);
    else this.#bytes.delete(namespace);
    if (this.#largest !== undefined) {
      if (bytes >= this.#largest) this.#largest = bytes;
      else if (was === this.#largest) this.#largest = undefined;
    }
    return taken;
  }

  #mostBytes(): number {
    if (this.#largest === undefined) {
      this.#largest = 0;
      for (const bytes of this.#bytes.values()) this.#largest = Math.max(this.#largest, bytes);
    }
    return this.#largest;
  }

  /** Drops the newest Services of the namespaces that hold most. */
  #makeRoom(): void {
    const { state } = this.#options;
    const target = droppedToShare * this.#bytesMax;
    const level = levelWithin([...this.#bytes.values()], target);
    for (const key of [...state.keys()].reverse()) {
      if (this.#total <= target) return;
      if ((this.#bytes.get(namespaceOf(key)) ?? 0) > level) this.#drop(key);
    }
  }

  #drop(service: string): void {
    const { state } = this.#options;
    for (const { key } of state.slices(service)) {
      this.#remove({ kind: 'slice-gone', key });
      this.#leaveOut('endpointslices', key);
    }
    const served = state.service(service);
    if (served === undefined && !state.unserved.has(service)) return;
    this.#remove({ kind: 'service-gone', key: service });
    this.#leaveOut('services', service);
    if (served !== undefined) this.#options.leftOut(service, served.uid);
  }

  #remove(change: Change): void {
    this.#take(change, this.#stepOf(change)!);
  }

  #leaveOut(resource: Resource, key: string): void {
    this.#leftOut.add(namespaceOf(key), `${resource} ${key}`);
  }
}

/** The most objects left out that are counted one by one, and the most namespaces of them. */
const leftOutMax = 1_000_000;
const namespacesMax = 1000;

/**
 * Counts objects without keeping them, or their names: there may be millions. Two whose hashes are
 * equal, one pair in 4,000 million, count as one.
 */
class LeftOut {
  readonly #hashes = new Set<number>();
  /** By namespace. */
  readonly #counts = new Map<string, number>();

  get count(): number {
    return this.#hashes.size;
  }

  /** The namespaces that have most, these first. */
  namespaces(most: number): [namespace: string, objects: number][] {
    return [...this.#counts].sort(([, a], [, b]) => b - a).slice(0, most);
  }

  /** `object`: the resource and `namespace/name`. */
  add(namespace: string, object: string): void {
    if (this.#hashes.size >= leftOutMax) return;
    const before = this.#hashes.size;
    if (this.#hashes.add(hashOf(object)).size > before) this.#add(namespace, 1);
  }

  delete(namespace: string, object: string): void {
    if (this.#hashes.size > 0 && this.#hashes.delete(hashOf(object))) this.#add(namespace, -1);
  }

  clear(): void {
    this.#hashes.clear();
    this.#counts.clear();
  }

  #add(namespace: string, change: number): void {
    const count = (this.#counts.get(namespace) ?? 0) + change;
    if (count <= 0) this.#counts.delete(namespace);
    else if (count > 1 || this.#counts.size < namespacesMax) this.#counts.set(namespace, count);
  }
}

/** FNV-1a, 32 bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  }
  return hash;
}

/** A Service with one port and its slice with one endpoint are 1.7 kB, with their names 1.9 kB. */
const serviceBytes = 1300;
const sliceBytes = 600;
const unservedBytes = 300;

/** An item of a list that is not in columns; equal short lists are one. */
const itemBytes = 60;

/** What a frontend takes beyond the first one. */
const frontendBytes = 300;

/** The frontends of a Service whatever its namespace asks for: a 64th of the default limit. */
const frontendsCounted = 312;

/** An endpoint in its slice, and in the pools of a Service port. */
const endpointBytes = 40;

/** The node and zone of an endpoint, which slices share if they are those of the cluster. */
const placeBytes = 80;

export function bytesOfService(service: Service | undefined): number {
  if (service === undefined) return 0;
  const { clusterIPs, externalIPs, key, loadBalancerIPs, loadBalancerSourceRanges, ports } =
    service;
  const addresses = clusterIPs.length + externalIPs.length + loadBalancerIPs.length;
  const nodePorts = service.type === 'ClusterIP' ? 0 : ports.length;
  const frontends = Math.min(ports.length * addresses + nodePorts, frontendsCounted);
  const lists = [externalIPs, loadBalancerIPs, loadBalancerSourceRanges, ports];
  const bytes = lists.reduce((sum, list) => sum + bytesOfList(list), 0);
  return serviceBytes + 3 * key.length + bytes + Math.max(0, frontends - 1) * frontendBytes;
}

export function bytesOfSlice(slice: EndpointSlice | undefined): number {
  if (slice === undefined) return 0;
  const { addresses, key, length, places, ports, zoneHints } = slice;
  const bytes = bytesOfList(ports) + (zoneHints === undefined ? 0 : bytesOfList(zoneHints));
  const ofPlaces = places === undefined ? 0 : placeBytes * length;
  return sliceBytes + 3 * key.length + bytes + addresses.length + endpointBytes * length + ofPlaces;
}

export function bytesOfUnserved(unserved: UnservedService | undefined): number {
  return unserved === undefined ? 0 : unservedBytes + 3 * unserved.key.length;
}

function bytesOfList(list: List<unknown>): number {
  if (list instanceof Columns) return list.bytes.length + list.text.length;
  return list.length * itemBytes;
}
