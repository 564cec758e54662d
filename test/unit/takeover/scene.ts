import { onTestFinished } from 'vitest';
import { builtModes } from '../../../src/modes/index.ts';
import { iptablesMode } from '../../../src/modes/iptables/mode.ts';
import type { ModeName } from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import {
  Takeover,
  type TakeoverEvent,
  type TakeoverOptions,
} from '../../../src/takeover/takeover.ts';
import type { FakeKernel } from '../../fake/kernel.ts';
import { ToyClock } from '../sync/double.ts';

/** A takeover under way on a kernel. */
export class Scene {
  readonly clock = new ToyClock();
  readonly events: TakeoverEvent[] = [];
  /** Of our rules. */
  verified: 'yes' | 'waiting' = 'yes';
  verifications = 0;
  #release = (): void => {};
  readonly end: () => Promise<void>;

  constructor(
    kernel: FakeKernel,
    mode: ModeName = 'nftables',
    among: Partial<Pick<TakeoverOptions, 'modes' | 'signed'>> = {},
  ) {
    const stop = new AbortController();
    const takeover = new Takeover({
      kernel,
      mode: builtModes().get(mode)!,
      modes: [nftablesMode, iptablesMode()],
      signed: () => [],
      ...among,
      clock: this.clock,
      verify: () => this.#verify(),
      observer: (event) => this.events.push(event),
    });
    const running = takeover.run(stop.signal);
    this.end = async () => {
      this.release();
      stop.abort();
      await running;
    };
    onTestFinished(this.end);
  }

  release(): void {
    this.#release();
  }

  kinds(): string[] {
    return this.events.map(({ kind }) => kind);
  }

  async #verify(): Promise<void> {
    this.verifications += 1;
    if (this.verified === 'yes') return;
    await new Promise<void>((resolve) => {
      this.#release = resolve;
    });
  }
}
