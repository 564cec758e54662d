/** Compares the number of elements in the maps of one family with the expected number. */
import type { Kernel } from '../../kernel/kernel.ts';
import type { Miscount } from '../../modes/mode.ts';
import type { Family } from '../../net/address.ts';
import type { EnvironmentElement } from './environment.ts';
import type { ConnectTimeObject } from './frontends.ts';
import { groupCount, mapNames } from './layout.ts';
import { countElements } from './read-map.ts';

/** The maps that only the agent writes. Of the others, programs write some, and some are arrays. */
const counted = ['frontends', 'endpoints', 'excluded'] as const;

export class ElementCounts {
  #frontends = 0;
  #groups = 0;
  #excluded = 0;

  frontend(one: ConnectTimeObject, step: 'claimed' | 'resumed' | 'released'): void {
    const sign = step === 'released' ? -1 : 1;
    if (one.kind === 'pool') this.#groups += sign * groupCount(one.endpoints.length);
    else this.#frontends += sign;
  }

  shared({ map }: EnvironmentElement, step: 1 | -1): void {
    if (map === 'frontends') this.#frontends += step;
    if (map === 'excluded') this.#excluded += step;
  }

  clear(): void {
    this.#frontends = 0;
    this.#groups = 0;
    this.#excluded = 0;
  }

  async miscounts(kernel: Kernel, directory: string, family: Family): Promise<Miscount[]> {
    const expected = {
      frontends: this.#frontends,
      endpoints: this.#groups,
      excluded: this.#excluded,
    };
    const found: Miscount[] = [];
    for (const sort of counted) {
      const map = mapNames[family][sort];
      const elements = await countElements(kernel, { directory, map });
      if (elements === expected[sort]) continue;
      const object = `bpf map ${directory}/${map}`;
      found.push({ object, expected: expected[sort], counted: elements });
    }
    return found;
  }
}
