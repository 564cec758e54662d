/**
 * Keeps a table of nf_tables that refuses connections beyond the limits of Services. It is
 * independent of the modes, and outlives restarts and changes of the mode, so that what is open
 * stays counted. Without a Service or a setting that asks for it there is no table.
 */
import { isDeepStrictEqual } from 'node:util';
import { conntrackUse } from '../host/conntrack.ts';
import type { ReadableFiles } from '../host/files.ts';
import { type Finding, problem } from '../host/finding.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { baseChain } from '../kernel/nft/chain.ts';
import { NF_INET } from '../kernel/nft/constants.ts';
import { type OwnContent, OwnTable, tableText, upkeep } from '../kernel/nft/own-table.ts';
import { type MissingFeature, type ProbedStatement, probeInetTable } from '../kernel/nft/probe.ts';
import { matchLocalAddress, rejectAny } from '../kernel/nft/rule.ts';
import { connectionsOver, rateOver } from '../kernel/nft/stateful.ts';
import type { Environment } from '../modes/mode.ts';
import type { Family } from '../net/address.ts';
import type { Limits } from '../state/limits.ts';
import { PickedServices, type PickedServicesOptions } from '../state/picked-services.ts';
import type { ClusterState, ServiceFollower } from '../state/store.ts';
import type { Service } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import { Runner } from '../time/runner.ts';
import { areSet, type BoundSettings, type Bounds, boundsOf } from './bounds.ts';
import { DesiredLimits } from './desired.ts';
import { contentWith, lease, leaseKeys, ownTable, reasonsWith } from './layout.ts';
import { Refusals, type RefusalsOptions } from './refusals.ts';

/** The part of a log that this needs. */
interface Log {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

interface ConnectionLimitsOptions extends PickedServicesOptions {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Log;
  readonly state: Pick<ClusterState, 'service' | 'serviceKeys' | 'slices' | 'synced'>;
  readonly source: RefusalsOptions['source'];
  readonly agent: PickedServicesOptions['agent'] & {
    readonly engine:
      | (NonNullable<RefusalsOptions['agent']['engine']> & {
          setting(family: Family): { readonly environment: Environment } | undefined;
        })
      | undefined;
  };
  readonly problems: RefusalsOptions['problems'];
  /** Says how many entries connection tracking has room for. */
  readonly host?: ReadableFiles | undefined;
  /** Another proxy of this node keeps the table. */
  readonly isSecond?: boolean;
}

/** Services come and go in bursts. */
const settleMs = 50;
/** A look at the table after this time renews its lease. */
const renewMs = lease.timeoutMs / 2;

export class ConnectionLimits implements ServiceFollower {
  readonly refusals: Refusals;
  readonly #options: ConnectionLimitsOptions;
  readonly #services: PickedServices;
  readonly #table: OwnTable;
  readonly #updates: Runner;
  readonly #requests = { made: 0, tried: 0 };
  /** What the kernel lacks; undefined: it was not asked. */
  #lack: Awaited<ReturnType<typeof lackOf>> | undefined;
  readonly #desired = new DesiredLimits();
  /** What all Services depended on at the last update. */
  #context: object | undefined;
  /** Why no Service has limits; undefined: they are in force. */
  #obstacle: string | undefined;
  /** A start renews the lease: little of it may be left. */
  readonly #lease = { renewAtMs: Number.NEGATIVE_INFINITY };
  /** What was logged last. */
  #logged = '';
  /** Undefined: settings bound nothing. */
  #settings: BoundSettings | undefined;
  /** What the table is to have, as of the last update. */
  #fixed: { readonly bounds: Bounds | undefined; readonly content: OwnContent } = {
    bounds: undefined,
    content: contentWith(undefined),
  };

  constructor(options: ConnectionLimitsOptions) {
    this.#options = options;
    const isPicked = ({ limits }: Service) => (limits ?? this.#settings) !== undefined;
    this.#services = new PickedServices(options, isPicked);
    const { restMs } = upkeep;
    this.#updates = new Runner({ clock: options.clock, work: () => this.#work(), restMs });
    this.#table = new OwnTable(options.kernel, ownTable, () => this.#updates.soon(settleMs));
    if (options.isSecond) this.#obstacle = 'the first proxy of a node alone limits connections';
    this.refusals = new Refusals(options, () => {
      const isNone = options.isSecond || this.#services.all.length === 0;
      return isNone ? [] : reasonsWith(this.#fixed.bounds);
    });
  }

  /** What settings ask for, and is not in force. */
  get findings(): readonly Finding[] {
    if (this.#settings === undefined) return [];
    const { clientShare, namespaceShare } = this.#settings;
    const isLacking = clientShare + namespaceShare > 0 && this.#entries === undefined;
    const noShare = isLacking ? 'connection tracking has no limit that could be shared' : undefined;
    const why = this.#obstacle ?? this.#lack?.counts ?? noShare;
    if (why === undefined) return [];
    return [problem('connectionLimits', `is not in force: ${why}`, '')];
  }

  /** How many entries connection tracking has room for; undefined: it has no limit. */
  get #entries(): number | undefined {
    const { host } = this.#options;
    return host && conntrackUse(host)?.limit;
  }

  /** Follows these settings from now on. */
  choose(settings: BoundSettings): void {
    const next = areSet(settings) ? settings : undefined;
    if (isDeepStrictEqual(next, this.#settings)) return;
    this.#settings = next;
    this.synced();
  }

  /** Every request is in force, or was tried and failed. */
  get upToDate(): boolean {
    return this.#requests.tried === this.#requests.made;
  }

  /** Why limits of the Service are not in force; undefined: they are, or it has none. */
  obstacleOf({ key, limits }: Pick<Service, 'key' | 'limits'>): string | undefined {
    if (limits === undefined) return undefined;
    if (this.#obstacle !== undefined) return this.#obstacle;
    if (this.#desired.leftOut.has(key))
      return 'other Services, above all of its namespace, have all room for limits';
    return countsOf(limits) ? this.#lack?.counts : undefined;
  }

  /** A Service was resolved or deleted. */
  resolved(key: string): void {
    // Of one that stays the same, other frontends may be desired.
    if (this.#services.resolved(key) === 'none') return;
    this.#desired.changed(key);
    this.#requests.made += 1;
    this.#updates.soon(settleMs);
  }

  /** Node ports may answer at others. */
  addressesChanged(): void {
    this.#requests.made += 1;
    this.#updates.soon(settleMs);
  }

  /** The first lists are complete. */
  synced(): void {
    if (!this.#options.state.synced) return;
    this.#desired.allChanged();
    this.#services.find();
    for (const { key } of this.#services.all) this.#desired.changed(key);
    this.#requests.made += 1;
    this.#updates.now();
  }

  /** Stops following changes; the table stays in the kernel. */
  async close(): Promise<void> {
    this.#table.unwatch();
    await this.#updates.stop();
  }

  /** Never rejects. */
  async #work(): Promise<void> {
    const { made } = this.#requests;
    try {
      const waits = await this.#update();
      if (!waits) this.#requests.tried = made;
    } catch (error) {
      const err = (error as Error).message;
      this.#options.log.error({ err }, 'Could not update connection limits; trying again');
      this.#requests.tried = made;
      this.#updates.soon(upkeep.retryMs);
    }
  }

  /** Resolves to whether it has to wait. */
  async #update(): Promise<boolean> {
    const { isSecond, kernel, log, state } = this.#options;
    if (!state.synced) return true;
    if (isSecond) return false;
    if (this.#services.all.length === 0) {
      if (await this.#table.remove()) log.info({}, 'Removed connection limits');
      return false;
    }
    this.#updates.soon(upkeep.lookMs);
    if (this.#services.areResolving) {
      this.#updates.soon(settleMs);
      return true;
    }
    this.#lack ??= await lackOf(kernel);
    this.#follow(this.#lack);
    this.#obstacle = this.#lack.all ?? (await this.#bring());
    const err = this.#obstacle ?? this.#lack.counts;
    if (err !== undefined && err !== this.#logged) {
      this.#logged = err;
      log.warn({ err }, 'Connection limits unavailable');
    }
    return false;
  }

  /** Brings bounds up to date with what connection tracking has room for. */
  #follow({ counts }: { readonly counts: string | undefined }): void {
    const canCount = this.#settings !== undefined && counts === undefined;
    const bounds = canCount ? boundsOf(this.#settings!, this.#entries) : undefined;
    if (isDeepStrictEqual(bounds, this.#fixed.bounds)) return;
    this.#fixed = { bounds, content: contentWith(bounds) };
  }

  /** Resolves to why that is not possible. */
  async #bring(): Promise<string | undefined> {
    const { agent, clock, log } = this.#options;
    const served = [...agent.families].map(({ desired, family }) => {
      const { nodePortAddresses = [] } = agent.engine?.setting(family)?.environment ?? {};
      return { desired, family, nodePortAddresses };
    });
    const { bounds, content } = this.#fixed;
    const at = served.map(({ family, nodePortAddresses }) => ({ family, nodePortAddresses }));
    const context = { at, bounds, counts: this.#lack?.counts };
    if (!isDeepStrictEqual(context, this.#context)) this.#desired.allChanged();
    this.#context = context;
    const limits = ({ limits: own = {} }: Service): Limits => this.#kept(own);
    const { pause } = new Pacer(clock);
    const serviceOf = (key: string) => this.#services.get(key);
    await this.#desired.update(serviceOf, { served, bounds, limits }, pause);
    const { elements } = this.#desired;
    for (const key of leaseKeys) elements.setKey(lease.name, key, true);
    const now = clock.now();
    const renews = now >= this.#lease.renewAtMs;
    const renewed = renews ? lease.name : undefined;
    const brought = await this.#table.bring(content, elements, () => false, renewed);
    elements.settle();
    if (brought.kind === 'foreign') return `another program made table ${table}`;
    if (brought.kind === 'again') this.#updates.soon();
    else if (renews) this.#lease.renewAtMs = now + renewMs;
    if (brought.kind === 'repaired') {
      log.warn({ table }, 'Repaired connection limits that another program changed');
    }
    return undefined;
  }

  /** Without what the kernel cannot do. */
  #kept(limits: Limits): Limits {
    if (this.#lack?.counts === undefined) return limits;
    const { max_connections: _, max_connections_per_client: __, ...rates } = limits;
    return rates;
  }
}

const table = tableText(ownTable);

function countsOf({ max_connections, max_connections_per_client }: Limits): boolean {
  return (max_connections ?? max_connections_per_client) !== undefined;
}

const statements: readonly ProbedStatement[] = [
  ['expression limit', 'CONFIG_NFT_LIMIT', 'nft_limit', rateOver(1)],
  ['expression reject', 'CONFIG_NFT_REJECT_INET', 'nft_reject_inet', rejectAny],
  ['expression fib', 'CONFIG_NFT_FIB_INET', 'nft_fib_inet', matchLocalAddress('daddr')],
];

const counting: ProbedStatement = [
  ...['expression connlimit', 'CONFIG_NFT_CONNLIMIT', 'nft_connlimit'],
  connectionsOver(1),
] as const;

interface Lack {
  /** Without this there are no limits at all. */
  readonly all: string | undefined;
  /** Without this, connections that are open are not counted. */
  readonly counts: string | undefined;
}

/** What the kernel lacks for limits. Rejects with KernelError if it cannot answer. */
async function lackOf(kernel: Kernel): Promise<Lack> {
  const base = baseChain('nat', NF_INET.PRE_ROUTING, 0);
  const all = await probeInetTable(kernel, base, statements);
  const counts = await probeInetTable(kernel, base, [counting]);
  return { all: wordsOf(all), counts: wordsOf(counts) };
}

function wordsOf(missing: readonly MissingFeature[]): string | undefined {
  if (missing.length === 0) return undefined;
  return `the kernel lacks ${missing.map((one) => `${one.feature}: ${one.advice}`).join('; ')}`;
}
