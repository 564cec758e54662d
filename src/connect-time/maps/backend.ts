/** Connect-time translation for one family, in addition to the rules of any mode. */

import { applyLaterPart } from '../../kernel/failures.ts';
import type { ApplyResult, Kernel, KernelReader } from '../../kernel/kernel.ts';
import { kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import {
  type Backend,
  countDifference,
  type Difference,
  type EndOfRepair,
  type ObjectDifference,
  type RepairPart,
  type SharedDifference,
  signOf,
  type Tally,
  type Writer,
} from '../../modes/backend.ts';
import { binary } from '../../modes/elements.ts';
import type { Environment, Miscount, ModeConfig, WrittenBatch } from '../../modes/mode.ts';
import type { Family } from '../../net/address.ts';
import { PackedBytes, sameBytes } from '../../net/bytes.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import { formatFrontend } from '../../state/conflict.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Pause } from '../../time/pacer.ts';
import { type EnvironmentElement, elementAt, environmentElements } from './environment.ts';
import {
  type ConnectTimeObject,
  type ElementSetting,
  objectsOf,
  type PoolElements,
  poolOf,
} from './frontends.ts';
import {
  addressFamily,
  groupCount,
  groupValue,
  hasSameGroup,
  keyBytes,
  mapNames,
  valueBytes,
  writeGroupKey,
  writeGroupValue,
} from './layout.ts';
import { type ConnectTimeObjects, ConnectTimeObservation, type Observed } from './observation.ts';
import { isReadable, type PinnedStates, readPinned, type Unpin, unpinMaps } from './pinned.ts';
import { askedOf, type Placement } from './placement.ts';
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

type Sort = keyof typeof keyBytes;

/** Elements of one op, with the key of the Forwarding that each belongs to. */
class Elements {
  readonly keys: PackedBytes;
  readonly values: PackedBytes;
  readonly owners: string[] = [];

  constructor(sort: Sort) {
    this.keys = new PackedBytes(keyBytes[sort]);
    this.values = new PackedBytes(valueBytes[sort]);
  }

  get count(): number {
    return this.owners.length;
  }
}

/** Elements of frontends and of the environment. */
class SingleElements extends Elements {
  push(owner: string, key: Uint8Array, value?: Uint8Array): void {
    this.owners.push(owner);
    this.keys.push(key);
    if (value !== undefined) this.values.push(value);
  }
}

class Groups extends Elements {
  constructor() {
    super('endpoints');
  }

  /** Without a list: only the key, for a deletion. */
  push(owner: string, pool: Uint8Array, number: number, list?: EndpointList): void {
    this.owners.push(owner);
    const keyAt = this.keys.extend();
    writeGroupKey(this.keys.buffer, keyAt, pool, number);
    if (list === undefined) return;
    const valueAt = this.values.extend();
    writeGroupValue(this.values.buffer, valueAt, list, number);
  }
}

const sorts = ['endpoints', 'frontends', 'excluded', 'secret'] as const satisfies Sort[];

function newElements() {
  return {
    endpoints: new Groups(),
    frontends: new SingleElements('frontends'),
    excluded: new SingleElements('excluded'),
    secret: new SingleElements('secret'),
  };
}

/** The steps of a batch, in order. */
const steps = [
  ['add', 'secret'],
  ['add', 'excluded'],
  ['add', 'endpoints'],
  // The map may not have room for deleted and added frontends at the same time.
  ['delete', 'frontends'],
  ['add', 'frontends'],
  ['delete', 'endpoints'],
  ['delete', 'excluded'],
] as const;

type Pool = Pick<PoolElements, 'pool' | 'endpoints'>;

interface BatchWriterOptions {
  readonly family: Family;
  readonly placement: Placement;
  readonly unpin: Unpin;
  /** Connections are counted. */
  readonly countsTraffic: boolean;
}

/**
 * Collects the changes of one batch. Connections are translated correctly at every moment:
 * endpoints are added before the frontends that lead to them, and deleted after them. A program
 * that finds no endpoint leaves the connection to the rules.
 */
class BatchWriter implements Writer<ConnectTimeObjects> {
  readonly #options: BatchWriterOptions;
  #maps: 'kept' | 'completed' | 'replaced' = 'kept';
  #attaches = false;
  readonly #added = newElements();
  readonly #deleted = newElements();

  constructor(options: BatchWriterOptions) {
    this.#options = options;
  }

  get #count(): number {
    return sorts.reduce((n, sort) => n + this.#added[sort].count + this.#deleted[sort].count, 0);
  }

  /**
   * Creates all maps. Programs that are attached translate with the maps that they have until
   * `attach` replaces them, so that rules need not handle connections while maps are filled.
   */
  replaceMaps(): void {
    this.#maps = 'replaced';
  }

  /** Creates the maps that are missing. */
  completeMaps(): void {
    this.#maps = 'completed';
  }

  /**
   * Attaches the programs, or replaces attached ones, as the last step of the batch: the maps have
   * been compared, so that a lease may begin.
   */
  attach(): void {
    this.#attaches = true;
  }

  write(difference: ObjectDifference<ConnectTimeObjects>): void {
    if (difference.of === 'shared') {
      this.#shared(difference);
      return;
    }
    const before = this.#count;
    const { after } = difference;
    if ((after ?? difference.before)?.kind === 'pool') this.#pool(difference);
    else this.#frontend(difference);
    if (difference.from === 'kernel' && this.#count > before) countDifference(difference);
  }

  #frontend({ owner, before, after }: Difference<ConnectTimeObjects>): void {
    if (after?.kind === 'frontend') {
      const inKernel = before?.kind === 'frontend' ? before.value : undefined;
      if (inKernel !== undefined && sameBytes(inKernel, after.value)) return;
      this.#added.frontends.push(owner, after.key, after.value);
    } else if (before?.kind === 'frontend') this.#deleted.frontends.push(owner, before.key);
  }

  #pool(difference: Difference<ConnectTimeObjects>): void {
    const { owner, before } = difference;
    const after = difference.after?.kind === 'pool' ? difference.after : undefined;
    const inKernel = groupsInKernel(before, after);
    const count = groupCount(after?.endpoints.length ?? 0);
    for (let number = 0; number < count; number += 1) {
      if (inKernel.isRight(number)) continue;
      this.#added.endpoints.push(owner, after!.pool, number, after!.endpoints);
    }
    for (const number of inKernel.numbers) {
      if (number >= count) this.#deleted.endpoints.push(owner, inKernel.pool, number);
    }
  }

  #shared({ after, id }: SharedDifference<ConnectTimeObjects>): void {
    const { key, map } = elementAt(id);
    if (after === undefined) this.#deleted[map].push('', key);
    else this.#added[map].push('', key, after.value);
  }

  batch(): WrittenBatch | undefined {
    const out = new RecordWriter(kernelOps);
    const { countsTraffic, family, placement } = this.#options;
    const { directory } = placement;
    const at = { directory, family: addressFamily[family] };
    const asked = askedOf(placement, countsTraffic);
    let writes = 0;
    if (this.#maps !== 'kept') {
      out.write('bpfMapsAdd', { ...at, ...asked });
      writes += 1;
    }
    for (const [verb, sort] of steps) {
      const elements = (verb === 'add' ? this.#added : this.#deleted)[sort];
      if (elements.count === 0) continue;
      const keys = elements.keys.bytes;
      const inMap = { directory, map: mapNames[family][sort], keys };
      const ownerOf = (entry = -1): string | undefined => elements.owners[entry];
      if (verb === 'delete') out.write('bpfElementsDelete', inMap, ownerOf);
      else out.write('bpfElementsAdd', { ...inMap, values: elements.values.bytes }, ownerOf);
      writes += elements.count;
    }
    if (this.#attaches) {
      // Without a lease programs translate nothing, and a new map of it has none.
      out.write('bpfLeaseExtend', { ...at, milliseconds: placement.leaseMs, onlyValid: 0 });
      out.write('bpfLinksAdd', { ...at, ...asked });
      writes += 2;
    }
    if (writes === 0) return undefined;
    const culprits: WrittenBatch['culprits'] = (failure) => out.ownersOf(failure);
    const ops = out.finish();
    const batch = { ops, writes, culprits };
    if (this.#maps !== 'replaced') return batch;
    return { ...batch, apply: (kernel) => this.#replaceMaps(kernel, ops) };
  }

  async #replaceMaps(kernel: Kernel, ops: Uint8Array): Promise<ApplyResult> {
    const { family, placement, unpin } = this.#options;
    const { directory } = placement;
    try {
      await unpin(directory, family);
    } catch (error) {
      const { code = 'EIO', message } = error as NodeJS.ErrnoException;
      const failure = { op: undefined, entry: undefined, code, message };
      return { kind: 'failed', failures: [failure], partly: true };
    }
    return applyLaterPart(() => kernel.apply(ops));
  }
}

/** The groups of a pool in the kernel: as read, or as in force. */
interface ObservedGroups {
  readonly pool: Uint8Array;
  readonly numbers: Iterable<number>;
  /** Whether the group has the desired endpoints. */
  readonly isRight: (number: number) => boolean;
}

function groupsInKernel(
  before: Observed | ConnectTimeObjects['frontend'] | undefined,
  after: Pool | undefined,
): ObservedGroups {
  if (before?.kind !== 'pool') {
    return { pool: after?.pool ?? new Uint8Array(0), numbers: [], isRight: () => false };
  }
  const { pool } = before;
  if ('groups' in before) {
    const { groups } = before;
    return {
      pool,
      numbers: groups.keys(),
      isRight: (number) => groups.get(number) === binary(groupValue(after!.endpoints, number)),
    };
  }
  const { endpoints } = before;
  return {
    pool,
    numbers: Array(groupCount(endpoints.length)).keys(),
    isRight: (number) => hasSameGroup(endpoints, after!.endpoints, number),
  };
}
