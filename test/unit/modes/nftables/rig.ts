/** A planner and a fake kernel, driven as the sync loop drives them. */

import { expect } from 'vitest';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import type { Batch, Drift, Environment, ModeConfig, Repair } from '../../../../src/modes/mode.ts';
import { nftablesMode } from '../../../../src/modes/nftables/mode.ts';
import type { Planner } from '../../../../src/modes/planner.ts';
import type { ProxyMode } from '../../../../src/modes/proxy-mode.ts';
import { sameForwarding } from '../../../../src/state/equal.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { kernelWith } from '../../../fake/kernel-with.ts';
import { scriptOf } from '../../../print/script.ts';
import { type Forwardings, ordered } from './cluster.ts';
import { isKept, promises } from './promises.ts';

export const noDrift: Drift = { missing: 0, wrong: 0, unwanted: 0 };

export class Rig {
  readonly kernel: FakeKernel;
  readonly #mode: ProxyMode;
  readonly #config: ModeConfig;
  #environment: Environment;
  #planner: Planner;
  /** What the kernel has acknowledged. */
  #applied: Forwardings = new Map();
  /** The Forwardings that were passed to the planner. */
  #planned: Forwardings = new Map();

  constructor(
    config: ModeConfig,
    environment: Environment,
    kernel = new FakeKernel(),
    mode: ProxyMode = nftablesMode,
  ) {
    this.kernel = kernel;
    this.#mode = mode;
    this.#config = config;
    this.#environment = environment;
    this.#planner = mode.planner(config, environment);
  }

  /** A planner of a process that has just started. */
  newPlanner(): Planner {
    return this.#mode.planner(this.#config, this.#environment);
  }

  get planner(): Planner {
    return this.#planner;
  }

  get planned(): Forwardings {
    return this.#planned;
  }

  /** Adopts the kernel's state and repairs it to the desired one. */
  async start(wanted: Forwardings): Promise<Drift> {
    return this.recover(wanted, this.#environment);
  }

  /** The process dies and another one starts. */
  async crash(wanted: Forwardings, environment = this.#environment): Promise<Drift> {
    this.#environment = environment;
    this.#planner = this.#mode.planner(this.#config, environment);
    return this.start(wanted);
  }

  /** Reads the kernel in the same process, as after a failure. */
  async recover(wanted: Forwardings, environment: Environment): Promise<Drift> {
    const found = await this.#planner.observe(this.kernel, noPause);
    const adopted = new Map([...wanted].map(([key, one]) => [key, found.adopt(one)]));
    this.environment(environment);
    this.#planned = adopted;
    return this.#repair(await found.restore(adopted.values(), noPause));
  }

  /** Reads the kernel and repairs it while it continues to work. */
  async audit(between: (key: string) => void = () => {}): Promise<Drift> {
    const found = await this.#planner.observe(this.kernel, noPause);
    return this.#repair(await found.repair(noPause), between);
  }

  /** The same, and calls `during` before each dump, and between what is compared. */
  async auditBeside(during: () => void): Promise<Drift> {
    const dump: Kernel['dump'] = (...args) => {
      during();
      return this.kernel.dump(...args);
    };
    const found = await this.#planner.observe(kernelWith(this.kernel, { dump }), noPause);
    return this.#repair(await found.repair(noPause), during);
  }

  async #repair(repair: Repair, between: (key: string) => void = () => {}): Promise<Drift> {
    let { drift } = repair;
    for (const key of [...this.#planned.keys()]) {
      const wanted = this.#planned.get(key);
      if (wanted === undefined) continue;
      drift = sum(drift, repair.compare(wanted));
      this.take();
      between(key);
    }
    drift = sum(drift, await repair.finish(noPause));
    this.take();
    return drift;
  }

  environment(next: Environment): void {
    if (next === this.#environment) return;
    this.#environment = next;
    // This planner has nothing to wait for.
    void this.#planner.changeEnvironment(next, noPause);
  }

  /** Plans the changes to these Forwardings, in the order of `keys` first. */
  plan(wanted: Forwardings, keys: Iterable<string> = []): void {
    const next = ordered(this.#planned, wanted);
    for (const key of new Set([...keys, ...this.#planned.keys(), ...next.keys()])) {
      const [before, after] = [this.#planned.get(key), next.get(key)];
      if (before === after) continue;
      if (before !== undefined && after !== undefined && sameForwarding(before, after)) continue;
      this.#planner.change(before, after);
    }
    this.#planned = next;
  }

  /** Applies what is planned; the kernel must take it. */
  take(): void {
    const batch = this.#planner.take();
    if (batch !== undefined) this.apply(batch);
    this.#applied = this.#planned;
  }

  /** Hands what is planned to a kernel that refuses it, and forgets it. */
  async takeRefused(): Promise<void> {
    const batch = this.#planner.take();
    if (batch === undefined) {
      this.#applied = this.#planned;
      return;
    }
    this.#refuse(batch);
    await this.#planner.resume(this.#applied.values(), noPause);
    await this.#planner.changeEnvironment(this.#environment, noPause);
    this.#planned = this.#applied;
  }

  /** Deletes what is due; the kernel must let it. */
  takeDeferred(): void {
    const batch = this.#deferred();
    if (batch !== undefined) this.apply(batch);
  }

  /** Deletes what is due, if the kernel lets it: what others refer to, it keeps. Nothing waits. */
  async tryDeferred(): Promise<void> {
    this.take();
    const batch = this.#deferred();
    if (batch === undefined) return;
    const result = this.kernel.applyNow(batch.ops);
    if (result.kind === 'applied') return batch.committed(result);
    batch.refused();
    await this.#planner.resume(this.#applied.values(), noPause);
  }

  /** Hands what is due to a kernel that refuses it. As in the sync loop, nothing else waits. */
  async takeDeferredRefused(): Promise<void> {
    this.take();
    const batch = this.#deferred();
    if (batch === undefined) return;
    this.#refuse(batch);
    await this.#planner.resume(this.#applied.values(), noPause);
  }

  /** Deletes all that may be deleted. */
  drain(): void {
    for (let i = 0; i < 3 && this.#planner.takeDeferred; i += 1) this.takeDeferred();
    expect(this.#planner.takeDeferred).toBeUndefined();
  }

  /** This mode need not ask the kernel, and answers immediately. */
  #deferred(): Batch | undefined {
    return this.#planner.takeDeferred?.(this.kernel) as Batch | undefined;
  }

  #refuse(batch: Batch): void {
    this.kernel.failNext({ code: 'ENOMEM' });
    expect(this.kernel.applyNow(batch.ops).kind).toBe('failed');
    batch.refused();
  }

  protected apply(batch: Batch): void {
    const before = promises(this.kernel);
    const { writes } = this.kernel;
    const result = this.kernel.applyNow(batch.ops);
    const script = () => scriptOf(this.#mode.name, batch.ops);
    if (result.kind === 'failed')
      throw new Error(`${JSON.stringify(result.failures)}\n${script()}`);
    batch.committed(result);
    expect(this.kernel.writes - writes).toBe(batch.writes);
    const broken = before.filter((promised) => !isKept(this.kernel, promised));
    // A recreated table keeps nothing.
    if (broken.length > 0 && !script().includes('delete table')) expect(broken).toEqual([]);
  }
}

export function isDrift({ missing, wrong, unwanted }: Drift): boolean {
  return missing + wrong + unwanted > 0;
}

function sum(a: Drift, b: Drift): Drift {
  return {
    missing: a.missing + b.missing,
    wrong: a.wrong + b.wrong,
    unwanted: a.unwanted + b.unwanted,
  };
}

/** The ruleset of a kernel that was empty and loaded with these Forwardings only. */
export async function freshRuleset(
  config: ModeConfig,
  environment: Environment,
  wanted: Forwardings,
): Promise<string> {
  const rig = new Rig(config, environment);
  await rig.start(wanted);
  return rig.kernel.ruleset();
}
