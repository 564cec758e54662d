/** Connect-time translation for one family, in addition to the rules of any mode. */
import type { KernelReader } from '../../kernel/kernel.ts';
import {
  type Backend,
  type EndOfRepair,
  type RepairPart,
  signOf,
  type Tally,
} from '../../modes/backend.ts';
import type { Environment, Miscount, ModeConfig } from '../../modes/mode.ts';
import type { Family } from '../../net/address.ts';
import { formatFrontend } from '../../state/conflict.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Pause } from '../../time/pacer.ts';
import { BatchWriter } from './batch-writer.ts';
import { type EnvironmentElement, environmentElements } from './environment.ts';
import { type ConnectTimeObject, type ElementSetting, objectsOf, poolOf } from './frontends.ts';
import { groupCount, mapNames } from './layout.ts';
import { type ConnectTimeObjects, ConnectTimeObservation } from './observation.ts';
import { isReadable, type PinnedStates, readPinned, type Unpin, unpinMaps } from './pinned.ts';
import type { Placement } from './placement.ts';
import { poolIds } from './pool-ids.ts';
import { countElements } from './read-map.ts';

export interface ConnectTimeTypes extends ConnectTimeObjects {
  readonly found: ConnectTimeObservation;
  readonly writer: BatchWriter;
}

export class ConnectTimeBackend implements Backend<ConnectTimeTypes> {
  readonly allowsBatches = true;
  readonly isOptional = true;
  readonly tally: Tally<ConnectTimeTypes>;
  readonly #family: Family;
  readonly #counts = new ElementCounts();
  readonly #config: ModeConfig;
  readonly #placement: Placement;
  readonly #setting: ElementSetting;
  readonly #unpin: Unpin;

  constructor(config: ModeConfig, placement: Placement, unpin: Unpin = unpinMaps) {
    this.#unpin = unpin;
    this.#family = config.family;
    this.#config = config;
    this.#placement = placement;
    const { reach, secret } = placement;
    this.#setting = { config, reach, poolId: poolIds(secret) };
    const counts = this.#counts;
    this.tally = {
      count: (object, step) => counts.count(object, signOf(step)),
      clear: () => counts.clear(),
      miscounts: (kernel) => this.#miscounts(kernel),
    };
  }

  describe(forwarding: Forwarding): readonly string[] {
    const { frontends } = mapNames[this.#family];
    const { directory } = this.#placement;
    return forwarding.frontends.flatMap((frontend) => {
      const pool = poolOf(forwarding, frontend, this.#setting);
      if (pool !== 'cluster' && pool !== 'local') return [];
      const at = formatFrontend(forwarding.servicePort.protocol, frontend);
      return `bpf map ${directory}/${frontends}: ${at} to ${forwarding[pool].length} endpoints`;
    });
  }

  objects(forwarding: Forwarding): ConnectTimeObject[] {
    return objectsOf(forwarding, this.#setting);
  }

  ofEnvironment(environment: Environment): EnvironmentElement[] {
    return environmentElements(environment, this.#placement.secret);
  }

  writer(): BatchWriter {
    const { countsTraffic, family } = this.#config;
    return new BatchWriter({
      ...{ family, placement: this.#placement, unpin: this.#unpin, countsTraffic },
    });
  }

  async read(kernel: KernelReader, pause: Pause): Promise<ConnectTimeObservation> {
    const found = new ConnectTimeObservation(this.#family, this.#setting.poolId);
    const { maps, links } = await this.#pinned(kernel);
    found.maps = maps;
    found.links = links;
    if (isReadable(maps)) await found.readElements(kernel, this.#placement.directory, pause);
    return found;
  }

  async repairFixed(
    found: ConnectTimeObservation,
    { drift, startOver, writer }: RepairPart<ConnectTimeTypes>,
  ): Promise<EndOfRepair<ConnectTimeTypes> | undefined> {
    if (found.maps === 'incomplete') {
      drift.missing += 1;
      writer.completeMaps();
      // Programs use the maps that were there when they were loaded.
      if (found.links === 'right') found.links = 'wrong';
    }
    if (!isReadable(found.maps)) {
      drift[found.maps === 'absent' ? 'missing' : 'wrong'] += 1;
      startOver();
      if (found.maps === 'absent') writer.completeMaps();
      else writer.replaceMaps();
      found.clear();
      // Attached programs have other maps.
      if (found.links === 'right') found.links = 'wrong';
    }
    if (found.links === 'right') return undefined;
    drift[found.links === 'absent' ? 'missing' : 'wrong'] += 1;
    // Programs are attached last, when the maps are complete.
    return (end) => end.writer.attach();
  }

  /** Whether another program has detached programs, or added or deleted elements. */
  async #miscounts(kernel: KernelReader): Promise<readonly Miscount[]> {
    const { directory } = this.#placement;
    const { links, maps } = await this.#pinned(kernel);
    if (maps !== 'right') return [{ object: `maps in ${directory}`, expected: 1, counted: 0 }];
    const counts = await this.#counts.miscounts(kernel, directory, this.#family);
    if (links === 'right') return counts;
    return [{ object: `programs in ${directory}`, expected: 1, counted: 0 }, ...counts];
  }

  #pinned(kernel: KernelReader): Promise<PinnedStates> {
    return readPinned(kernel, this.#placement, this.#family, this.#config.countsTraffic);
  }
}

/** The maps that only the agent writes. Of the others, programs write some, and some are arrays. */
const noElements = { frontends: 0, endpoints: 0, excluded: 0 };

/** Compares the number of elements in the maps of one family with the expected number. */
class ElementCounts {
  #expected = { ...noElements };

  /** Counts an object. `sign` is 1 when it becomes desired, and -1 when it no longer is. */
  count(object: ConnectTimeObject | EnvironmentElement, sign: 1 | -1): void {
    const expected = this.#expected;
    if (object.isShared === true) {
      if (object.map !== 'secret') expected[object.map] += sign;
    } else if (object.kind === 'pool') {
      expected.endpoints += sign * groupCount(object.endpoints.length);
    } else expected.frontends += sign;
  }

  clear(): void {
    this.#expected = { ...noElements };
  }

  async miscounts(kernel: KernelReader, directory: string, family: Family): Promise<Miscount[]> {
    const found: Miscount[] = [];
    for (const [sort, expected] of Object.entries(this.#expected)) {
      const map = mapNames[family][sort as keyof typeof noElements];
      const counted = await countElements(kernel, { directory, map });
      if (counted === expected) continue;
      found.push({ object: `bpf map ${directory}/${map}`, expected, counted });
    }
    return found;
  }
}
