/**
 * Everything that runs for one set of settings: a planner, a sync and a conntrack reconciler for
 * each family, their loop, and the maps of connect-time translation. When the settings change,
 * another engine replaces this one and adopts its state in the kernel.
 */
import { ConnectTimeMaps } from '../connect-time/family-maps.ts';
import type { AgentEvent } from '../connect-time/maps/events.ts';
import type { MapView } from '../connect-time/maps/facts.ts';
import type { Placement } from '../connect-time/maps/placement.ts';
import type { ConntrackObserver } from '../conntrack/events.ts';
import { ConntrackReconciler } from '../conntrack/reconciler.ts';
import { NodeFacts } from '../host/node-facts.ts';
import type { NodePrograms } from '../host/node-programs.ts';
import type { Conntrack } from '../kernel/conntrack.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Environment, ModeConfig } from '../modes/mode.ts';
import type { Planner } from '../modes/planner.ts';
import type { ProxyMode } from '../modes/proxy-mode.ts';
import type { LocalhostListeners } from '../modes/sockets/localhost.ts';
import { type Address, type Family, families } from '../net/address.ts';
import type { RunningEngine, Setting } from '../serve/ask/agent-state.ts';
import type { EndpointHealth } from '../state/detection.ts';
import { FrontendOwners, type ReadonlyOwners } from '../state/frontend-owners.ts';
import { type FrontendsByFamily, FrontendsInForce } from '../state/frontends-in-force.ts';
import { NamespaceShares } from '../state/namespace-shares.ts';
import type { ResolveContext } from '../state/resolve.ts';
import type { ClusterState, ServiceFollower } from '../state/store.ts';
import type { Forwarding } from '../state/types.ts';
import { type Comparison, Comparisons } from '../sync/comparison.ts';
import { Departures } from '../sync/departures.ts';
import type { SyncEvent } from '../sync/events.ts';
import { FamilySync } from '../sync/family.ts';
import { FilterRules } from '../sync/filter-rules.ts';
import type { ForwardingFollower } from '../sync/follower.ts';
import { SyncLoop } from '../sync/loop.ts';
import { Ruleset } from '../sync/ruleset.ts';
import { SlowStarts } from '../sync/slow-starts.ts';
import { Verification } from '../takeover/verification.ts';
import type { Clock } from '../time/clock.ts';
import { BalanceProbe } from './balance-probe.ts';
import type { EngineSettings } from './engine-settings.ts';

export interface EngineOptions {
  readonly settings: EngineSettings;
  readonly mode: ProxyMode;
  readonly state: ClusterState;
  readonly clock: Clock;
  readonly kernel: Kernel;
  readonly conntrack: Conntrack;
  /** Reads the addresses of this machine. */
  readonly interfaces: () => readonly Address[];
  /**
   * Calls when these may have changed, until the result is called: what Services may claim depends
   * on them. Absent if they never do.
   */
  readonly followInterfaces?: (changed: () => void) => () => void;
  readonly observer: (event: AgentEvent) => void;
  readonly conntrackObserver: ConntrackObserver;
  /** Of pods that only rules serve; see `Environment`. */
  readonly excludedPods?: { readonly cgroups: Environment['excludedCgroups'] };
  /** Absent if the loopback addresses of this process are not the node's. */
  readonly localhost?: LocalhostListeners | undefined;
  /** Knows the URL of the API server, if there is one. */
  readonly source?: { server(): string | undefined };
  /** Which ports programs of the node have; absent: external IPs take them. */
  readonly programs?: Pick<NodePrograms, 'follow' | 'has' | 'listening'> | undefined;
  /** Which endpoints do not answer. */
  readonly health: EndpointHealth;
  /** A sync follows. */
  readonly followers: readonly ServiceFollower[];
  /** Follows what is in force, except what a start puts into force. */
  readonly recent?: ForwardingFollower;
}

/** How long a comparison runs in one turn of the event loop before it yields to changes. */
const comparisonSliceMs = 1;

/** What runs for one family. */
interface Served {
  readonly config: ModeConfig;
  readonly planner: Planner;
  readonly sync: FamilySync;
  readonly frontends: FrontendsInForce;
  readonly comparisons: Comparisons;
  readonly reconciler: ConntrackReconciler;
  /** Undefined: only rules translate connections. */
  readonly maps: ConnectTimeMaps | undefined;
  /** What follows the rules by syncs of its own. */
  readonly followers: readonly (ConnectTimeMaps | FilterRules)[];
}

/** Answers need what `RunningEngine` describes. */
export class Engine implements RunningEngine {
  readonly families: readonly FamilySync[];
  readonly frontends: FrontendsByFamily;
  readonly #options: EngineOptions;
  readonly #served: readonly Served[];
  readonly #facts: NodeFacts;
  readonly #balances: BalanceProbe;
  readonly #slowStarts: SlowStarts;
  readonly #departures: Departures;
  readonly #shares: NamespaceShares;
  readonly #ruleset = new Ruleset();
  readonly #verification: Verification;
  readonly #owners = new FrontendOwners();
  readonly #loop: SyncLoop;
  /** Families in which everything desired has been in force once. */
  readonly #started = new Set<Family>();

  constructor(options: EngineOptions) {
    const { settings, state, interfaces, clock } = options;
    this.#options = options;
    const { kernel, mode } = options;
    this.#balances = new BalanceProbe(mode.dealing, {
      kernel,
      answered: (balance) => {
        state.touchBalanced(balance);
        for (const service of options.health.services()) state.touch(service);
      },
    });
    this.#slowStarts = new SlowStarts({ clock, state });
    this.#departures = new Departures({ clock, state });
    const { namespaceFactor: factor, ...limits } = settings.facts.serviceLimits;
    this.#shares = new NamespaceShares({
      limits,
      factor,
      after: clock.after.bind(clock),
      state,
    });
    this.#facts = new NodeFacts({
      settings: settings.facts,
      state,
      interfaces,
      mode,
      isConnectTime: settings.connectTime !== undefined,
      excludedPods: options.excludedPods,
      balances: this.#balances,
      starting: (family, forwarding) => this.#slowStarts.starting(family, forwarding),
      open: (family, forwarding) => this.#of(family)?.reconciler.open(forwarding),
      health: options.health,
      shares: this.#shares,
      source: options.source,
      programs: options.programs,
    });
    for (const family of families) {
      options.localhost?.begin(family, settings.localhost.includes(family));
    }
    this.#served = settings.families.map((config) => this.#makeFamily(config));
    this.families = this.#served.map(({ sync }) => sync);
    this.frontends = Object.fromEntries(
      this.#served.map((one) => [one.sync.family, one.frontends]),
    );
    this.#verification = new Verification(this.families);
    this.#loop = new SyncLoop({
      state,
      owners: this.#owners,
      families: this.families,
      context: () => this.#facts.context,
      clock,
      observer: (event) => this.#observe(event),
      followers: options.followers,
      balances: this.#balances,
      slowStarts: this.#slowStarts,
      departures: this.#departures,
      shares: this.#shares,
      sliceMs: settings.sync.sliceMs,
    });
  }

  /** Everything that the state has is in force, or in quarantine. */
  get upToDate(): boolean {
    const parts = this.#served.flatMap((one) => [...one.followers, one.reconciler]);
    return [this.#loop, ...parts].every((part) => part.upToDate);
  }

  get isStarted(): boolean {
    return this.#started.size === this.families.length;
  }

  get overLimit(): number {
    return this.#loop.overLimit;
  }

  get connectTime(): Placement | undefined {
    return this.#options.settings.connectTime;
  }

  maps(family: Family): MapView | undefined {
    return this.#of(family)?.maps;
  }

  get context(): ResolveContext {
    return this.#facts.context;
  }

  /** The addresses of this machine, as of their last change. */
  get interfaces(): readonly Address[] {
    return this.#facts.interfaces;
  }

  get owners(): ReadonlyOwners {
    return this.#owners;
  }

  /** What the family's rules depend on; undefined: it is not served. */
  setting(family: Family): Setting | undefined {
    const { config } = this.#of(family) ?? {};
    return (
      config && {
        config,
        environment: this.#facts.environment(family),
        localhost: this.#localhostBy(config),
      }
    );
  }

  #of(family: Family): Served | undefined {
    return this.#served.find((one) => one.config.family === family);
  }

  /** The kernel objects of a Forwarding that is in force; see `Planner.describe`. */
  describe(forwarding: Forwarding): readonly string[] {
    const served = this.#of(forwarding.family);
    if (served === undefined) return [];
    const { config, followers, planner } = served;
    const held = [planner, ...followers].flatMap((one) => one.describe(forwarding));
    if (this.#localhostBy(config) !== 'sockets') return held;
    return [...held, ...(this.#options.localhost?.describe(config, forwarding) ?? [])];
  }

  /** What opens node ports on the loopback address. */
  #localhostBy({ family, localhostNodePorts }: ModeConfig): 'mode' | 'sockets' | 'nothing' {
    const { localhost, mode, settings } = this.#options;
    if (settings.localhost.includes(family)) return localhost === undefined ? 'nothing' : 'sockets';
    return localhostNodePorts && mode.localhost?.includes(family) ? 'mode' : 'nothing';
  }

  #comparisonsOf(planner: Planner, sync: FamilySync): Comparisons {
    const { clock, kernel, mode } = this.#options;
    const of = { planner, inForce: sync.inForce, ruleset: this.#ruleset };
    const options = { ...of, clock, kernel, sliceMs: comparisonSliceMs };
    return new Comparisons(options, mode.hasGeneration);
  }

  /** See `Comparisons`; undefined also for a family that is not served. */
  async compare(family: Family): Promise<Comparison | undefined> {
    const { comparisons, followers = [] } = this.#of(family) ?? {};
    const rules = await comparisons?.compare();
    const differences = [...(rules?.differences ?? [])];
    for (const follower of followers) {
      const found = await follower.compare(comparisonSliceMs);
      differences.push(...(found?.differences ?? []));
    }
    return rules && { ...rules, differences };
  }

  listeningAddresses(family: Family): readonly Address[] | 'all' {
    return this.#facts.listeningAddresses(family);
  }

  /** Notifies the loop that the state has changed. */
  wake(): void {
    this.#loop.wake();
  }

  /**
   * Resolves when everything is in force and was read back from the kernel without drift. Rejects
   * if `run` ends before that.
   */
  verify(): Promise<void> {
    return this.#verification.verify();
  }

  /** Runs until `signal` aborts and the batch in flight is over. The rules stay. */
  async run(signal: AbortSignal): Promise<void> {
    const { followInterfaces, programs, state } = this.#options;
    // An earlier engine may have resolved some, which are no longer dirty.
    for (const key of state.serviceKeys()) state.touch(key);
    const stopFollowing = followInterfaces?.(() => this.#readInterfaces());
    const stopLooking = programs?.follow((addresses) => {
      state.touchAt(addresses);
      this.wake();
    });
    const followers = this.#served.flatMap((one) => one.followers);
    const runs = followers.map((one) => one.run());
    try {
      // They run for longer than the rules, unless they fail.
      await Promise.race([this.#loop.run(signal), ...runs]);
    } finally {
      stopFollowing?.();
      stopLooking?.();
      this.#slowStarts.stop();
      this.#shares.stop();
      this.#departures.stop();
      this.#verification.stop();
      await Promise.all(followers.map((one) => one.stop()));
      await Promise.all(runs);
      await Promise.all(this.#served.map(({ reconciler }) => reconciler.stop()));
    }
  }

  #makeFamily(config: ModeConfig): Served {
    const { clock, kernel, localhost, mode, settings } = this.#options;
    const { family } = config;
    const isOnLocalhost = settings.localhost.includes(family);
    const sockets = isOnLocalhost ? localhost?.follower(config) : undefined;
    const environment = () => this.#facts.environment(family);
    const frontends = new FrontendsInForce(family);
    const reconciler = this.#makeReconciler(frontends);
    const planner = mode.planner(config, environment());
    const maps = this.#makeMaps(config, environment(), () => sync.inStepAtMs);
    const filter = this.#makeFilter(config);
    const recent: ForwardingFollower = {
      changed: (...change) => {
        if (this.#started.has(family)) this.#options.recent?.changed?.(...change);
      },
    };
    const sync: FamilySync = new FamilySync({
      planner,
      environment,
      kernel,
      clock,
      ruleset: this.#ruleset,
      observer: (event) => this.#observe(event),
      settings: settings.sync,
      followers: defined([mode, filter, maps, reconciler, sockets, recent]),
    });
    const comparisons = this.#comparisonsOf(planner, sync);
    const followers = defined([filter, maps]);
    return { config, planner, sync, frontends, comparisons, reconciler, maps, followers };
  }

  #makeFilter(config: ModeConfig): FilterRules | undefined {
    const { clock, kernel, mode, settings } = this.#options;
    const planner = mode.filterPlanner?.(config);
    if (planner === undefined) return undefined;
    return new FilterRules({
      ...{ planner, kernel, clock, ruleset: this.#ruleset, settings: settings.sync },
      observer: (event) => this.#options.observer(event),
    });
  }

  #makeMaps(
    config: ModeConfig,
    environment: Environment,
    rulesInStepAtMs: () => number | undefined,
  ): ConnectTimeMaps | undefined {
    const { clock, kernel, settings } = this.#options;
    const { connectTime: placement, mapSync } = settings;
    if (placement === undefined) return undefined;
    return new ConnectTimeMaps({
      ...{ config, placement, environment, kernel, clock, settings: mapSync, rulesInStepAtMs },
      observer: this.#options.observer,
    });
  }

  #observe(event: SyncEvent): void {
    const isCommitted = event.kind === 'done' && event.ok;
    if (isCommitted) this.#started.add(event.family);
    this.#options.observer(event);
    if (!('family' in event)) return;
    this.#verification.observe(event);
    if (!isCommitted) return;
    for (const follower of this.#of(event.family)!.followers) follower.listed();
  }

  #makeReconciler(inForce: FrontendsInForce): ConntrackReconciler {
    const { clock, conntrack, conntrackObserver, interfaces, mode, state } = this.#options;
    return new ConntrackReconciler({
      inForce,
      conntrack,
      clock,
      observer: conntrackObserver,
      localAddresses: interfaces,
      untranslated: mode.translates ? 'wrong' : 'right',
      endsConnections: !mode.usesIPVS,
      // IPVS counts itself, and sockets take turns.
      moved: mode.translates && !mode.usesIPVS ? (service) => state.touch(service) : undefined,
    });
  }

  #readInterfaces(): void {
    if (!this.#facts.readInterfaces()) return;
    for (const one of this.#options.followers) one.addressesChanged?.();
    this.wake();
  }
}

function defined<T>(some: readonly (T | undefined)[]): T[] {
  return some.filter((one) => one !== undefined);
}
