/** Endpoints that do not answer for a while, as probes from the node show it. */
import type { AppOptions } from '../../src/agent/agent.ts';
import type { Random } from '../chaos/random.ts';
import type { Machine } from './machine.ts';
import { someEndpointAddress, steadyAddresses } from './objects.ts';
import type { VirtualTime } from './virtual-time.ts';

type Connect = NonNullable<AppOptions['connect']>;

interface IllnessOptions {
  readonly time: VirtualTime;
  readonly random: Random;
  readonly machine: Machine;
}

export class Illness {
  readonly #options: IllnessOptions;
  readonly #ill = new Set<string>();
  /** Addresses that the node has connected to; may be cleared. */
  readonly probed = new Set<string>();

  constructor(options: IllnessOptions) {
    this.#options = options;
  }

  readonly connect: Connect = async ({ address }, timeoutMs) => {
    const { machine, random, time } = this.#options;
    const isIll = this.#ill.has(address);
    this.probed.add(address);
    await time.sleep(isIll ? timeoutMs : 5 * random.next());
    if (machine.shortage === 'descriptors') {
      return { result: 'not_tried', isSent: false, code: 'EMFILE', error: 'too many open files' };
    }
    return { result: isIll ? 'failed' : 'accepted', isSent: true };
  };

  /** One more does not answer. Returns its address. */
  strike(address = this.#any()): string {
    this.#ill.add(address);
    return address;
  }

  heal(): void {
    this.#ill.clear();
  }

  #any(): string {
    const { random } = this.#options;
    const family = random.pick(['IPv4', 'IPv6'] as const);
    if (random.below(4) === 0) return random.pick(steadyAddresses(0, family));
    return someEndpointAddress(family, random);
  }
}
