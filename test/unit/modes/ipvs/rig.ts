/** A planner of ipvs mode and a fake kernel, driven as the sync loop drives them. */

import { ipvsMode } from '../../../../src/modes/ipvs/mode.ts';
import type { Batch, Environment, ModeConfig } from '../../../../src/modes/mode.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { scriptOf } from '../../../print/script.ts';
import type { Forwardings } from '../nftables/cluster.ts';
import { Rig as AnyRig } from '../nftables/rig.ts';

export class Rig extends AnyRig {
  #script = '';

  constructor(config: ModeConfig, environment: Environment, kernel = new FakeKernel()) {
    super(config, environment, kernel, ipvsMode);
  }

  /** Returns its text. */
  override take(): string {
    this.#script = '';
    super.take();
    return this.#script;
  }

  /** Hands what is planned to a kernel that may refuse part of it, then reads it and repairs. */
  async takePartly(): Promise<void> {
    const batch = this.planner.take();
    if (batch !== undefined) this.kernel.applyNow(batch.ops);
    batch?.refused();
    this.kernel.heal();
    await this.start(this.planned);
  }

  /** Deletes real servers that have no connections. Returns its text. */
  override async drain(): Promise<string> {
    this.#script = '';
    const batch = await this.planner.takeDeferred?.(this.kernel);
    if (batch !== undefined) this.apply(batch);
    return this.#script;
  }

  protected override apply(batch: Batch): void {
    super.apply(batch);
    this.#script = scriptOf('ipvs', batch.ops);
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
