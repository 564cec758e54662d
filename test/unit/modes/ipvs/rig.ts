/** A planner of ipvs mode and a fake kernel, driven as the sync loop drives them. */

import { expect } from 'vitest';
import { ipvsMode } from '../../../../src/modes/ipvs/mode.ts';
import type { Batch, Drift, Environment, ModeConfig, Repair } from '../../../../src/modes/mode.ts';
import type { Planner } from '../../../../src/modes/planner.ts';
import { sameForwarding } from '../../../../src/state/equal.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { scriptOf } from '../../../print/script.ts';
import type { Forwardings } from '../nftables/cluster.ts';

export class Rig {
  readonly kernel: FakeKernel;
  readonly #config: ModeConfig;
  #environment: Environment;
  #planner: Planner;
  #planned: Forwardings = new Map();

  constructor(config: ModeConfig, environment: Environment, kernel = new FakeKernel()) {
    this.kernel = kernel;
    this.#config = config;
    this.#environment = environment;
    this.#planner = ipvsMode.planner(config, environment);
  }

  get planner(): Planner {
    return this.#planner;
  }

  /** Reads the kernel and repairs it to the desired state, as after a failure. */
  async start(wanted: Forwardings): Promise<Drift> {
    const found = await this.#planner.observe(this.kernel, noPause);
    this.#planned = wanted;
    return this.#repair(await found.restore(wanted.values(), noPause));
  }

  /** The process dies and another one starts. */
  async crash(wanted: Forwardings): Promise<Drift> {
    this.#planner = ipvsMode.planner(this.#config, this.#environment);
    return this.start(wanted);
  }

  /** Reads the kernel and repairs it while it continues to work. */
  async audit(): Promise<Drift> {
    const found = await this.#planner.observe(this.kernel, noPause);
    return this.#repair(await found.repair(noPause));
  }

  async #repair(repair: Repair): Promise<Drift> {
    const drifts = [repair.drift];
    for (const wanted of this.#planned.values()) {
      drifts.push(repair.compare(wanted));
      this.take();
    }
    drifts.push(await repair.finish(noPause));
    this.take();
    const sum = (key: keyof Drift): number => drifts.reduce((all, drift) => all + drift[key], 0);
    return { missing: sum('missing'), wrong: sum('wrong'), unwanted: sum('unwanted') };
  }

  async environment(next: Environment): Promise<void> {
    if (next === this.#environment) return;
    this.#environment = next;
    await this.#planner.changeEnvironment(next, noPause);
  }

  plan(wanted: Forwardings): void {
    for (const key of new Set([...this.#planned.keys(), ...wanted.keys()])) {
      const [before, after] = [this.#planned.get(key), wanted.get(key)];
      if (before === after) continue;
      if (before !== undefined && after !== undefined && sameForwarding(before, after)) continue;
      this.#planner.change(before, after);
    }
    this.#planned = wanted;
  }

  /** Applies what is planned; the kernel must take it. Returns its text. */
  take(): string {
    const batch = this.#planner.take();
    return batch === undefined ? '' : this.#apply(batch);
  }

  /** Hands what is planned to a kernel that may refuse part of it, then reads it and repairs. */
  async takePartly(): Promise<void> {
    const batch = this.#planner.take();
    if (batch !== undefined) this.kernel.applyNow(batch.ops);
    batch?.refused();
    this.kernel.heal();
    await this.start(this.#planned);
  }

  /** Deletes real servers that have no connections. */
  async drain(): Promise<string> {
    const batch = await this.#planner.takeDeferred?.(this.kernel);
    return batch === undefined ? '' : this.#apply(batch);
  }

  #apply(batch: Batch): string {
    const { writes } = this.kernel;
    const result = this.kernel.applyNow(batch.ops);
    const script = scriptOf('ipvs', batch.ops);
    if (result.kind === 'failed') throw new Error(`${JSON.stringify(result.failures)}\n${script}`);
    batch.committed(result);
    expect(this.kernel.writes - writes).toBe(batch.writes);
    return script;
  }

  /** All that is in the kernel, as text that is the same for the same state. */
  state(): string {
    const addresses = this.kernel.links.texts('kube-ipvs0') ?? ['no link'];
    return [this.kernel.ruleset(), this.kernel.ipvs.text(), ...addresses].join('\n');
  }
}

/** A kernel that was empty and loaded with these Forwardings only. */
export async function freshState(
  config: ModeConfig,
  environment: Environment,
  wanted: Forwardings,
): Promise<string> {
  const rig = new Rig(config, environment);
  await rig.start(wanted);
  return rig.state();
}
