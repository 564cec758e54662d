/** A sync loop over a toy kernel, with a story's verbs. */
import { onTestFinished } from 'vitest';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import type { Environment } from '../../../src/modes/mode.ts';
import type { Planner } from '../../../src/modes/planner.ts';
import { noLimits } from '../../../src/state/budget.ts';
import type { DealingHere } from '../../../src/state/deal.ts';
import type { EndpointHealth } from '../../../src/state/detection.ts';
import { FrontendOwners } from '../../../src/state/frontend-owners.ts';
import { NamespaceShares } from '../../../src/state/namespace-shares.ts';
import type { ResolveContext } from '../../../src/state/resolve.ts';
import { ClusterState } from '../../../src/state/store.ts';
import type { EndpointSlice, Service } from '../../../src/state/types.ts';
import type { SyncEvent } from '../../../src/sync/events.ts';
import { FamilySync } from '../../../src/sync/family.ts';
import type { ForwardingFollower } from '../../../src/sync/follower.ts';
import { SyncLoop } from '../../../src/sync/loop.ts';
import { Ruleset } from '../../../src/sync/ruleset.ts';
import type { SyncSettings } from '../../../src/sync/settings.ts';
import { SlowStarts } from '../../../src/sync/slow-starts.ts';
import { ready, service, slice, slicePort } from '../state/build.ts';
import { ToyClock, ToyKernel, ToyPlanner } from './double.ts';

export const testSettings: SyncSettings = {
  minSyncPeriodMs: 0,
  longestRestMs: 0,
  batchBytesMax: 1_000_000,
  sliceMs: 4,
  audit: { checkMs: 10_000, fullMs: 3_600_000, restFactor: 20 },
  quarantineBackoff: { firstMs: 1000, secondMs: 2000, maxMs: 60_000 },
  recoveryBackoff: { firstMs: 0, secondMs: 250, maxMs: 2000 },
};

/** The Service that is `default/NAME` with these endpoints behind it. */
export function webService(name: string, number: number, fields: Partial<Service> = {}): Service {
  const clusterIP = `10.96.${number >> 8}.${number & 255}`;
  return { ...service({ namespace: 'default', name, clusterIPs: [clusterIP] }), ...fields };
}

export function endpointsOf(name: string, ...addresses: string[]): EndpointSlice {
  const endpoints = Object.fromEntries(addresses.map((address) => [address, ready]));
  const fields = {
    key: `default/${name}-1`,
    service: `default/${name}`,
    family: 'IPv4' as const,
  };
  return slice(endpoints, fields);
}

/** The key of the only port of Service `default/NAME`. */
export const port = (name: string): string => `default/${name}:http/TCP`;

type MakePlanner = (environment: Environment) => Planner;

/** With another kernel than the toy, a planner for it must be given. */
export class World<K extends Kernel = ToyKernel> {
  readonly clock: ToyClock;
  readonly kernel: K;
  readonly state: ClusterState;
  readonly events: SyncEvent[] = [];
  /** Called for each event. */
  readonly observers: ((event: SyncEvent) => void)[] = [];
  readonly ruleset = new Ruleset();
  readonly sync: FamilySync;
  readonly loop: SyncLoop;
  /** What is special of the context. As in `NodeFacts`, a change of it may make Services dirty. */
  context: () => Partial<ResolveContext> = () => ({});
  /** Of the endpoints of `setEndpoints`; one that is free, where they are sockets. */
  endpointPort = 8080;
  environment: Environment = { serviceCIDRs: [], nodePortAddresses: 'all' };
  /** How the mode can share connections out; undefined: in every way. */
  dealing: DealingHere | undefined;
  /** Endpoints that do not answer; undefined: all do. */
  health: EndpointHealth | undefined;
  readonly #slowStarts: SlowStarts;
  readonly #shares: NamespaceShares;
  readonly #abort = new AbortController();
  /** What the end of the test has to stop; a test of many worlds stops each, so that none stays. */
  readonly #open: { world?: World<K> } = {};
  #running: Promise<void> | undefined;

  /** Another process's kernel may be given: that is a restart. */
  constructor(
    settings: Partial<SyncSettings> = {},
    given?: K,
    makePlanner?: MakePlanner,
    follower?: ForwardingFollower,
    clock = new ToyClock(),
    limits = noLimits,
  ) {
    this.clock = clock;
    this.state = new ClusterState(0, () => clock.now());
    const toy = new ToyKernel();
    const kernel = given ?? (toy as unknown as K);
    const plan = makePlanner ?? ((e) => new ToyPlanner(kernel as unknown as ToyKernel, e));
    this.kernel = kernel;
    const { environment, state } = this;
    const observer = (event: SyncEvent): void => {
      this.events.push(event);
      for (const tell of this.observers) tell(event);
    };
    const all = { ...testSettings, ...settings };
    this.sync = new FamilySync({
      planner: plan(environment),
      environment: () => this.environment,
      kernel,
      clock,
      ruleset: this.ruleset,
      observer,
      settings: all,
      followers: follower === undefined ? [] : [follower],
    });
    this.#slowStarts = new SlowStarts({ clock, state });
    const after = clock.after.bind(clock);
    const shares = new NamespaceShares({ limits, factor: 2, after, state });
    this.#shares = shares;
    this.loop = new SyncLoop({
      owners: new FrontendOwners(),
      state,
      families: [this.sync],
      context: () => ({
        zone: '',
        nodeAddresses: [],
        externalIPsEnabled: true,
        limits,
        shares,
        dealing: this.dealing,
        health: this.health,
        starting: (family, key) => this.#slowStarts.starting(family, key),
        ...this.context(),
      }),
      slowStarts: this.#slowStarts,
      shares,
      clock,
      observer,
      sliceMs: all.sliceMs,
    });
  }

  /** Adds or replaces Services `web-FROM` … `web-(TO-1)`, each with one endpoint. */
  addServices(from: number, to: number): void {
    for (let i = from; i < to; i += 1) {
      this.setService(webService(`web-${i}`, i));
      this.setEndpoints(`web-${i}`, `10.244.${i >> 8}.${i & 255}`);
    }
  }

  setService(record: Service): void {
    this.state.apply({ kind: 'service', service: record });
    this.loop.wake();
  }

  removeService(name: string): void {
    this.state.apply({ kind: 'service-gone', key: `default/${name}` });
    this.loop.wake();
  }

  setEndpoints(name: string, ...addresses: string[]): void {
    const ports = [slicePort('http', this.endpointPort)];
    this.state.apply({ kind: 'slice', slice: { ...endpointsOf(name, ...addresses), ports } });
    this.loop.wake();
  }

  synced(): void {
    this.state.markSynced('services');
    this.state.markSynced('endpointslices');
    this.loop.wake();
  }

  /** Runs until `stop`, or the end of the test. */
  run(): void {
    const open = this.#open;
    open.world = this;
    onTestFinished(() => open.world?.stop());
    this.#running = this.loop.run(this.#abort.signal);
  }

  /** Starts with everything listed, and waits until that is in force. */
  async start(): Promise<void> {
    this.synced();
    this.run();
    await this.clock.pass(0);
  }

  /** Resolves when the batch in flight is over. */
  stop(): Promise<void> {
    delete this.#open.world;
    this.#abort.abort();
    this.#slowStarts.stop();
    this.#shares.stop();
    return this.#running!;
  }

  kinds<K extends SyncEvent['kind']>(kind: K): (SyncEvent & { kind: K })[] {
    const is = (event: SyncEvent): event is SyncEvent & { kind: K } => event.kind === kind;
    return this.events.filter(is);
  }

  /** Ports of Services that the kernel forwards, with the addresses in hexadecimal. */
  get forwarded(): Record<string, string> {
    const { objects } = this.kernel as unknown as ToyKernel;
    const found = [...objects].filter(([object]) => object.startsWith('f '));
    return Object.fromEntries(
      found.map(([object, text]) => [object.slice(2), text.split(' ')[0]!]),
    );
  }

  /** What `forwarded` should be. */
  get wanted(): Record<string, string> {
    const wanted = [...this.sync.desired];
    return Object.fromEntries(
      wanted.map(([key, { cluster }]) => [key, cluster.bytes().toString('hex')]),
    );
  }
}

/** A world whose Services `web-0` … `web-(SERVICES-1)` are in force. */
export async function started(services: number): Promise<World> {
  const world = new World();
  world.addServices(0, services);
  await world.start();
  return world;
}
