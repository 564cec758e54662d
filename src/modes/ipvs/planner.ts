/** Turns changes of Forwardings into ordered batches about IPVS, addresses and nf_tables. */
import type { Kernel, TableName } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import type { Family } from '../../net/address.ts';
import { type Interval, mergeCIDRs } from '../../net/interval.ts';
import { type Forwarding, forwardingKey } from '../../state/types.ts';
import { BoundForwardings } from '../bound-forwardings.ts';
import { FrontendChanges } from '../changes.ts';
import { Counter } from '../counter.ts';
import {
  type Batch,
  type Drift,
  defaultIPVSSettings,
  type Environment,
  type IPVSSettings,
  type ModeConfig,
  type Observation,
  type Pause,
  type Planner,
  type RefusedAddress,
} from '../mode.ts';
import { type NamedObject, NamedObjects } from '../named-objects.ts';
import { TableOwnership, type Transact } from '../ownership.ts';
import { BatchWriter } from './batch-writer.ts';
import { Draining } from './draining.ts';
import {
  type IPVSFrontend,
  ipvsFrontends,
  type SharedElement,
  sharedElements,
  sharedId,
} from './frontends.ts';
import { type SetDefinitions, setDefinitions, tableComment, tableName } from './layout.ts';
import { environmentId, IPVSObservation, observe, observeServers } from './observation.ts';
import {
  isUsable,
  pruneFrontends,
  pruneShared,
  repairFixed,
  repairFrontend,
  type Wanted,
} from './repair.ts';
import { ServiceWriter } from './service-writer.ts';

/** Approximate bytes that one real server or element takes in a batch, for `pendingBytes`. */
const entryBytes = 64;

interface Owned<T> {
  readonly owner: string;
  readonly value: T;
}

export class IPVSPlanner implements Planner {
  readonly family: Family;
  readonly #config: ModeConfig;
  readonly #ipvs: IPVSSettings;
  readonly #sets: SetDefinitions;
  #environment: Environment;
  /** What the last batch left in force, when it is not `#environment`. */
  #environmentBefore: Environment | undefined;
  /** All that is wanted. */
  readonly #forwardings = new BoundForwardings({
    release: (forwarding) => this.#release(forwarding),
    claim: (forwarding) => this.#claim(forwarding),
  });

  /** Frontends changed since the last batch. */
  readonly #changes = new FrontendChanges<IPVSFrontend>();
  readonly #shared = new Counter<Owned<SharedElement>>();
  /** Chains and sets beside those of the layout. */
  readonly #objects = new NamedObjects();
  readonly #draining = new Draining();
  readonly #ownership: TableOwnership;
  #pendingEntries = 0;
  #pendingObjectBytes = 0;
  #batch: BatchWriter;
  #services: ServiceWriter;
  #observation: IPVSObservation | undefined;
  /** Virtual services that others made where they may: these are left alone. */
  #foreign: ReadonlySet<string> = new Set();

  constructor(config: ModeConfig, environment: Environment) {
    this.family = config.family;
    this.#config = config;
    this.#ipvs = config.ipvs ?? defaultIPVSSettings;
    this.#sets = setDefinitions(config.family);
    this.#environment = environment;
    const table = { family: NFPROTO[config.family], table: tableName };
    this.#ownership = new TableOwnership(table, tableComment, config.ownTables ?? false);
    this.#batch = new BatchWriter(this.family, this.#sets);
    this.#services = this.#writeTo(this.#batch);
  }

  get pendingBytes(): number {
    const entries = this.#pendingEntries * entryBytes;
    return entries + this.#pendingObjectBytes + this.#batch.byteLength;
  }

  /** Real servers are draining, or chains and sets wait to be deleted. */
  get deferred(): boolean {
    return !this.#draining.isEmpty || this.#objects.deferred;
  }

  readonly sweepDue = false;

  change(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    this.#forwardings.change(previous, next, this.#environment);
  }

  #release(forwarding: Forwarding): void {
    const owner = forwardingKey(forwarding.servicePort);
    for (const frontend of ipvsFrontends(forwarding, this.#environment)) {
      this.#changes.release(owner, frontend);
      for (const object of objectsOf(frontend)) this.#objects.release(object);
    }
    for (const value of sharedElements(forwarding, this.#environment)) {
      this.#shared.release(sharedId(value), { owner, value });
    }
  }

  #claim(forwarding: Forwarding): void {
    const owner = forwardingKey(forwarding.servicePort);
    for (const frontend of ipvsFrontends(forwarding, this.#environment)) {
      this.#changes.claim(owner, frontend);
      this.#pendingEntries += frontend.pool.length + frontend.sets.length + 1;
      for (const object of objectsOf(frontend)) {
        this.#pendingObjectBytes += this.#objects.claim(object);
      }
    }
    for (const value of sharedElements(forwarding, this.#environment)) {
      this.#shared.claim(sharedId(value), { owner, value });
    }
  }

  takeRefused(): readonly RefusedAddress[] {
    return this.#forwardings.takeRefused();
  }

  environment(next: Environment, pause: Pause): Promise<void> {
    return this.#forwardings.move(this.#environment, next, pause, () => {
      this.#environmentBefore ??= this.#environment;
      this.#environment = next;
    });
  }

  take(): Batch | undefined {
    this.#draining.confirm();
    this.#objects.confirm();
    for (const [id, change] of this.#changes.entries()) {
      if (!this.#foreign.has(id)) this.#services.write(change);
      if (change.after !== undefined) this.#mend(change.after);
      this.#observation?.touched.add(id);
    }
    this.#objects.take(this.#observation?.table, this.#put);
    this.#writeShared();
    this.#writeEnvironment();
    const batch = this.#batch.batch();
    this.#changes.clear();
    this.#startBatch();
    return batch;
  }

  readonly #put = (object: NamedObject, isThere: boolean): void =>
    this.#batch.putObject(object, isThere);

  /** What a repair has found faulty, and not come to yet, is needed now. */
  #mend(frontend: IPVSFrontend): void {
    const found = this.#observation?.table;
    if (found !== undefined) this.#objects.mend(found, objectsOf(frontend), this.#put);
  }

  #writeShared(): void {
    const { needed, unused } = this.#shared.take();
    for (const [id, { owner, value }] of needed) {
      this.#batch.first.to('add', value.set, owner).key(value.key);
      if (value.set === 'vips') this.#batch.bind(owner, value.key);
      this.#observation?.touched.add(id);
    }
    for (const [id, { owner, value }] of unused) {
      this.#batch.last.to('delete', value.set, owner).key(value.key);
      if (value.set === 'vips') this.#batch.unbind(owner, value.key);
      this.#observation?.touched.add(id);
    }
  }

  #writeEnvironment(): void {
    if (this.#environmentBefore === undefined) return;
    const old = mergeCIDRs(this.#environmentBefore.serviceCIDRs);
    const wanted = mergeCIDRs(this.#environment.serviceCIDRs);
    this.#environmentBefore = undefined;
    this.#observation?.touched.add(environmentId);
    if (sameRanges(old, wanted)) return;
    // In one transaction: they may overlap.
    const { first } = this.#batch;
    for (const range of old) first.to('delete', 'service-cidrs', '').range(range);
    for (const range of wanted) first.to('add', 'service-cidrs', '').range(range);
  }

  async takeDeferred(kernel: Kernel): Promise<Batch | undefined> {
    this.#draining.confirm();
    const batch = new BatchWriter(this.family, this.#sets);
    for (const id of this.#objects.due(this.#observation?.table)) batch.deleteObject(id);
    const services = this.#writeTo(batch);
    const drains = this.#draining.entries();
    const found = await observeServers(
      kernel,
      this.family,
      drains.map(({ service }) => service),
    );
    for (const { service, servers } of drains) {
      for (const [key, endpoint] of servers) {
        const server = found.get(service.id)?.get(key);
        if (server === undefined) this.#draining.remove(service.id, key);
        else if (server.connections === 0) services.deleteServer('', service, endpoint);
        else continue;
        this.#observation?.touched.add(service.id);
      }
    }
    return batch.batch();
  }

  async takeSweep(): Promise<undefined> {}

  async reset(inForce: Iterable<Forwarding>, pause: Pause): Promise<void> {
    this.#draining.rollback();
    this.#environmentBefore = undefined;
    this.#changes.reset();
    this.#startBatch();
    this.#shared.clear();
    this.#objects.reset();
    this.#forwardings.clear();
    for (const forwarding of inForce) {
      const owner = forwardingKey(forwarding.servicePort);
      for (const frontend of ipvsFrontends(forwarding, this.#environment)) {
        this.#changes.resume(owner, frontend);
      }
      for (const value of sharedElements(forwarding, this.#environment)) {
        this.#shared.claim(sharedId(value), { owner, value });
      }
      for (const frontend of ipvsFrontends(forwarding, this.#environment)) {
        for (const object of objectsOf(frontend)) this.#objects.resume(object);
      }
      this.#forwardings.resume(forwarding, this.#environment);
      await pause();
    }
    this.#shared.take();
  }

  prepare(kernel: Kernel, transact: Transact): Promise<void> {
    return this.#ownership.prepare(kernel, transact);
  }

  get exposed(): readonly TableName[] {
    return this.#ownership.exposed;
  }

  async observe(kernel: Kernel, pause: Pause): Promise<IPVSObservation> {
    const found = await observe(kernel, this.family, this.#sets, pause);
    found.intact = isUsable(found, this.#wanted());
    this.#observation = found;
    return found;
  }

  async repairFixed(found: Observation, pause: Pause): Promise<Drift> {
    const observed = own(found);
    // The repair compares with the new environment: no need to come from the one before.
    if (!observed.touched.has(environmentId)) this.#environmentBefore = undefined;
    this.#foreign = observed.foreignServices(this.#ipvs.excludeCIDRs);
    return repairFixed(this.#wanted(), observed, pause);
  }

  repair(found: Observation, wanted: Forwarding): Drift {
    const drift = { missing: 0, wrong: 0, unwanted: 0 };
    const owner = forwardingKey(wanted.servicePort);
    const observed = own(found);
    for (const frontend of ipvsFrontends(wanted, this.#environment)) {
      this.#mend(frontend);
      if (this.#changes.has(frontend.id) || observed.touched.has(frontend.id)) continue;
      if (!this.#changes.holds(owner, frontend)) continue;
      observed.repaired.add(frontend.id);
      if (this.#foreign.has(frontend.id)) continue;
      repairFrontend(this.#wanted(), observed, { owner, frontend, drift });
    }
    return drift;
  }

  async prune(found: Observation, pause: Pause): Promise<Drift> {
    const drift = { missing: 0, wrong: 0, unwanted: 0 };
    const observed = own(found);
    const isDone = (id: string): boolean =>
      observed.repaired.has(id) ||
      observed.touched.has(id) ||
      this.#changes.has(id) ||
      this.#foreign.has(id);
    for (const { service } of this.#draining.entries()) {
      if (!isDone(service.id)) this.#draining.forget(service.id);
    }
    await pruneFrontends(this.#wanted(), observed, { isDone, drift, pause });
    await pruneShared(this.#wanted(), observed, { drift, pause });
    if (this.#observation === found) this.#observation = undefined;
    return drift;
  }

  #startBatch(): void {
    this.#pendingEntries = 0;
    this.#pendingObjectBytes = 0;
    this.#batch = new BatchWriter(this.family, this.#sets);
    this.#services = this.#writeTo(this.#batch);
  }

  #writeTo(batch: BatchWriter): ServiceWriter {
    return new ServiceWriter(this.family, this.#ipvs.scheduler, batch, this.#draining);
  }

  #wanted(): Wanted {
    return {
      config: this.#config,
      ipvs: this.#ipvs,
      environment: this.#environment,
      sets: this.#sets,
      ownership: this.#ownership,
      shared: this.#shared,
      objects: this.#objects,
      draining: this.#draining,
      services: this.#services,
      batch: this.#batch,
    };
  }
}

function objectsOf({ firewall }: IPVSFrontend): readonly NamedObject[] {
  return firewall?.objects ?? [];
}

/** An Observation is only ever handed back to the mode that made it. */
function own(found: Observation): IPVSObservation {
  if (!(found instanceof IPVSObservation)) throw new TypeError('an observation of another mode');
  return found;
}

function sameRanges(a: readonly Interval[], b: readonly Interval[]): boolean {
  return (
    a.length === b.length &&
    a.every(({ first, last }, i) => {
      const other = b[i]!;
      return Buffer.compare(first, other.first) === 0 && Buffer.compare(last, other.last) === 0;
    })
  );
}
