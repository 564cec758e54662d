/** Turns changes of Forwardings into nf_tables transactions, for one family. */
import type { Kernel, TableName } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import type { Family } from '../../net/address.ts';
import { type Forwarding, forwardingKey } from '../../state/types.ts';
import { FrontendChanges } from '../changes.ts';
import { Counter } from '../counter.ts';
import { binary, hairpinKeys } from '../elements.ts';
import type {
  Batch,
  Drift,
  Environment,
  Miscount,
  ModeConfig,
  Observation,
  Pause,
  Planner,
} from '../mode.ts';
import { type NamedObject, NamedObjects } from '../named-objects.ts';
import { TableOwnership, type Transact } from '../ownership.ts';
import { selfClientKeys } from '../source-ranges.ts';
import { AffinityKeeper } from './affinity.ts';
import { ChainClasses } from './chain-classes.ts';
import { fixedChains } from './chains.ts';
import { Deferred } from './deferred.ts';
import { ElementCounts } from './element-counts.ts';
import { pruneFrontends, Repair, repairFrontend } from './frontend-repair.ts';
import { FrontendWriter } from './frontend-writer.ts';
import { type FrontendElements, frontendElements, objectsOfFrontend } from './frontends.ts';
import type { Lanes } from './lanes.ts';
import { type SetDefinitions, setDefinitions, tableComment, tableName } from './layout.ts';
import { NFTablesObservation } from './observation.ts';
import {
  environmentId,
  isHooked,
  isIntact,
  isUsable,
  pruneShared,
  repairFixed,
  type Wanted,
} from './repair.ts';
import { type SharedSet, sharedSets } from './shared.ts';
import { observe } from './table-reader.ts';
import { TableWriter } from './table-writer.ts';

/**
 * What waits costs about this much, for `pendingBytes`: an element in a batch, and the work on a
 * frontend, which may be all there is to a Service with one endpoint.
 */
const elementBytes = 48;
const frontendBytes = 256;

export class NFTablesPlanner implements Planner {
  readonly family: Family;
  readonly #config: ModeConfig;
  readonly #sets: SetDefinitions;
  readonly #classes: ChainClasses;
  #environment: Environment;
  /** What the last batch left in force, when it is not `#environment`. */
  #environmentBefore: Environment | undefined;

  /** Frontends changed since the last batch. */
  readonly #changes = new FrontendChanges<FrontendElements>();
  #pendingBytes = 0;
  /** Chains and sets beside those of the layout. */
  readonly #objects = new NamedObjects();
  readonly #shared: Readonly<Record<SharedSet, Counter<Uint8Array>>> = {
    'cluster-ips': new Counter(),
    hairpin: new Counter(),
    'self-clients': new Counter(),
  };
  readonly #counts = new ElementCounts();
  readonly #deferred = new Deferred();
  readonly #affinity: AffinityKeeper;
  readonly #ownership: TableOwnership;
  /** Fixed objects to write, and elements that repairs write. */
  #table: TableWriter;
  #observation: NFTablesObservation | undefined;
  /** The next batch deletes a table that packets meet, and makes it anew. */
  #replacing = false;
  /** The table has no base chains, so that no packet meets it yet (see `conceal`). */
  #isConcealed = false;

  constructor(config: ModeConfig, environment: Environment) {
    this.family = config.family;
    this.#config = config;
    this.#sets = setDefinitions(config.family);
    this.#environment = environment;
    this.#classes = new ChainClasses(config);
    this.#affinity = new AffinityKeeper(config.family);
    const table = { family: NFPROTO[config.family], table: tableName };
    this.#ownership = new TableOwnership(table, tableComment, config.ownTables ?? false);
    this.#table = new TableWriter(config.family, this.#sets);
  }

  get pendingBytes(): number {
    return this.#pendingBytes + this.#table.byteLength;
  }

  get indivisible(): boolean {
    return this.#replacing;
  }

  get deferred(): boolean {
    return this.#deferred.size > 0 || this.#objects.deferred;
  }

  change(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const owner = forwardingKey((next ?? previous)!.servicePort);
    if (previous !== undefined) {
      for (const frontend of frontendElements(this.#classes, previous)) {
        this.#changes.release(owner, frontend);
        this.#counts.frontend(frontend, -1);
        for (const object of objectsOfFrontend(frontend)) this.#objects.release(object);
      }
      this.#countShared(previous, 'release');
    }
    if (next === undefined) return;
    for (const frontend of frontendElements(this.#classes, next)) {
      this.#changes.claim(owner, frontend);
      this.#counts.frontend(frontend, 1);
      const elements = frontend.endpoints.length + frontend.local.length + 1;
      this.#pendingBytes += frontendBytes + elements * elementBytes;
      for (const object of objectsOfFrontend(frontend)) {
        this.#pendingBytes += this.#objects.claim(object);
      }
    }
    this.#countShared(next, 'claim');
  }

  #countShared(forwarding: Forwarding, step: 'claim' | 'resume' | 'release'): void {
    for (const { kind, address } of forwarding.frontends) {
      if (kind !== 'clusterIP') continue;
      this.#shared['cluster-ips'][step](binary(address!.bytes), address!.bytes);
    }
    for (const key of hairpinKeys(forwarding)) this.#shared.hairpin[step](binary(key), key);
    for (const key of selfClientKeys(forwarding)) {
      this.#shared['self-clients'][step](binary(key), key);
    }
  }

  environment(next: Environment): void {
    this.#environmentBefore ??= this.#environment;
    this.#environment = next;
  }

  take(): Batch | undefined {
    this.#confirm();
    const lanes = this.#table.lanes;
    const frontends = new FrontendWriter(this.family, lanes, this.#deferred);
    for (const [id, change] of this.#changes.entries()) {
      frontends.write(change);
      if (change.after !== undefined) this.#mend(change.after);
      this.#affinity.note(change);
      this.#observation?.touched.add(id);
    }
    for (const set of sharedSets) this.#writeShared(set, lanes);
    this.#objects.take(this.#observation, this.#put);
    this.#writeEnvironment();
    const batch = this.#table.batch();
    this.#changes.clear();
    this.#pendingBytes = 0;
    this.#replacing = false;
    this.#table = new TableWriter(this.family, this.#sets);
    return batch;
  }

  /** What was recorded so far is in force, and how it was before is of no use to anybody. */
  readonly #confirm = (): void => {
    this.#deferred.confirm();
    this.#objects.confirm();
  };

  conceal(found: Observation): boolean {
    if (isHooked(own(found))) return false;
    this.#isConcealed = true;
    return true;
  }

  reveal(): void {
    this.#isConcealed = false;
    for (const chain of fixedChains(this.#config, this.#environment)) {
      if (chain.base === undefined) continue;
      this.#table.putChain(chain);
      this.#observation?.touched.add(chain.name);
    }
  }

  #writeEnvironment(): void {
    if (this.#environmentBefore === undefined) return;
    this.#table.environment(this.#config, this.#environmentBefore, this.#environment);
    this.#environmentBefore = undefined;
    this.#observation?.touched.add(environmentId);
  }

  #writeShared(set: SharedSet, lanes: Lanes): void {
    const { needed, unused } = this.#shared[set].take();
    for (const [id, key] of needed) {
      lanes.to('add', set, '').key(key);
      this.#observation?.touched.add(id);
    }
    for (const [id, key] of unused) {
      lanes.to('delete', set, '').key(key);
      this.#observation?.touched.add(id);
    }
  }

  readonly #put = (object: NamedObject, isThere: boolean): void =>
    this.#table.putObject(object, isThere);

  /** What a repair has found faulty, and not come to yet, is needed now. */
  #mend(frontend: FrontendElements): void {
    const found = this.#observation;
    if (found !== undefined) this.#objects.mend(found, objectsOfFrontend(frontend), this.#put);
  }

  takeDeferred(): Batch | undefined {
    const ranges = this.#deferred.due();
    const objects = this.#objects.due(this.#observation);
    if (ranges.length === 0 && objects.length === 0) return undefined;
    const table = new TableWriter(this.family, this.#sets);
    for (const { set, id, key, from, to } of ranges) {
      const lane = table.lanes.to('delete', set, '');
      for (let i = from; i < to; i += 1) lane.keyIndex(key, i);
      this.#observation?.touched.add(id);
    }
    for (const id of objects) table.deleteObject(id);
    const batch = table.batch();
    return batch && { ...batch, committed: this.#confirm };
  }

  get sweepDue(): boolean {
    return this.#affinity.due;
  }

  async takeSweep(kernel: Kernel): Promise<Batch | undefined> {
    const table = new TableWriter(this.family, this.#sets);
    for (const { set, keys } of await this.#affinity.stale(kernel)) {
      const lane = table.lanes.to('delete', set, '');
      for (const key of keys) lane.key(key);
    }
    return table.batch();
  }

  async reset(inForce: Iterable<Forwarding>, pause: Pause): Promise<void> {
    this.#deferred.rollback();
    this.#environmentBefore = undefined;
    this.#changes.clear();
    this.#pendingBytes = 0;
    this.#replacing = false;
    this.#table = new TableWriter(this.family, this.#sets);
    this.#objects.reset();
    for (const set of sharedSets) this.#shared[set].clear();
    this.#affinity.reset();
    this.#counts.clear();
    for (const forwarding of inForce) {
      for (const frontend of frontendElements(this.#classes, forwarding)) {
        this.#affinity.resume(frontend);
        this.#counts.frontend(frontend, 1);
        for (const object of objectsOfFrontend(frontend)) this.#objects.resume(object);
      }
      this.#countShared(forwarding, 'resume');
      const rest = pause();
      if (rest !== undefined) await rest;
    }
  }

  prepare(kernel: Kernel, transact: Transact): Promise<void> {
    return this.#ownership.prepare(kernel, transact);
  }

  get exposed(): readonly TableName[] {
    return this.#ownership.exposed;
  }

  async observe(kernel: Kernel, pause: Pause): Promise<NFTablesObservation> {
    const found = new NFTablesObservation(this.family);
    // From now on it is told what batches write, whether that was read before or after.
    this.#observation = found;
    await observe(kernel, found, this.#sets, pause);
    found.intact = isIntact(found, this.#sets);
    return found;
  }

  miscounts(kernel: Kernel): Promise<readonly Miscount[] | undefined> {
    const shared = sharedSets.map((set) => [set, this.#shared[set].size] as const);
    return this.#counts.miscounts(kernel, this.family, new Map(shared), this.#deferred);
  }

  async repairFixed(found: Observation, pause: Pause): Promise<Drift> {
    const observed = own(found);
    // The repair compares with the new environment: no need to come from the one before.
    if (!observed.touched.has(environmentId)) this.#environmentBefore = undefined;
    if (!isUsable(observed, this.#wanted())) this.#startAnew(observed);
    return repairFixed(this.#table, this.#wanted(), observed, pause);
  }

  /** Sets and hooks can't be changed in place: the table goes with all that is in it. */
  #startAnew(found: NFTablesObservation): void {
    this.#table = new TableWriter(this.family, this.#sets);
    if (found.table) this.#table.deleteTable();
    this.#replacing = found.table;
    found.clear();
    this.#deferred.keep(() => false);
    this.#environmentBefore = undefined;
    this.#objects.startAnew();
    this.#affinity.startAnew();
    for (const set of sharedSets) this.#shared[set].take();
    this.#changes.startAnew();
  }

  repair(found: Observation, wanted: Forwarding): Drift {
    const repair = new Repair(this.#table.lanes, this.#deferred, wanted.servicePort);
    for (const frontend of frontendElements(this.#classes, wanted)) {
      this.#pendingBytes += frontendBytes;
      this.#mend(frontend);
      if (!this.#changes.has(frontend.id)) repairFrontend(repair, own(found), frontend);
    }
    return repair.drift;
  }

  async prune(found: Observation, pause: Pause): Promise<Drift> {
    const repair = new Repair(this.#table.lanes, this.#deferred);
    const { lanes, drift } = repair;
    await pruneFrontends(own(found), repair, (id) => this.#changes.has(id), pause);
    await pruneShared(this.#wanted(), lanes, own(found), drift, pause);
    if (this.#observation === found) this.#observation = undefined;
    return drift;
  }

  #wanted(): Wanted {
    return {
      config: this.#config,
      environment: this.#environment,
      sets: this.#sets,
      ownership: this.#ownership,
      objects: this.#objects,
      shared: this.#shared,
      deferred: this.#deferred,
      isConcealed: this.#isConcealed,
    };
  }
}

/** An Observation is only ever handed back to the mode that made it. */
function own(found: Observation): NFTablesObservation {
  if (!(found instanceof NFTablesObservation))
    throw new TypeError('an observation of another mode');
  return found;
}
