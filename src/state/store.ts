/**
 * The state of the cluster: the newest record of each object, and which Services must be resolved
 * again. It has no I/O: a source applies changes, and the sync loop reads which Services changed.
 */
import { isDeepStrictEqual } from 'node:util';
import { type CIDR, type Family, families, formatCIDR } from '../net/address.ts';
import { mayHaveAny } from '../net/address-columns.ts';
import type { Change, Resource, Taken } from './change.ts';
import { Cursor, type Pending } from './cursor.ts';
import type { Balance } from './deal.ts';
import { sameService, sameSlice } from './equal.ts';
import type { AddressKeys } from './node-sockets.ts';
import { isNone, kept, listOf, type OneOrMore } from './one-or-more.ts';
import { apiServers, OtherMachines } from './other-machines.ts';
import { type TriggerTime, TriggerTimes } from './trigger-times.ts';
import {
  Condition,
  type EndpointSlice,
  type Node,
  type Service,
  type ServiceCIDR,
  type UnservedService,
  type UnusedSlice,
} from './types.ts';
import { UnusedSlices } from './unused-slices.ts';

const noSlices: readonly EndpointSlice[] = [];
const noMachines: AddressKeys = new Set();

/** A Service, if it is known, and its slices. */
interface Known {
  service: Service | undefined;
  slices: OneOrMore<EndpointSlice>;
  /** The steps that it took to resolve it last; 0: few. */
  cost: number;
}

/**
 * A Service that must be resolved again: it, its slices or what it depends on has changed. One that
 * was added and deleted is among them, because it may have been resolved in between.
 */
export interface ChangedService extends Pending, Moment {
  /** The steps that it takes to resolve it; undefined: it is not begun. */
  steps: Generator<undefined, void> | undefined;
  stepsTaken: number;
  /** The first change since it was begun. */
  again: Moment | undefined;
}

/** Follows which Services (`namespace/name`) were resolved, or are gone. */
export interface ServiceFollower {
  resolved(service: string): void;
  /** Those of this node. */
  addressesChanged?(): void;
}

/** When a Service changed. */
interface Moment {
  /** How many changes there had been, with this one. */
  readonly change: number;
  /** `Clock.now` */
  readonly sinceMs: number;
}

export class ClusterState {
  /** The Services that must be resolved again. Until all is listed, none is next before `release`. */
  readonly changed = new Cursor<ChangedService>();
  readonly #now: () => number;
  /** By the key of the Service. */
  readonly #known = new Map<string, Known>();
  readonly #unserved = new Map<string, UnservedService>();
  readonly #slices = new Map<string, EndpointSlice>();
  readonly #unused = new UnusedSlices();
  readonly #serviceCIDRObjects = new Map<string, ServiceCIDR>();
  #serviceCIDRs: Readonly<Record<Family, readonly CIDR[]>> = { IPv4: [], IPv6: [] };
  #node: Node | undefined;
  /** The slices of the API servers, for each family the last ones with an endpoint that serves. */
  #lastServers = noSlices;
  /** Undefined: it does not matter where other machines are. */
  #machines: OtherMachines | undefined;

  /** Until all is listed: Services whose slices have arrived. The last one to change is last. */
  readonly #arrived = new Set<string>();
  readonly #synced = new Set<Resource>();
  #isSynced = false;
  readonly #triggerTimes: TriggerTimes;
  /** Services that are known, accepted changes, and changes of Services. */
  readonly #counts = { services: 0, revision: 0, changes: 0 };

  /**
   * Trigger times of slices up to `startedMs` (milliseconds since the epoch) are ignored. `now` is
   * `Clock.now`; default: that of the system.
   */
  constructor(startedMs = 0, now = () => performance.now()) {
    this.#triggerTimes = new TriggerTimes(startedMs);
    this.#now = now;
  }

  /** Applies a change. Repeating the current state changes nothing. */
  apply(change: Change): Taken {
    if (!this.#accept(change)) return 'same';
    this.#counts.revision += 1;
    return 'changed';
  }

  /** The first complete list of this resource has arrived. */
  markSynced(resource: Resource): void {
    this.#synced.add(resource);
    this.#isSynced = this.#synced.has('services') && this.#synced.has('endpointslices');
    if (!this.#isSynced) return;
    this.#arrived.clear();
    this.changed.releaseAll();
  }

  /** Whether anything may be deleted from the kernel: a missing list is not an empty list. */
  get synced(): boolean {
    return this.#isSynced;
  }

  /** +1 for each accepted change. */
  get revision(): number {
    return this.#counts.revision;
  }

  /**
   * During the first lists: releases at most `limit` Services that are probably complete. A server
   * lists the slices of a Service one after the other, so the last `spared` Services that got a
   * slice are kept back.
   */
  release(limit: number, spared: number): void {
    let left = limit;
    for (const key of this.#arrived) {
      if (left === 0 || this.#arrived.size <= spared) break;
      left -= 1;
      this.#arrived.delete(key);
      const changed = this.changed.get(key);
      if (changed !== undefined) this.changed.release(changed);
    }
  }

  /** A Service is resolved. `cost`: the steps that it took; 0: few. */
  resolved(changed: ChangedService, cost = 0): void {
    const { again, key } = changed;
    const known = this.#known.get(key);
    if (known !== undefined) known.cost = cost;
    this.changed.done(changed);
    if (again !== undefined) this.#add(key, again);
  }

  /** How often Services have changed. */
  get changes(): number {
    return this.#counts.changes;
  }

  /** Whether a Service waits that was among the first `changes` to change. */
  waits(changes: number): boolean {
    for (const { change } of this.changed) if (change <= changes) return true;
    return false;
  }

  /** Has a Service resolved again although it has not changed. */
  touch(key: string): void {
    if (this.service(key) !== undefined) this.#change(key);
  }

  #change(key: string): void {
    const changed = this.changed.get(key);
    if (changed !== undefined && (changed.steps === undefined || changed.again)) return;
    this.#counts.changes += 1;
    const moment = { change: this.#counts.changes, sinceMs: this.#now() };
    if (changed === undefined) this.#add(key, moment);
    else changed.again = moment;
    this.changed.wake();
  }

  #add(key: string, moment: Moment): void {
    const cost = this.#known.get(key)?.cost ?? 0;
    const waiting = { steps: undefined, stepsTaken: 0, again: undefined, cost, group: undefined };
    this.changed.add({ key, ...moment, ...waiting }, this.synced);
  }

  /**
   * Touches Services that ask for this balance; `random` is that of weights and slow starts
   * alone, too.
   */
  touchBalanced(balance: Balance): void {
    for (const [key, { service, slices }] of this.#known) {
      const asked = service?.balancing?.balance;
      const isWeighted = (): boolean =>
        service?.balancing?.slowStartMs !== undefined ||
        listOf(slices).some(({ weight }) => weight !== undefined);
      if (asked === balance || (asked === undefined && balance === 'random' && isWeighted())) {
        this.touch(key);
      }
    }
  }

  /** Whether the Service has to be resolved again. */
  isDirty(key: string): boolean {
    return this.changed.get(key) !== undefined;
  }

  /** Takes the trigger times that were added for a Service since the last call. */
  takeTriggerTimes(key: string): readonly TriggerTime[] {
    return this.#triggerTimes.take(key);
  }

  service(key: string): Service | undefined {
    return this.#known.get(key)?.service;
  }

  *serviceKeys(): Generator<string> {
    for (const { service } of this.#known.values()) if (service !== undefined) yield service.key;
  }

  /** Keys of all Services, and of those that only slices name; the last ones came last. */
  *keys(): Generator<string> {
    yield* this.#unserved.keys();
    yield* this.#known.keys();
  }

  slice(key: string): EndpointSlice | undefined {
    return this.#slices.get(key);
  }

  /** Keys that slices name, but no Service has. */
  *keysWithSlicesAlone(): Generator<string> {
    for (const [key, { service }] of this.#known) if (service === undefined) yield key;
  }

  /** Existing Services that this proxy does not serve, by key. */
  get unserved(): ReadonlyMap<string, UnservedService> {
    return this.#unserved;
  }

  get serviceCount(): number {
    return this.#counts.services;
  }

  /** Slices that name the Service, whether or not it is known, in any order. */
  slices(key: string): readonly EndpointSlice[] {
    return listOf(this.#known.get(key)?.slices ?? noSlices);
  }

  /**
   * The slices from which the Service is served: its own. While the one of the API servers has no
   * endpoint of a family that serves, they are the last ones that had: whoever reaches the API
   * through them, this process perhaps, would otherwise never hear of the next ones.
   */
  servedSlices(key: string): readonly EndpointSlice[] {
    return key === apiServers ? this.#lastServers : this.slices(key);
  }

  /** Whether the Service is served from slices that it has no longer. */
  isKept(key: string): boolean {
    if (key !== apiServers) return false;
    const own = this.slices(key);
    return this.#lastServers.some((one) => serves(one) && !own.includes(one));
  }

  /** Slices that seem to be for the Service but are unusable. */
  unusedSlices(key: string): readonly UnusedSlice[] {
    return this.#unused.of(key);
  }

  /** This node as last seen; with `deleted` set if it was deleted. */
  get node(): Node | undefined {
    return this.#node;
  }

  /** The union of all ServiceCIDR objects; the same array until it changes. */
  serviceCIDRs(family: Family): readonly CIDR[] {
    return this.#serviceCIDRs[family];
  }

  /** Addresses of other machines, if `followMachines` has asked for them; the same until changed. */
  get machines(): AddressKeys {
    return this.#machines?.keys ?? noMachines;
  }

  /** Follows the addresses of other machines from now on; undefined: no longer. */
  followMachines(podCIDRs: readonly CIDR[] | undefined): void {
    this.#machines = podCIDRs && new OtherMachines(podCIDRs);
    for (const slice of this.#slices.values()) this.#machines?.add(slice);
  }

  #accept(change: Change): boolean {
    switch (change.kind) {
      case 'service':
        return this.#setService(change.service);
      case 'service-gone':
        return !this.#unserved.delete(change.key) && this.#deleteService(change.key);
      case 'service-unserved':
        return this.#setUnserved(change.unserved);
      case 'slice':
        return this.#setSlice(change.slice);
      case 'slice-unused':
        return this.#setUnused(change.unused);
      case 'slice-gone':
        return this.#deleteUnused(change.key) || this.#deleteSlice(change.key);
      case 'node':
        return this.#setNode(change.node);
      case 'node-gone':
        return this.#node?.name === change.name && this.#setNode({ ...this.#node, deleted: true });
      case 'service-cidr':
        return this.#setServiceCIDR(change.serviceCIDR);
      case 'service-cidr-gone':
        return this.#deleteServiceCIDR(change.name);
    }
  }

  #setService(service: Service): boolean {
    const { key } = service;
    const known = this.#at(key);
    const previous = known.service;
    if (previous !== undefined && sameService(previous, service)) return false;
    this.#unserved.delete(key);
    known.service = service;
    if (previous === undefined) this.#counts.services += 1;
    this.#change(key);
    this.#noteArrival(key, known);
    return true;
  }

  /** Nothing depends on it, unless it was served before. */
  #setUnserved(unserved: UnservedService): boolean {
    this.#unserved.set(unserved.key, unserved);
    return this.#deleteService(unserved.key);
  }

  #deleteService(key: string): boolean {
    const known = this.#known.get(key);
    if (known?.service === undefined) return false;
    known.service = undefined;
    this.#counts.services -= 1;
    this.#forgetIfEmpty(key, known);
    this.#change(key);
    return true;
  }

  /** Touches Services whose problems may have changed. */
  #setUnused(unused: UnusedSlice): boolean {
    const services = this.#unused.set(unused);
    for (const service of services) this.touch(service);
    return this.#deleteSlice(unused.key) || services.length > 0;
  }

  #deleteUnused(key: string): boolean {
    const service = this.#unused.delete(key);
    if (service !== undefined) this.touch(service);
    return service !== undefined;
  }

  #setSlice(slice: EndpointSlice): boolean {
    const { key, service } = slice;
    this.#deleteUnused(key);
    let previous = this.#slices.get(key);
    if (previous !== undefined && sameSlice(previous, slice)) return false;
    if (previous !== undefined && previous.service !== service) {
      this.#deleteSlice(key);
      previous = undefined;
    }
    const known = this.#at(service);
    this.#slices.set(key, slice);
    if (previous !== undefined) this.#machines?.remove(previous);
    this.#machines?.add(slice);
    const slices = listOf(known.slices);
    known.slices = kept(
      previous === undefined
        ? slices.concat(slice)
        : slices.map((other) => (other === previous ? slice : other)),
    );
    this.#noteServers(service);
    // The controller gives each of its changes a time: an earlier one is not of this change.
    if (slice.triggerTimeMs !== previous?.triggerTimeMs) {
      this.#triggerTimes.record(service, slice.family, slice.triggerTimeMs);
    }
    if (known.service !== undefined) this.#change(service);
    this.#noteArrival(service, known);
    return true;
  }

  #noteServers(service: string): void {
    if (service !== apiServers) return;
    this.#lastServers = families.flatMap((family) => {
      const [now = noSlices, last = noSlices] = [this.slices(service), this.#lastServers].map(
        (slices) => slices.filter((one) => one.family === family),
      );
      return now.some(serves) || !last.some(serves) ? now : last;
    });
  }

  #noteArrival(key: string, { service, slices }: Known): void {
    if (this.synced || service === undefined || isNone(slices)) return;
    this.#arrived.delete(key);
    this.#arrived.add(key);
  }

  #deleteSlice(key: string): boolean {
    const slice = this.#slices.get(key);
    if (slice === undefined) return false;
    const { service, family } = slice;
    const known = this.#at(service);
    this.#slices.delete(key);
    this.#machines?.remove(slice);
    known.slices = kept(listOf(known.slices).filter((other) => other !== slice));
    this.#noteServers(service);
    this.#forgetIfEmpty(service, known);
    this.#triggerTimes.drop(service, family);
    if (known.service !== undefined) this.#change(service);
    return true;
  }

  /** The entry of the Service, created if there is none. */
  #at(key: string): Known {
    let known = this.#known.get(key);
    if (known === undefined) {
      known = { service: undefined, slices: noSlices, cost: 0 };
      this.#known.set(key, known);
    }
    return known;
  }

  #forgetIfEmpty(key: string, { service, slices }: Known): void {
    if (service === undefined && isNone(slices)) this.#known.delete(key);
  }

  #setNode(node: Node): boolean {
    const previous = this.#node;
    if (isDeepStrictEqual(previous, node)) return false;
    this.#node = node;
    if (previous?.zone !== node.zone) this.#touchWith(({ zoneHints }) => zoneHints !== undefined);
    if (!isDeepStrictEqual(previous?.podCIDRs, node.podCIDRs)) this.#touchWith(isNodeless);
    if ((previous?.isShuttingDown ?? false) !== node.isShuttingDown) this.#touchWith(hasLocal);
    if (!isDeepStrictEqual(previous?.addresses, node.addresses)) this.#touchSourceRanged();
    return true;
  }

  /** Touches Services that have one of these addresses, and perhaps some that have many. */
  touchAt(addresses: AddressKeys): void {
    if (addresses.size === 0) return;
    const isAt = mayHaveAny(addresses);
    for (const [key, { service }] of this.#known) {
      if (service === undefined) continue;
      const { clusterIPs, externalIPs, loadBalancerIPs } = service;
      if (isAt(clusterIPs) || isAt(externalIPs) || isAt(loadBalancerIPs)) this.touch(key);
    }
  }

  #touchWith(isConcerned: (slice: EndpointSlice) => boolean): void {
    for (const slice of this.#slices.values()) if (isConcerned(slice)) this.touch(slice.service);
  }

  /** Touches Services with source ranges: whether they include the node may have changed. */
  #touchSourceRanged(): void {
    for (const [key, { service }] of this.#known) {
      if (service !== undefined && service.loadBalancerSourceRanges.length > 0) this.touch(key);
    }
  }

  #setServiceCIDR(serviceCIDR: ServiceCIDR): boolean {
    if (isDeepStrictEqual(this.#serviceCIDRObjects.get(serviceCIDR.name), serviceCIDR))
      return false;
    this.#serviceCIDRObjects.set(serviceCIDR.name, serviceCIDR);
    this.#uniteServiceCIDRs();
    return true;
  }

  #deleteServiceCIDR(name: string): boolean {
    if (!this.#serviceCIDRObjects.delete(name)) return false;
    this.#uniteServiceCIDRs();
    return true;
  }

  /** Unlike in upstream, a CIDR in two objects survives the deletion of one of them. */
  #uniteServiceCIDRs(): void {
    const union = new Map<string, CIDR>();
    for (const { cidrs } of this.#serviceCIDRObjects.values()) {
      for (const cidr of cidrs) union.set(formatCIDR(cidr), cidr);
    }
    const sorted = [...union].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, cidr]) => cidr);
    const of = (family: Family): readonly CIDR[] => {
      const cidrs = sorted.filter((cidr) => cidr.address.family === family);
      return isDeepStrictEqual(cidrs, this.#serviceCIDRs[family])
        ? this.#serviceCIDRs[family]
        : cidrs;
    };
    this.#serviceCIDRs = { IPv4: of('IPv4'), IPv6: of('IPv6') };
  }
}

/** Whether it has endpoints that name no node. */
function isNodeless({ length, places }: EndpointSlice): boolean {
  return places === undefined ? length > 0 : places.some(({ node }) => node === '');
}

function hasLocal(slice: EndpointSlice): boolean {
  return hasCondition(slice, Condition.local);
}

function serves(slice: EndpointSlice): boolean {
  return hasCondition(slice, Condition.ready | Condition.serving);
}

function hasCondition({ conditions }: EndpointSlice, asked: number): boolean {
  for (let i = 0; i < conditions.length; i += 1) {
    if ((conditions.charCodeAt(i) & asked) !== 0) return true;
  }
  return false;
}
