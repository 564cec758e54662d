/**
 * Tenants whose Services are as large as they can be, and whose endpoints stop answering, are left
 * out and come back all the time: how long do failure detection and resolving hold the event loop?
 * The kernel is one that counts, and does nothing else.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { FailureDetection } from '../../src/failure-detection/failure-detection.ts';
import type { Counted } from '../../src/failure-detection/layout.ts';
import { limits } from '../../src/failure-detection/ports.ts';
import type { ApplyResult, DumpResult, Kernel } from '../../src/kernel/kernel.ts';
import { nftOps, type Request } from '../../src/kernel/ops.ts';
import { readRecords } from '../../src/kernel/records.ts';
import { parseCIDR } from '../../src/net/address.ts';
import { decodeChange, decodeContext } from '../../src/source/decode.ts';
import { noLimits } from '../../src/state/budget.ts';
import { FrontendOwners } from '../../src/state/frontend-owners.ts';
import { ClusterState } from '../../src/state/store.ts';
import { Desired } from '../../src/sync/desired.ts';
import type { FamilySync } from '../../src/sync/family.ts';
import { Refresher } from '../../src/sync/refresher.ts';
import { TrackedForwardings } from '../../src/sync/tracked.ts';
import { systemClock } from '../../src/time/clock.ts';
import { Pacer } from '../../src/time/pacer.ts';
import { LongestTurn } from './longest-turn.ts';
import { number } from './stats.ts';

const endpointsOfEach = 10_000;
/** They fill the room that there is for all: each port is followed with as many as it may have. */
const servicesInEach = limits.namespace / limits.port;
const tenants = limits.all / limits.namespace;
const sliceMs = 2;
const phaseMs = 4000;
const phases = 6;

/** State, resolving and failure detection, wired as in the app. */
export class DetectionStage {
  readonly state = new ClusterState();
  readonly detection: FailureDetection;
  readonly changes = { ejected: 0, returned: 0 };
  readonly #refresher: Refresher;
  readonly #refreshing: Promise<void>;
  #isOver = false;

  constructor(kernel: CountingKernel) {
    const { changes, state } = this;
    const tracked = new TrackedForwardings('IPv4', { now: () => 0 });
    const family: Pick<FamilySync, 'changed' | 'desired' | 'family' | 'setDesired' | 'track'> = {
      family: 'IPv4',
      desired: tracked.desired,
      changed: () => {},
      track: (key) => tracked.at(key),
      setDesired: (record, next) => tracked.setDesired(record, next),
    };
    this.detection = new FailureDetection({
      kernel: kernel as unknown as Kernel,
      clock: systemClock,
      log: { info: () => {}, warn: () => {} },
      state,
      agent: { families: [family], engine: undefined },
      observer: ({ change }) => {
        changes[change.kind] += 1;
      },
      problems: { resolved() {} },
      connect: async ({ address }) => {
        await sleep(1);
        const isAccepted = kernel.answers(Number(address.split('.').at(-1)));
        return { result: isAccepted ? 'accepted' : 'failed', isSent: true };
      },
    });
    const context = { zone: '', nodeAddresses: [], externalIPsEnabled: true, limits: noLimits };
    const resolving = new Desired({
      owners: new FrontendOwners(),
      state,
      families: [family as FamilySync],
      context: () => ({ ...context, health: this.detection }),
      clock: systemClock,
      observer: () => {},
      followers: [this.detection],
    });
    resolving.listed();
    state.markSynced('services');
    state.markSynced('endpointslices');
    this.#refresher = new Refresher({
      clock: systemClock,
      state,
      sliceMs,
      refresh: (name, receivedMs) => resolving.refresh(name, receivedMs),
    });
    this.#refreshing = this.#refresh();
    this.detection.choose({
      failureDetection: 'eject',
      failureDetectionMaxEjected: 50,
      clusterCIDR: [parseCIDR('0.0.0.0/0')!],
    });
  }

  async #refresh(): Promise<void> {
    const pacer = new Pacer(systemClock, sliceMs);
    while (!this.#isOver) {
      this.#refresher.work(pacer);
      if (this.#refresher.idle) await sleep(1);
      else await pacer.rest();
    }
  }

  /** Resolves a Service. */
  async resolved(service: string): Promise<void> {
    this.state.touch(service);
    while (!this.#refresher.idle) await sleep(1);
  }

  async close(): Promise<void> {
    await this.detection.close();
    this.#isOver = true;
    await this.#refreshing;
  }
}

export async function ejections(): Promise<string> {
  const kernel = new CountingKernel();
  const stage = new DetectionStage(kernel);
  const { changes, detection, state } = stage;
  for (let tenant = 0; tenant < tenants; tenant += 1) {
    for (let i = 0; i < servicesInEach; i += 1) {
      const key = add(state, tenant, `s${i}`);
      await stage.resolved(key);
    }
  }
  const longest = new LongestTurn();
  for (let phase = 0; phase < phases; phase += 1) {
    kernel.areSomeSilent = phase % 2 === 1;
    const untilMs = performance.now() + phaseMs;
    while (performance.now() < untilMs) {
      kernel.attempt();
      await sleep(250);
    }
  }
  const ms = longest.take();
  longest.close();
  const { endpoints } = detection.totals;
  await stage.close();
  if (changes.returned === 0) throw new Error('no endpoint has come back');
  const services = `${tenants * servicesInEach} Services of ${number(endpointsOfEach)} endpoints`;
  return (
    `${services}, of which ${number(endpoints)} are followed and half go silent in turns ` +
    `(failure-detection: eject): ${number(changes.ejected)} left out, ${number(changes.returned)} ` +
    `came back; longest turn ${number(ms)} ms, of processor time`
  );
}

/** Holds the sets of one table, in the form in which they are read: that costs little. */
export class CountingKernel {
  #keyLength = 0;
  readonly #entries = {
    attempts: Buffer.alloc(0),
    answers: Buffer.alloc(0),
    resets: Buffer.alloc(0),
  };
  areSomeSilent = false;

  /** `last` is the last byte of an endpoint's address. */
  answers(last: number): boolean {
    return !this.areSomeSilent || last % 2 === 0;
  }

  /** Clients try all endpoints. */
  attempt(): void {
    const { attempts, answers } = this.#entries;
    const stride = this.#keyLength + 8;
    for (let at = 0; at < attempts.length; at += stride) {
      const count = at + this.#keyLength;
      attempts.writeUInt32LE(attempts.readUInt32LE(count) + 3, count);
      if (!this.answers(attempts[at + 3]!)) continue;
      answers.writeUInt32LE(answers.readUInt32LE(count) + 3, count);
    }
  }

  watch(): () => void {
    return () => {};
  }

  /** Endpoints come all at the beginning, and stay. */
  async apply(ops: Uint8Array): Promise<ApplyResult> {
    for (const record of readRecords(nftOps, ops)) {
      if (record.kind === 'elementsDelete') throw new Error('an endpoint has gone');
      if (record.kind !== 'elementsAdd') continue;
      const { entries, keyLength, set } = record;
      this.#keyLength = keyLength;
      const added: Uint8Array[] = [this.#entries[set as Counted]];
      for (let at = 0; at < entries.length; at += keyLength) {
        added.push(entries.slice(at, at + keyLength), new Uint8Array(8));
      }
      this.#entries[set as Counted] = Buffer.concat(added);
    }
    return { kind: 'applied' };
  }

  async dump(request: Request): Promise<DumpResult> {
    await sleep(1);
    if (request.kind !== 'elementsDump') return { records: [], consistent: true };
    const { family, keyLength, set, shape, table } = request;
    const entries = new Uint8Array(this.#entries[set as Counted]);
    const count = entries.length / (keyLength + 8);
    const layout = { family, table, set, shape, keyLength, dataLength: 0, strange: 0 };
    return { records: [{ kind: 'elements', ...layout, count, entries }], consistent: true };
  }
}

/** Adds a Service of one port, and its EndpointSlices. */
function add(state: ClusterState, tenant: number, name: string): string {
  const namespace = `tenant-${tenant}`;
  const net = 10 * tenant + Number(name.slice(1));
  const apply = (resource: 'services' | 'endpointslices', object: object): void => {
    const { change } = decodeChange(resource, object, decodeContext('here'));
    if (change === undefined) throw new Error('the object was refused');
    state.apply(change);
  };
  const ports = [{ name: 'p', port: 80, protocol: 'TCP' }];
  const spec = { clusterIP: `10.96.${net}.1`, ports };
  apply('services', { metadata: { namespace, name, uid: `${namespace}-${name}` }, spec });
  for (let i = 0; i < endpointsOfEach / 100; i += 1) {
    const labels = { 'kubernetes.io/service-name': name };
    const metadata = { namespace, name: `${name}-${i}`, uid: `${namespace}-${name}-${i}`, labels };
    const endpoints = Array.from({ length: 100 }, (_, k) => {
      return { addresses: [`10.${100 + net}.${i}.${k + 1}`] };
    });
    const made = { metadata, addressType: 'IPv4', ports: [{ name: 'p', port: 8080 }], endpoints };
    apply('endpointslices', made);
  }
  return `${namespace}/${name}`;
}
