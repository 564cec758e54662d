/**
 * The planner of connect-time translation. Maps hold so much and no more, so it counts what each
 * Service would have there, and leaves a Service that does not fit wholly to the rules, until there
 * is room. The kernel refuses nothing then, and nobody else is concerned.
 */
import type { KernelFailure } from '../../kernel/kernel.ts';
import { type Address, addressKey } from '../../net/address.ts';
import { type Forwarding, objectKey } from '../../state/types.ts';
import type { BesideUse, LeftToRules } from '../beside.ts';
import {
  type Batch,
  type Drift,
  type Environment,
  inTurns,
  noPause,
  type Observation,
  type Pause,
  type Planner,
} from '../mode.ts';
import { ModePlanner } from '../planner.ts';
import type { ConnectTimeBackend, ConnectTimeTypes } from './backend.ts';
import { poolOf, type Reason, type Setting, shadowsNodePorts, sizeOf } from './frontends.ts';
import type { Placement } from './placement.ts';
import { PoolOwners } from './pool-owners.ts';
import { effortOf, nothing, Shares, type Size } from './shares.ts';

/** A Service: all its ports are in the maps, or none of them. */
interface Entry {
  readonly service: string;
  readonly namespace: string;
  readonly forwardings: Set<Forwarding>;
  size: Size;
  isIn: boolean;
}

interface BoundedPlannerOptions {
  readonly backend: ConnectTimeBackend;
  readonly environment: Environment;
  readonly placement: Placement;
  readonly setting: Setting;
}

/** What it costs, besides, to look at a Service that might come in again. */
const lookEffort = 2 ** -13;

/** What the kernel answers where it has no room or no memory. */
const fullCodes: ReadonlySet<string> = new Set(['E2BIG', 'ENOMEM', 'ENOSPC']);

export class BoundedPlanner extends ModePlanner<ConnectTimeTypes> {
  readonly #options: BoundedPlannerOptions;
  readonly #shares: Shares;
  readonly #owners: PoolOwners;
  /** By key. */
  readonly #services = new Map<string, Entry>();
  /** Services that are left to the rules. */
  readonly #left = new Set<string>();
  /** Whether Services are in the kernel's maps. Absent: nothing of it is in force. */
  #inForce = new Map<string, boolean>();
  /** What becomes of `#inForce` with the next batch; undefined = the Service is gone. */
  #changed = new Map<string, boolean | undefined>();
  /** Services of which `takeLeft` has to tell. */
  readonly #untold = new Set<string>();
  readonly #told = new Set<string>();
  #environment: Environment;
  /**
   * Addresses of Services that are left to the rules, and how many frontends are at each. Where
   * such an address is one of this node, a node port must not be found in the frontend's place.
   */
  readonly #covered = new Map<string | number, number>();
  #isCoverChanged = false;
  /** Those that are tried again, as there is more room now. */
  #candidates: Iterator<string> | undefined;
  #wasRefused = false;

  constructor(options: BoundedPlannerOptions) {
    super(options.backend, options.environment);
    this.#options = options;
    this.#environment = options.environment;
    this.#shares = new Shares(options.placement.room);
    this.#owners = new PoolOwners(options.setting, options.backend.poolId);
  }

  get use(): BesideUse {
    return { used: this.#shares.used, limit: this.#shares.limit, left: this.#left.size };
  }

  reasonOf(forwarding: Forwarding): Reason | 'no room' | 'pool id' | undefined {
    const entry = this.#services.get(keyOf(forwarding));
    if (entry?.isIn !== true)
      return entry !== undefined && this.#isContested(entry) ? 'pool id' : 'no room';
    for (const frontend of forwarding.frontends) {
      const pool = poolOf(forwarding, frontend, this.#options.setting);
      if (pool !== 'cluster' && pool !== 'local') return pool;
    }
    return undefined;
  }

  /** Whether the maps have the Service (`namespace/name`). */
  holds(service: string): boolean {
    return this.#services.get(service)?.isIn === true;
  }

  override twin(): Planner {
    const twin = new BoundedPlanner({
      ...this.#options,
      backend: this.#options.backend.twin(),
      environment: this.#environment,
    });
    for (const [service, { isIn }] of this.#services) twin.#inForce.set(service, isIn);
    return twin;
  }

  override describe(forwarding: Forwarding): readonly string[] {
    return this.holds(keyOf(forwarding)) ? super.describe(forwarding) : [];
  }

  get unfinished(): boolean {
    return this.#candidates !== undefined;
  }

  override change(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const entry = this.#entryOf((next ?? previous)!);
    const { isIn, namespace, size } = entry;
    this.#replace(entry, previous, next);
    if (!isIn) {
      if (this.#mayEnter(entry)) this.#admit(entry);
    } else if (
      this.#shares.fits(namespace, size, entry.size) &&
      this.#owners.replace(previous, next)
    ) {
      this.#shares.move(namespace, size, entry.size);
      super.change(previous, next);
    } else {
      this.#shares.move(namespace, size, nothing);
      if (previous !== undefined) {
        this.#owners.remove(previous);
        super.change(previous, undefined);
      }
      this.#leave(entry);
      for (const one of entry.forwardings) if (one !== next) super.change(one, undefined);
    }
    if (entry.forwardings.size === 0) this.#forget(entry);
  }

  override environment(next: Environment, pause: Pause): Promise<void> | void {
    this.#environment = next;
    return super.environment(this.#uncovered(), pause);
  }

  override take(): Batch | undefined {
    this.#readmit();
    if (this.#isCoverChanged) void super.environment(this.#uncovered(), noPause);
    const changed = this.#changed;
    this.#changed = new Map();
    const batch = super.take();
    if (this.#shares.taken()) this.#tryAgain();
    const leaving = this.#owners.taken();
    if (batch === undefined) {
      this.#landed(changed, leaving);
      return undefined;
    }
    return {
      ...batch,
      committed: (result) => {
        batch.committed?.(result);
        this.#landed(changed, leaving);
      },
      refused: (failures) => this.#refused(failures),
    };
  }

  override repair(found: Observation, wanted: Forwarding): Drift {
    if (this.holds(keyOf(wanted))) return super.repair(found, wanted);
    return { missing: 0, wrong: 0, unwanted: 0 };
  }

  override async prune(found: Observation, pause: Pause): Promise<Drift> {
    const drift = await super.prune(found, pause);
    // What was refused a moment ago would be refused again.
    if (this.#wasRefused) this.#wasRefused = false;
    else {
      this.#shares.double();
      this.#tryAgain();
    }
    return drift;
  }

  /** What was in the maps stays there, and what was left to the rules is left to them. */
  override async reset(inForce: Iterable<Forwarding>, pause: Pause): Promise<void> {
    const all = [...inForce];
    this.#clear();
    await inTurns(all, pause, (one) => this.#replace(this.#entryOf(one), undefined, one));
    for (const service of this.#told) this.#untold.add(service);
    for (const service of this.#inForce.keys()) {
      if (!this.#services.has(service)) this.#inForce.delete(service);
    }
    await inTurns([...this.#services.values()], pause, (entry) => this.#resume(entry));
    this.#shed();
    void super.environment(this.#uncovered(), noPause);
    const inMaps = all.filter((one) => this.holds(keyOf(one)));
    await super.reset(inMaps, pause);
  }

  /** Services that are left to the rules, or no longer, since the last call. */
  takeLeft(): LeftToRules[] {
    const left: LeftToRules[] = [];
    for (const service of this.#untold) {
      const entry = this.#services.get(service);
      const isLeft = entry?.isIn === false;
      if (isLeft === this.#told.has(service)) continue;
      if (isLeft) this.#told.add(service);
      else this.#told.delete(service);
      if (entry === undefined) continue;
      const isContested = isLeft && this.#isContested(entry);
      left.push({ service, isLeft, isContested, ...entry.size });
    }
    this.#untold.clear();
    return left;
  }

  #entryOf({ servicePort }: Forwarding): Entry {
    const { name, namespace } = servicePort;
    const service = objectKey(namespace, name);
    let entry = this.#services.get(service);
    if (entry === undefined) {
      entry = { service, namespace, forwardings: new Set(), size: nothing, isIn: true };
      this.#services.set(service, entry);
      this.#changed.set(service, true);
    }
    return entry;
  }

  #replace(entry: Entry, previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const { forwardings, isIn } = entry;
    if (!isIn) this.#cover(previous, -1);
    if (!isIn) this.#cover(next, 1);
    if (previous !== undefined) forwardings.delete(previous);
    if (next !== undefined) forwardings.add(next);
    entry.size = sum(entry.size, this.#sizeOf(next), this.#sizeOf(previous));
  }

  #sizeOf(forwarding: Forwarding | undefined): Size {
    return forwarding === undefined ? nothing : sizeOf(forwarding, this.#options.setting);
  }

  #tryAgain(): void {
    if (this.#left.size > 0) this.#candidates = this.#left.values();
  }

  /** With some more than it needs: else an endpoint that comes and goes would move it each time. */
  #mayEnter({ forwardings, namespace, size }: Entry): boolean {
    const frontends = Math.floor(size.frontends * 1.125);
    const endpoints = Math.floor(size.endpoints * 1.125);
    const fits = this.#shares.fits(namespace, nothing, { frontends, endpoints });
    return fits && this.#owners.areFree(forwardings);
  }

  /** Whether one of its pools would have the id of another pool. */
  #isContested({ forwardings }: Entry): boolean {
    return !this.#owners.areFree(forwardings);
  }

  #admit(entry: Entry): void {
    this.#shares.move(entry.namespace, nothing, entry.size);
    this.#enter(entry);
    for (const one of entry.forwardings) super.change(undefined, one);
  }

  #enter(entry: Entry): void {
    for (const one of entry.forwardings) {
      this.#cover(one, -1);
      this.#owners.add(one);
    }
    entry.isIn = true;
    this.#left.delete(entry.service);
    this.#note(entry.service, true);
  }

  #leave(entry: Entry): void {
    for (const one of entry.forwardings) {
      this.#cover(one, 1);
      this.#owners.remove(one);
    }
    entry.isIn = false;
    this.#left.add(entry.service);
    this.#note(entry.service, false);
  }

  #forget({ service }: Entry): void {
    this.#services.delete(service);
    this.#left.delete(service);
    this.#note(service, undefined);
  }

  #note(service: string, isIn: boolean | undefined): void {
    this.#changed.set(service, isIn);
    this.#untold.add(service);
  }

  #landed(changed: ReadonlyMap<string, boolean | undefined>, freed: readonly string[]): void {
    this.#owners.free(freed);
    if (freed.length > 0) this.#tryAgain();
    for (const [service, isIn] of changed) {
      if (isIn === undefined) this.#inForce.delete(service);
      else this.#inForce.set(service, isIn);
    }
  }

  /** As much as one Service may have, and at least one. */
  #readmit(): void {
    for (let effort = 0; this.#candidates !== undefined && effort < 1; effort += lookEffort) {
      const { value: service, done } = this.#candidates.next();
      if (done === true) this.#candidates = undefined;
      const entry = done === true ? undefined : this.#services.get(service);
      if (entry === undefined || !this.#mayEnter(entry)) continue;
      this.#admit(entry);
      effort += effortOf(entry.size);
    }
  }

  #clear(): void {
    this.#services.clear();
    this.#left.clear();
    this.#shares.clear();
    this.#owners.clear();
    this.#covered.clear();
    this.#changed = new Map();
    this.#candidates = undefined;
  }

  #resume(entry: Entry): void {
    const { forwardings, namespace, service, size } = entry;
    const isIn = this.#inForce.get(service) ?? this.#shares.fits(namespace, nothing, size);
    if (isIn && this.#owners.areFree(forwardings)) {
      this.#shares.move(namespace, nothing, size);
      for (const one of forwardings) this.#owners.add(one);
    } else this.#leave(entry);
  }

  /** Leaves the largest to the rules until the rest fits. */
  #shed(): void {
    if (!this.#shares.isOver) return;
    const bySize = [...this.#services.values()]
      .filter(({ isIn }) => isIn)
      .sort((a, b) => weightOf(b.size) - weightOf(a.size));
    for (const entry of bySize) {
      if (!this.#shares.isOver) return;
      this.#shares.move(entry.namespace, entry.size, nothing);
      this.#leave(entry);
    }
  }

  /** Whether it was for want of room, which is no Service's fault. */
  #refused(failures: readonly KernelFailure[]): boolean {
    if (!failures.some(({ code }) => fullCodes.has(code))) return false;
    this.#shares.halve();
    this.#wasRefused = true;
    return true;
  }

  #cover(forwarding: Forwarding | undefined, step: 1 | -1): void {
    if (forwarding === undefined) return;
    for (const frontend of forwarding.frontends) {
      if (!shadowsNodePorts(forwarding, frontend)) continue;
      const key = addressKey(frontend.address!);
      const count = (this.#covered.get(key) ?? 0) + step;
      if (count === 0) this.#covered.delete(key);
      else this.#covered.set(key, count);
      this.#isCoverChanged = true;
    }
  }

  /** The environment without addresses at which node ports are left to the rules. */
  #uncovered(): Environment {
    this.#isCoverChanged = false;
    const { connectTimeAddresses = [] } = this.#environment;
    const isFree = (address: Address): boolean => !this.#covered.has(addressKey(address));
    return { ...this.#environment, connectTimeAddresses: connectTimeAddresses.filter(isFree) };
  }
}

function keyOf({ servicePort }: Forwarding): string {
  return objectKey(servicePort.namespace, servicePort.name);
}

function sum(size: Size, more: Size, less: Size): Size {
  return {
    frontends: size.frontends + more.frontends - less.frontends,
    endpoints: size.endpoints + more.endpoints - less.endpoints,
  };
}

function weightOf({ frontends, endpoints }: Size): number {
  return frontends + endpoints;
}
