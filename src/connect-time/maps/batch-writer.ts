/**
 * Collects the changes of one batch. Connections are translated correctly at every moment:
 * endpoints are added before the frontends that lead to them, and deleted after them. A program
 * that finds no endpoint leaves the connection to the rules.
 */
import { applyLaterPart } from '../../kernel/failures.ts';
import type { ApplyResult, Kernel } from '../../kernel/kernel.ts';
import { kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import {
  countDifference,
  type Difference,
  type ObjectDifference,
  type SharedDifference,
  type Writer,
} from '../../modes/backend.ts';
import { binary } from '../../modes/elements.ts';
import type { WrittenBatch } from '../../modes/mode.ts';
import type { Family } from '../../net/address.ts';
import { PackedBytes, sameBytes } from '../../net/bytes.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import { elementAt } from './environment.ts';
import type { PoolElements } from './frontends.ts';
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
import type { ConnectTimeObjects, HeldObject } from './observation.ts';
import type { Unpin } from './pinned.ts';
import { askedOf, type Placement } from './placement.ts';

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

export class BatchWriter implements Writer<ConnectTimeObjects> {
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
      const held = before?.kind === 'frontend' ? before.value : undefined;
      if (held !== undefined && sameBytes(held, after.value)) return;
      this.#added.frontends.push(owner, after.key, after.value);
    } else if (before?.kind === 'frontend') this.#deleted.frontends.push(owner, before.key);
  }

  #pool(difference: Difference<ConnectTimeObjects>): void {
    const { owner, before } = difference;
    const after = difference.after?.kind === 'pool' ? difference.after : undefined;
    const held = heldGroups(before, after);
    const count = groupCount(after?.endpoints.length ?? 0);
    for (let number = 0; number < count; number += 1) {
      if (held.isRight(number)) continue;
      this.#added.endpoints.push(owner, after!.pool, number, after!.endpoints);
    }
    for (const number of held.numbers) {
      if (number >= count) this.#deleted.endpoints.push(owner, held.pool, number);
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
interface HeldGroups {
  readonly pool: Uint8Array;
  readonly numbers: Iterable<number>;
  /** Whether the group has the desired endpoints. */
  readonly isRight: (number: number) => boolean;
}

function heldGroups(
  before: HeldObject | ConnectTimeObjects['frontend'] | undefined,
  after: Pool | undefined,
): HeldGroups {
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
