/**
 * Decides which Services are in the maps. The maps have a fixed size. A Service that fits is in
 * them with all its ports; any other is left to the rules, which are complete without the maps. It
 * comes in when there is room, in the order in which Services were left out.
 */
import { type Address, addressKey } from '../../net/address.ts';
import { type Forwarding, objectKey } from '../../state/types.ts';
import type { LeftToRules, MapUse } from './facts.ts';
import { poolOf, type Reason, type Setting, shadowsNodePorts, sizeOf } from './frontends.ts';
import { MapRoom, moved, nothing } from './map-room.ts';
import type { Room } from './placement.ts';
import type { PoolId } from './pool-ids.ts';
import { PoolOwners } from './pool-owners.ts';

interface AdmissionOptions {
  readonly room: Room;
  readonly setting: Setting;
  readonly poolId: PoolId;
  /** What the maps are to have of a Forwarding; undefined: nothing. */
  readonly desire: (key: string, next: Forwarding | undefined) => void;
}

interface Entry {
  readonly service: string;
  /** The ports of the Service whose rules are in force, by key. */
  readonly forwardings: Map<string, Forwarding>;
  size: Room;
  isIn: boolean;
}

/** Services that are tried at a time when there is room again: each costs the event loop time. */
const triedMax = 256;

/** In place of the key of a Forwarding, which is never empty. */
const reservedKey = '';

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #room: MapRoom;
  readonly #owners: PoolOwners;
  readonly #services = new Map<string, Entry>();
  #reserved = nothing;
  /** Services that are left to the rules, the one that has waited longest first. */
  readonly #left = new Set<string>();
  /** Keys of which the kernel may have something else than what is desired. */
  readonly #unsettled = new Set<string>();
  /**
   * External addresses of Forwardings that the maps do not have, by key. Where such an address is
   * one of this node, programs must not find a node port in the place of the frontend.
   */
  readonly #covered = new Map<string, readonly Address[]>();
  #isCoverChanged = false;
  /** Services whose report is due, and those that were last reported as left to the rules. */
  readonly #unreported = new Set<string>();
  readonly #reported = new Set<string>();

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#room = new MapRoom(options.room);
    this.#owners = new PoolOwners(options.setting, options.poolId);
  }

  get use(): MapUse {
    const used = moved(this.#room.used, this.#reserved);
    return { used, limit: this.#room.limit, left: this.#left.size };
  }

  /** Whether the Service (`namespace/name`) is in the maps, or is about to be. */
  holds(service: string): boolean {
    return this.#services.get(service)?.isIn === true;
  }

  /** Why rules handle some frontend of it; undefined: they need not. */
  reasonOf(forwarding: Forwarding): Reason | 'no room' | 'pool id' | undefined {
    const entry = this.#services.get(serviceOf(forwarding));
    if (entry?.isIn !== true)
      return entry !== undefined && this.#isContested(entry) ? 'pool id' : 'no room';
    for (const frontend of forwarding.frontends) {
      const pool = poolOf(forwarding, frontend, this.#options.setting);
      if (pool !== 'cluster' && pool !== 'local') return pool;
    }
    return undefined;
  }

  /** The rules of `next` are in force from now on; undefined: those of `key` are gone. */
  changed(forwarding: Forwarding, next: Forwarding | undefined): void {
    const { key } = forwarding;
    const entry = this.#entryOf(serviceOf(forwarding));
    const previous = entry.forwardings.get(key);
    if (previous === next) return;
    const { size } = entry;
    entry.size = moved(size, this.#sizeOf(previous), this.#sizeOf(next));
    if (next === undefined) entry.forwardings.delete(key);
    else entry.forwardings.set(key, next);
    if (!entry.isIn) {
      this.#cover(key, next);
      if (this.#mayEnter(entry)) this.#enter(entry);
    } else if (this.#room.fits(size, entry.size) && this.#owners.replace(previous, next)) {
      this.#desire(key, next);
    } else {
      if (previous !== undefined) this.#owners.remove(previous);
      this.#leave(entry);
    }
    if (entry.forwardings.size === 0) this.#forget(entry);
  }

  /** So many addresses of the node are in the map of frontends, or may be. */
  reserve(addresses: number): void {
    this.#reserved = { frontends: addresses, endpoints: 0 };
    this.#room.desire(reservedKey, this.#reserved);
  }

  /** The kernel has exactly this, and nothing is in flight. */
  settled(held: ReadonlyMap<string, Forwarding>): void {
    const { used } = this.#room;
    this.#room.settle(reservedKey, this.#reserved);
    let isAnyFree = false;
    for (const key of this.#unsettled) {
      const forwarding = held.get(key);
      const isSettled = this.#room.settle(key, this.#sizeOf(forwarding));
      isAnyFree = this.#owners.settle(key, forwarding) || isAnyFree;
      if (forwarding !== undefined && this.#covered.has(key)) {
        if (this.holds(serviceOf(forwarding))) this.#uncover(key);
      }
      if (isSettled && !this.#owners.isLeaving(key)) this.#unsettled.delete(key);
    }
    const now = this.#room.used;
    if (isAnyFree || now.frontends < used.frontends || now.endpoints < used.endpoints) {
      this.#readmit();
    }
  }

  /** The kernel had no room or no memory, which is no Service's fault: fewer are to be in. */
  refused(): void {
    this.#room.halve();
    for (const entry of [...this.#services.values()].reverse()) {
      if (!this.#room.isOver) return;
      if (entry.isIn && entry.forwardings.size > 0) this.#leave(entry);
    }
  }

  /** A comparison is over, and the kernel refused nothing since the one before. */
  compared(): void {
    this.#room.double();
    this.#readmit();
  }

  /** Services that are left to the rules, or no longer, since the last call. */
  takeLeft(): LeftToRules[] {
    const left: LeftToRules[] = [];
    for (const service of this.#unreported) {
      const entry = this.#services.get(service);
      const isLeft = entry?.isIn === false;
      if (isLeft === this.#reported.has(service)) continue;
      if (isLeft) this.#reported.add(service);
      else this.#reported.delete(service);
      if (entry === undefined) continue;
      const isContested = isLeft && this.#isContested(entry);
      left.push({ service, isLeft, isContested, ...entry.size });
    }
    this.#unreported.clear();
    return left;
  }

  /** Whether `uncovered` answers differently since this was last asked. */
  takeCoverChanged(): boolean {
    const isChanged = this.#isCoverChanged;
    this.#isCoverChanged = false;
    return isChanged;
  }

  /** Those of the addresses at which programs may find node ports. */
  uncovered(addresses: readonly Address[]): readonly Address[] {
    const covered = new Set([...this.#covered.values()].flat().map(addressKey));
    return covered.size === 0
      ? addresses
      : addresses.filter((address) => !covered.has(addressKey(address)));
  }

  #entryOf(service: string): Entry {
    let entry = this.#services.get(service);
    if (entry === undefined) {
      entry = { service, forwardings: new Map(), size: nothing, isIn: true };
      this.#services.set(service, entry);
    }
    return entry;
  }

  #sizeOf(forwarding: Forwarding | undefined): Room {
    return forwarding === undefined ? nothing : sizeOf(forwarding, this.#options.setting);
  }

  #desire(key: string, next: Forwarding | undefined): void {
    this.#room.desire(key, this.#sizeOf(next));
    this.#unsettled.add(key);
    this.#options.desire(key, next);
  }

  /** With an eighth to spare: otherwise an endpoint that comes and goes would move it each time. */
  #mayEnter({ forwardings, size }: Entry): boolean {
    const frontends = Math.floor(size.frontends * 1.125);
    const endpoints = Math.floor(size.endpoints * 1.125);
    const fits = this.#room.fits(nothing, { frontends, endpoints });
    return fits && this.#owners.areFree(forwardings.values());
  }

  /** Whether one of its pools would have the id of another pool. */
  #isContested({ forwardings }: Entry): boolean {
    return !this.#owners.areFree(forwardings.values());
  }

  /** Its addresses stay covered until its frontends are in force. */
  #enter(entry: Entry): void {
    entry.isIn = true;
    this.#left.delete(entry.service);
    this.#unreported.add(entry.service);
    for (const [key, one] of entry.forwardings) {
      this.#owners.add(one);
      this.#desire(key, one);
    }
  }

  #leave(entry: Entry): void {
    entry.isIn = false;
    this.#left.add(entry.service);
    this.#unreported.add(entry.service);
    for (const [key, one] of entry.forwardings) {
      this.#cover(key, one);
      this.#owners.remove(one);
      this.#desire(key, undefined);
    }
  }

  #forget({ service }: Entry): void {
    this.#services.delete(service);
    this.#left.delete(service);
    this.#unreported.add(service);
  }

  /** Those that do not fit are tried last from now on. */
  #readmit(): void {
    let tried = 0;
    const { size } = this.#left;
    for (const service of this.#left) {
      // One that is tried in vain is put to the end.
      if (tried === Math.min(size, triedMax)) return;
      tried += 1;
      const entry = this.#services.get(service)!;
      if (this.#mayEnter(entry)) this.#enter(entry);
      else if (this.#left.delete(service)) this.#left.add(service);
    }
  }

  #cover(key: string, forwarding: Forwarding | undefined): void {
    this.#uncover(key);
    if (forwarding === undefined) return;
    const own = forwarding.frontends.filter((frontend) => shadowsNodePorts(forwarding, frontend));
    if (own.length === 0) return;
    this.#covered.set(
      key,
      own.map(({ address }) => address!),
    );
    this.#isCoverChanged = true;
  }

  #uncover(key: string): void {
    if (this.#covered.delete(key)) this.#isCoverChanged = true;
  }
}

/** `namespace/name` of its Service. */
export function serviceOf({ servicePort }: Forwarding): string {
  return objectKey(servicePort.namespace, servicePort.name);
}
