/** State, sync loop, a mode and the kernel, wired as in the app, around an in-process source. */

import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectTimeMaps } from '../../src/connect-time/family-maps.ts';
import type { AgentEvent } from '../../src/connect-time/maps/events.ts';
import type { Placement } from '../../src/connect-time/maps/placement.ts';
import type { ApplyResult, DumpResult, Kernel } from '../../src/kernel/kernel.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import type { Environment, ModeConfig } from '../../src/modes/mode.ts';
import { nftablesMode } from '../../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../../src/modes/proxy-mode.ts';
import { parseCIDR } from '../../src/net/address.ts';
import { noLimits, type ServiceLimits } from '../../src/state/budget.ts';
import type { Change } from '../../src/state/change.ts';
import { FrontendOwners } from '../../src/state/frontend-owners.ts';
import { NamespaceShares } from '../../src/state/namespace-shares.ts';
import { ClusterState } from '../../src/state/store.ts';
import { FamilySync } from '../../src/sync/family.ts';
import { SyncLoop } from '../../src/sync/loop.ts';
import { Ruleset } from '../../src/sync/ruleset.ts';
import type { SyncSettings } from '../../src/sync/settings.ts';
import { systemClock } from '../../src/time/clock.ts';
import type { Namespace } from './namespace.ts';

export const config: ModeConfig = {
  family: 'IPv4',
  masqueradeAll: false,
  masqueradeMark: 0x4000,
  localhostNodePorts: false,
  asIptables: false,
  dropInvalid: true,
  ownTables: false,
  countsTraffic: false,
  localDetector: { kind: 'cidr', cidr: parseCIDR('11.0.0.0/8')! },
};
export const environment: Environment = { serviceCIDRs: [], nodePortAddresses: 'all' };

/** Like the app's, without audits: no other program writes, and a benchmark is short. */
const settings: SyncSettings = {
  minSyncPeriodMs: 0,
  longestRestMs: 0,
  batchBytesMax: 1 << 20,
  sliceMs: 2,
  audit: { checkMs: 1e9, fullMs: 1e9, restFactor: 20 },
  quarantineBackoff: { firstMs: 1000, secondMs: 1000, maxMs: 60_000 },
  recoveryBackoff: { firstMs: 100, secondMs: 100, maxMs: 10_000 },
};

/** Of one Service, and how many times as much a namespace gets. */
export interface RigLimits {
  readonly limits: ServiceLimits;
  readonly factor: number;
}

const unlimited: RigLimits = { limits: noLimits, factor: 1 };
/** What `least-connections` knows of endpoints: it asks for as many slots as it may. */
const noConnections = () => new Map();

export class Rig {
  readonly state = new ClusterState();
  readonly #loop: SyncLoop;
  readonly #sync: FamilySync;
  readonly #shares: NamespaceShares;
  readonly #kernel: RefusingOnce;
  /** Connect-time translation as well. */
  readonly #maps: ConnectTimeMaps | undefined;
  #environment: Environment;
  readonly #abort = new AbortController();
  readonly #running: Promise<unknown>;
  /** The longest time of one batch, from the call to the kernel's answer; ms. */
  longestCommitMs = 0;
  /** The time of all batches together; ms. */
  commitsMs = 0;
  /** `performance.now` of the first batch since it was set to undefined. */
  firstCommitAtMs: number | undefined;
  #listener: (event: AgentEvent) => void = () => {};

  constructor(
    kernel: Kernel,
    mode: ProxyMode,
    initial = environment,
    placement?: Placement,
    { limits, factor } = unlimited,
  ) {
    this.#environment = initial;
    this.#kernel = new RefusingOnce(kernel);
    const observer = (event: AgentEvent): void => {
      if (event.kind === 'committed') {
        this.longestCommitMs = Math.max(this.longestCommitMs, event.applyMs);
        this.commitsMs += event.applyMs;
        this.firstCommitAtMs ??= performance.now();
      }
      this.#listener(event);
    };
    const maps =
      placement &&
      new ConnectTimeMaps({
        ...{ config, placement, environment: initial, kernel, clock: systemClock, settings },
        observer,
        rulesInStepAtMs: () => sync.inStepAtMs,
      });
    this.#maps = maps;
    const sync: FamilySync = new FamilySync({
      planner: mode.planner(config, initial),
      environment: () => this.#environment,
      kernel: this.#kernel,
      clock: systemClock,
      ruleset: new Ruleset(),
      observer,
      settings,
      followers: maps === undefined ? [] : [maps],
    });
    this.#sync = sync;
    const { state } = this;
    const shares = new NamespaceShares({ limits, factor, after: systemClock.after, state });
    this.#shares = shares;
    const context = {
      zone: '',
      nodeAddresses: [],
      externalIPsEnabled: true,
      limits,
      shares,
      open: noConnections,
    };
    this.#loop = new SyncLoop({
      owners: new FrontendOwners(),
      state: this.state,
      families: [sync],
      context: () => context,
      shares,
      clock: systemClock,
      observer,
      sliceMs: settings.sliceMs,
    });
    this.#running = Promise.all([this.#loop.run(this.#abort.signal), maps?.run()]);
  }

  /** Delivers the first list of everything; resolves when the kernel has acknowledged it. */
  async load(changes: Iterable<Change>): Promise<void> {
    for (const change of changes) this.state.apply(change);
    const done = this.#done('start');
    this.state.markSynced('services');
    this.state.markSynced('endpointslices');
    this.#loop.wake();
    await done;
  }

  /** Delivers one change; resolves when the kernel has acknowledged it. */
  async change(change: Change): Promise<void> {
    const done = this.#done('changes');
    this.state.apply(change);
    this.#loop.wake();
    await done;
  }

  /** Delivers changes in one turn of the event loop; resolves when all are acknowledged. */
  async changeAll(changes: Iterable<Change>): Promise<void> {
    for (const change of changes) this.state.apply(change);
    this.#loop.wake();
    while (!this.#isUpToDate) await sleep(1);
  }

  /** Replaces the environment; resolves when it is in force. */
  async changeEnvironment(next: Environment): Promise<void> {
    this.#environment = next;
    this.#loop.wake();
    do await sleep(1);
    while (!this.#isUpToDate);
  }

  /** Resolves after the next audit, which reads and compares everything. */
  audit(): Promise<void> {
    this.#sync.audit.verify();
    return new Promise((resolve) => {
      this.#listener = (event) => {
        if (event.kind === 'audited') resolve();
      };
    });
  }

  /** Delivers a change whose first batch the kernel refuses; resolves when it is in force. */
  async refused(change: Change): Promise<void> {
    this.#listener = () => {};
    this.#kernel.refuse();
    await this.changeAll([change]);
  }

  /** Resolves when an audit has found and repaired drift. */
  repaired(): Promise<void> {
    return new Promise((resolve, reject) => {
      let found = false;
      this.#listener = (event) => {
        if (event.kind === 'failed') reject(new Error(JSON.stringify(event)));
        if (event.kind === 'drift') found = true;
        if (event.kind === 'audited' && found) resolve();
      };
    });
  }

  async close(): Promise<void> {
    this.#abort.abort();
    this.#shares.stop();
    await this.#maps?.stop();
    await this.#running;
  }

  get #isUpToDate(): boolean {
    return this.#loop.upToDate && (this.#maps?.upToDate ?? true);
  }

  /** Resolves when the rules, and the maps where there are any, have followed. */
  #done(purpose: 'start' | 'changes'): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#listener = (event) => {
        const its = event.kind === 'connect-time' ? event.of : event;
        if (its.kind === 'failed') reject(new Error(JSON.stringify(event)));
        if (its.kind !== 'done' || its.purpose !== purpose) return;
        if (event.kind === 'done') this.#maps?.listed();
        if (its !== event || this.#maps === undefined) resolve();
      };
    });
  }
}

/** A kernel that refuses one batch for lack of memory. */
class RefusingOnce implements Kernel {
  readonly #kernel: Kernel;
  #isRefusing = false;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  refuse(): void {
    this.#isRefusing = true;
  }

  async apply(ops: Uint8Array): Promise<ApplyResult> {
    if (!this.#isRefusing) return this.#kernel.apply(ops);
    this.#isRefusing = false;
    const failure = { op: undefined, entry: undefined, code: 'ENOMEM', message: 'Out of memory' };
    return { kind: 'failed', failures: [failure], partly: false };
  }

  dump(...args: Parameters<Kernel['dump']>): Promise<DumpResult> {
    return this.#kernel.dump(...args);
  }

  generation(): Promise<number> {
    return this.#kernel.generation();
  }

  get commits(): number {
    return this.#kernel.commits;
  }

  isOwn(port: number): boolean {
    return this.#kernel.isOwn(port);
  }

  watch(...args: Parameters<Kernel['watch']>): () => void {
    return this.#kernel.watch(...args);
  }

  close(): void {
    this.#kernel.close();
  }
}

/** Runs `work` with a rig on the kernel of a namespace. */
export async function withRig<T>(
  namespace: Pick<Namespace, 'path'>,
  work: (rig: Rig) => Promise<T>,
  mode: ProxyMode = nftablesMode,
  initial?: Environment,
  placement?: Placement,
  limits?: RigLimits,
): Promise<T> {
  const kernel = openKernel({ netns: namespace.path });
  const rig = new Rig(kernel, mode, initial, placement, limits);
  try {
    return await work(rig);
  } finally {
    await rig.close();
    kernel.close();
  }
}
