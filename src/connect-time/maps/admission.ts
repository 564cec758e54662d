/**
 * Decides which Services are in the maps. The maps have a fixed size. A Service that fits is in
 * them with all its ports. Rules alone handle any other, as they are complete without the maps. It
 * is tried again when it changes, when elements that left then have left, and after each comparison
 * of the maps with the kernel.
 */

import type { Address } from '../../net/address.ts';
import { madeAt } from '../../net/made-at.ts';
import { type Forwarding, type ForwardingsByKey, serviceKey } from '../../state/types.ts';
import type { Pause } from '../../time/pacer.ts';
import type { LeftToRules, MapUse } from './facts.ts';
import { poolOf, type Reason, type Setting, shadowsOthers, sizeOf } from './frontends.ts';
import { MapRoom, moved, nothing } from './map-room.ts';
import type { Room } from './placement.ts';

interface AdmissionOptions {
  readonly room: Room;
  readonly setting: Setting;
  /** Changes what the maps should contain of a Forwarding; undefined: nothing. */
  readonly desire: (key: string, next: Forwarding | undefined) => void;
}

interface Entry {
  readonly service: string;
  /** The ports of the Service whose rules are in force, by key. */
  readonly forwardings: Map<string, Forwarding>;
  size: Room;
  isIn: boolean;
}

/** In place of the key of a Forwarding, which is never empty. */
const reservedKey = '';

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #room: MapRoom;
  readonly #services = new Map<string, Entry>();
  #reserved = nothing;
  /** Services that rules handle alone. */
  readonly #left = new Set<string>();
  /** Keys of Forwardings whose elements in the kernel may not be the desired ones. */
  readonly #unsettled = new Set<string>();
  /** Services that did not fit when they changed, and are tried again while elements leave. */
  readonly #awaiting = new Set<string>();
  /** Services left to the rules that are tried again: once, or (true) until nothing leaves. */
  readonly #retried = new Map<string, boolean>();
  /**
   * External addresses of Forwardings that the maps do not have, by key. Where such an address is
   * one of this node, programs must not find a node port in the place of the frontend.
   */
  readonly #covered = new Map<string, readonly Address[]>();
  #isCoverChanged = false;
  /** Services to report, and those that were last reported as left to the rules. */
  readonly #unreported = new Set<string>();
  readonly #reported = new Set<string>();

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#room = new MapRoom(options.room);
  }

  get use(): MapUse {
    const used = moved(this.#room.used, this.#reserved);
    return { used, limit: this.#room.limit, left: this.#left.size };
  }

  /** Whether the Service (`namespace/name`) is in the maps, or will be after the next batch. */
  holds(service: string): boolean {
    return this.#services.get(service)?.isIn === true;
  }

  /** Why rules handle some frontend of it; undefined: the maps have all frontends. */
  reasonOf(forwarding: Forwarding): Reason | 'no room' | undefined {
    if (!this.holds(serviceKey(forwarding.servicePort))) return 'no room';
    for (const frontend of forwarding.frontends) {
      const pool = poolOf(forwarding, frontend, this.#options.setting);
      if (pool !== 'cluster' && pool !== 'local') return pool;
    }
    return undefined;
  }

  /** The rules of `next` are in force; undefined: those of `forwarding` were deleted. */
  changed(forwarding: Forwarding, next: Forwarding | undefined): void {
    const { key } = forwarding;
    const entry = this.#entryOf(serviceKey(forwarding.servicePort));
    const previous = entry.forwardings.get(key);
    if (previous === next) return;
    const { size } = entry;
    entry.size = moved(size, this.#sizeOf(previous), this.#sizeOf(next));
    if (next === undefined) entry.forwardings.delete(key);
    else entry.forwardings.set(key, next);
    if (!entry.isIn) {
      this.#cover(key, next);
      if (this.#mayEnter(entry)) this.#enter(entry);
    } else if (this.#room.fits(entry.service, size, entry.size)) this.#desire(key, next);
    else this.#leave(entry);
    this.#await(entry);
    if (entry.forwardings.size === 0) this.#forget(entry);
  }

  /** Reserves room for this number of addresses of the node in the map of frontends. */
  reserve(addresses: number): void {
    this.#reserved = { frontends: addresses, endpoints: 0 };
    this.#room.desire(reservedKey, this.#reserved);
  }

  /** The kernel has exactly the elements of `inForce`, and no batch is in flight. */
  settled(inForce: ForwardingsByKey): void {
    this.#room.settle(reservedKey, this.#reserved);
    for (const key of this.#unsettled) {
      const forwarding = inForce.get(key);
      const isSettled = this.#room.settle(key, this.#sizeOf(forwarding));
      if (forwarding !== undefined && this.#covered.has(key)) {
        if (this.holds(serviceKey(forwarding.servicePort))) this.#uncover(key);
      }
      if (isSettled) this.#unsettled.delete(key);
    }
    for (const service of this.#awaiting) this.#retried.set(service, true);
    this.#awaiting.clear();
  }

  /** The kernel has no room or no memory, whichever Service came last: half of them must leave. */
  refused(): void {
    this.#room.halve();
    for (const entry of [...this.#services.values()].reverse()) {
      if (!this.#room.isOver) return;
      if (entry.isIn && entry.forwardings.size > 0) this.#leave(entry);
    }
  }

  /** The maps were compared with the kernel, which refused nothing since the comparison before. */
  compared(): void {
    this.#room.double();
    for (const service of this.#left) {
      if (!this.#retried.has(service)) this.#retried.set(service, false);
    }
  }

  /**
   * Services that were left to the rules, and fit now, get into the maps: after `settled` and
   * `compared`. Resolves when all were tried, or when the signal has aborted.
   */
  async retry(pause: Pause, signal: AbortSignal): Promise<void> {
    for (const [service, isAwaiting] of this.#retried) {
      if (signal.aborted) return;
      this.#retried.delete(service);
      const entry = this.#services.get(service);
      if (entry?.isIn === false && this.#mayEnter(entry)) this.#enter(entry);
      else if (entry !== undefined && isAwaiting) this.#await(entry);
      // Each may take milliseconds: see `ofServiceMax`.
      const rest = pause();
      if (rest !== undefined) await rest;
    }
  }

  /** Services whose state (left to the rules, or in the maps) changed since the last call. */
  takeLeft(): LeftToRules[] {
    const left: LeftToRules[] = [];
    for (const service of this.#unreported) {
      const entry = this.#services.get(service);
      const isLeft = entry?.isIn === false;
      if (isLeft === this.#reported.has(service)) continue;
      if (isLeft) this.#reported.add(service);
      else this.#reported.delete(service);
      if (entry !== undefined) left.push({ service, isLeft, ...entry.size });
    }
    this.#unreported.clear();
    return left;
  }

  /** Whether the answer of `uncovered` has changed since the last call. */
  takeCoverChanged(): boolean {
    const isChanged = this.#isCoverChanged;
    this.#isCoverChanged = false;
    return isChanged;
  }

  /** The addresses at which programs may find node ports. */
  uncovered(addresses: readonly Address[]): readonly Address[] {
    const covered = new Set([...this.#covered.values()].flat().map(({ key }) => key));
    return covered.size === 0
      ? addresses
      : addresses.filter((address) => !covered.has(address.key));
  }

  #entryOf(service: string): Entry {
    const newEntry = () => ({ service, forwardings: new Map(), size: nothing, isIn: true });
    return madeAt(this.#services, service, newEntry);
  }

  #sizeOf(forwarding: Forwarding | undefined): Room {
    return forwarding === undefined ? nothing : sizeOf(forwarding, this.#options.setting);
  }

  #desire(key: string, next: Forwarding | undefined): void {
    this.#room.desire(key, this.#sizeOf(next));
    this.#unsettled.add(key);
    this.#options.desire(key, next);
  }

  #mayEnter({ service, size }: Entry): boolean {
    return this.#room.fits(service, nothing, size);
  }

  /** It may fit once elements that leave have left, in one batch or in several. */
  #await({ isIn, service }: Entry): void {
    if (!isIn && this.#unsettled.size > 0) this.#awaiting.add(service);
  }

  /** Its addresses stay covered until its frontends are in force. */
  #enter(entry: Entry): void {
    entry.isIn = true;
    this.#left.delete(entry.service);
    this.#unreported.add(entry.service);
    for (const [key, one] of entry.forwardings) this.#desire(key, one);
  }

  #leave(entry: Entry): void {
    entry.isIn = false;
    this.#left.add(entry.service);
    this.#unreported.add(entry.service);
    for (const [key, one] of entry.forwardings) {
      this.#cover(key, one);
      this.#desire(key, undefined);
    }
  }

  #forget({ service }: Entry): void {
    this.#services.delete(service);
    this.#left.delete(service);
    this.#unreported.add(service);
  }

  #cover(key: string, forwarding: Forwarding | undefined): void {
    this.#uncover(key);
    if (forwarding === undefined) return;
    const own = forwarding.frontends.filter((frontend) => shadowsOthers(forwarding, frontend));
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
