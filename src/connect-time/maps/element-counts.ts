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

  /** Counts an object. `sign` is 1 when it becomes desired, and -1 when it no longer is. */
  count(object: ConnectTimeObject | EnvironmentElement, sign: 1 | -1): void {
    if (object.isShared === true) {
      if (object.map === 'frontends') this.#frontends += sign;
      if (object.map === 'excluded') this.#excluded += sign;
    } else if (object.kind === 'pool') this.#groups += sign * groupCount(object.endpoints.length);
    else this.#frontends += sign;
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
