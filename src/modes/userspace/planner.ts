/** Turns changes of Forwardings into batches about sockets and addresses. */
import type { Kernel } from '../../kernel/kernel.ts';
import type { Family } from '../../net/address.ts';
import { type Forwarding, forwardingKey } from '../../state/types.ts';
import { BoundForwardings } from '../bound-forwardings.ts';
import { FrontendChanges } from '../changes.ts';
import { Counter } from '../counter.ts';
import { binary } from '../elements.ts';
import type {
  Batch,
  Drift,
  Environment,
  ModeConfig,
  Observation,
  Pause,
  Planner,
  RefusedAddress,
} from '../mode.ts';
import { boundAddresses } from '../own-addresses.ts';
import { BatchWriter } from './batch-writer.ts';
import { type ServedFrontend, type Setting, sameFrontend, servedFrontends } from './frontends.ts';
import { observe, UserspaceObservation } from './observation.ts';
import type { Sockets } from './switchboard.ts';

interface Owned<T> {
  readonly owner: string;
  readonly value: T;
}

/** Approximate bytes that one socket or address takes in a batch, for `pendingBytes`. */
const entryBytes = 64;

export class UserspacePlanner implements Planner {
  readonly family: Family;
  readonly #sockets: Sockets;
  #setting: Setting;
  /** All that is wanted. */
  readonly #forwardings = new BoundForwardings({
    release: (forwarding) => this.#release(forwarding),
    claim: (forwarding) => this.#claim(forwarding),
  });
  /** Frontends changed since the last batch. */
  readonly #changes = new FrontendChanges<ServedFrontend>();
  /** Ids of frontends that are wanted. */
  readonly #served = new Counter<undefined>();
  readonly #addresses = new Counter<Owned<Uint8Array>>();
  /** Addresses that nobody wants, but that carry connections yet. */
  readonly #lingering = new Map<string, Uint8Array>();
  #pendingEntries = 0;
  #batch: BatchWriter;
  #observation: UserspaceObservation | undefined;

  constructor(config: ModeConfig, environment: Environment, sockets: Sockets) {
    this.family = config.family;
    this.#sockets = sockets;
    this.#setting = { config, environment };
    this.#batch = this.#newBatch();
  }

  get pendingBytes(): number {
    return this.#pendingEntries * entryBytes + this.#batch.byteLength;
  }

  get deferred(): boolean {
    return this.#lingering.size > 0;
  }

  readonly sweepDue = false;

  change(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    this.#forwardings.change(previous, next, this.#setting.environment);
  }

  #release(forwarding: Forwarding): void {
    const owner = forwardingKey(forwarding.servicePort);
    for (const frontend of servedFrontends(forwarding, this.#setting)) {
      this.#changes.release(owner, frontend);
      this.#served.release(frontend.id, undefined);
    }
    for (const { bytes } of boundAddresses(forwarding, this.#setting.environment)) {
      this.#addresses.release(binary(bytes), { owner, value: bytes });
    }
  }

  #claim(forwarding: Forwarding): void {
    const owner = forwardingKey(forwarding.servicePort);
    for (const frontend of servedFrontends(forwarding, this.#setting)) {
      this.#changes.claim(owner, frontend);
      this.#served.claim(frontend.id, undefined);
      this.#pendingEntries += 1;
    }
    for (const { bytes } of boundAddresses(forwarding, this.#setting.environment)) {
      this.#addresses.claim(binary(bytes), { owner, value: bytes });
    }
  }

  takeRefused(): readonly RefusedAddress[] {
    return this.#forwardings.takeRefused();
  }

  environment(next: Environment, pause: Pause): Promise<void> {
    return this.#forwardings.move(this.#setting.environment, next, pause, () => {
      this.#setting = { ...this.#setting, environment: next };
    });
  }

  take(): Batch | undefined {
    for (const [id, { owner, before, after }] of this.#changes.entries()) {
      if (after === undefined) this.#batch.close(id);
      else if (before === undefined || !sameFrontend(before, after))
        this.#batch.serve(owner, after);
    }
    this.#served.take();
    this.#writeAddresses();
    const batch = this.#batch.batch();
    this.#startBatch();
    return batch;
  }

  #writeAddresses(): void {
    const { needed, unused } = this.#addresses.take();
    for (const [id, { owner, value }] of needed) {
      this.#observation?.touched.add(id);
      if (!this.#lingering.delete(id)) this.#batch.bind(owner, value);
    }
    for (const [id, { value }] of unused) {
      this.#observation?.touched.add(id);
      this.#unbind(id, value, this.#batch);
    }
  }

  /** Connections end in peace, also those to an address that nobody wants any more. */
  #unbind(id: string, bytes: Uint8Array, batch: BatchWriter): void {
    if (this.#sockets.isBusy(bytes)) this.#lingering.set(id, bytes);
    else batch.unbind(bytes);
  }

  takeDeferred(): Batch | undefined {
    const batch = this.#newBatch();
    for (const [id, bytes] of this.#lingering) {
      if (this.#sockets.isBusy(bytes)) continue;
      this.#lingering.delete(id);
      this.#observation?.touched.add(id);
      if (!this.#addresses.has(id)) batch.unbind(bytes);
    }
    return batch.batch();
  }

  async takeSweep(): Promise<undefined> {}

  async reset(inForce: Iterable<Forwarding>, pause: Pause): Promise<void> {
    this.#startBatch();
    this.#changes.reset();
    this.#served.clear();
    this.#addresses.clear();
    this.#forwardings.clear();
    for (const forwarding of inForce) {
      const owner = forwardingKey(forwarding.servicePort);
      for (const frontend of servedFrontends(forwarding, this.#setting)) {
        this.#changes.resume(owner, frontend);
        this.#served.resume(frontend.id, undefined);
      }
      for (const { bytes } of boundAddresses(forwarding, this.#setting.environment)) {
        this.#addresses.resume(binary(bytes), { owner, value: bytes });
      }
      this.#forwardings.resume(forwarding, this.#setting.environment);
      await pause();
    }
  }

  async observe(kernel: Kernel): Promise<UserspaceObservation> {
    const found = await observe(kernel, this.family);
    this.#observation = found;
    return found;
  }

  async repairFixed(found: Observation, pause: Pause): Promise<Drift> {
    const { addresses, intact, touched } = own(found);
    let missing = 0;
    if (!intact) {
      this.#batch.addLink();
      missing += 1;
    }
    for (const [id, { value }] of this.#addresses.entries()) {
      await pause();
      if (addresses.has(id) || touched.has(id) || this.#addresses.changes(id)) continue;
      this.#batch.bind(value.owner, value.value);
      missing += 1;
    }
    return { missing, wrong: 0, unwanted: 0 };
  }

  /** No socket is touched but by batches, and none is under way now. */
  repair(_found: Observation, wanted: Forwarding): Drift {
    let missing = 0;
    let wrong = 0;
    const owner = forwardingKey(wanted.servicePort);
    for (const frontend of servedFrontends(wanted, this.#setting)) {
      if (this.#changes.has(frontend.id) || !this.#changes.holds(owner, frontend)) continue;
      const held = this.#sockets.get(frontend.id);
      if (held !== undefined && sameFrontend(held, frontend)) continue;
      this.#batch.serve(owner, frontend);
      if (held === undefined) missing += 1;
      else wrong += 1;
    }
    return { missing, wrong, unwanted: 0 };
  }

  async prune(found: Observation, pause: Pause): Promise<Drift> {
    const { addresses, touched } = own(found);
    let unwanted = 0;
    for (const { id } of [...this.#sockets.frontends(this.family)]) {
      await pause();
      if (this.#served.has(id) || this.#served.changes(id)) continue;
      this.#batch.close(id);
      unwanted += 1;
    }
    for (const [id, bytes] of addresses) {
      await pause();
      const isWanted = this.#addresses.has(id) || this.#addresses.changes(id);
      if (isWanted || touched.has(id) || this.#lingering.has(id)) continue;
      this.#unbind(id, bytes, this.#batch);
      unwanted += 1;
    }
    if (this.#observation === found) this.#observation = undefined;
    return { missing: 0, wrong: 0, unwanted };
  }

  #startBatch(): void {
    this.#pendingEntries = 0;
    this.#changes.clear();
    this.#batch = this.#newBatch();
  }

  #newBatch(): BatchWriter {
    return new BatchWriter(this.family, this.#sockets);
  }
}

/** An Observation is only ever handed back to the mode that made it. */
function own(found: Observation): UserspaceObservation {
  if (!(found instanceof UserspaceObservation)) throw new TypeError('not an observation of ours');
  return found;
}
