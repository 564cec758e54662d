/**
 * What a mode supplies for one family: which objects it keeps for a Forwarding, and how it reads
 * and writes them. `ModePlanner` does the rest, for all modes alike.
 */
import type { ApplyResult, Kernel, TableName } from '../kernel/kernel.ts';
import type { Family } from '../net/address.ts';
import type { Forwarding } from '../state/types.ts';
import type { ModeFrontend } from './changes.ts';
import type { Drift, Environment, Miscount, Pause, RuleCount, WrittenBatch } from './mode.ts';
import type { Needed, SharedObject } from './shared-objects.ts';

/** The types of a mode's objects. */
interface ObjectTypes {
  /** What belongs to one Forwarding alone. */
  readonly frontend: ModeFrontend;
  /** A frontend as the kernel holds it. */
  readonly held: unknown;
  /** What several Forwardings may need, or the environment. */
  readonly shared: SharedObject;
}

/** The types of a mode's objects, and of what reads and writes them. */
export interface Types extends ObjectTypes {
  readonly found: Reading;
  readonly writer: object;
}

/** A Drift in the making. */
export type Counts = { -readonly [K in keyof Drift]: Drift[K] };

export function noCounts(): Counts {
  return { missing: 0, wrong: 0, unwanted: 0 };
}

/** What a mode keeps for one Forwarding. */
export interface Objects<T extends ObjectTypes> {
  readonly frontends: readonly T['frontend'][];
  /** An object comes before those that refer to it. */
  readonly shared: readonly T['shared'][];
  /** What the frontends cost in a batch, in bytes of ops. */
  readonly bytes: number;
}

/** The difference of one frontend, to be written. */
export type Difference<T extends ObjectTypes> = {
  /** Key of the Forwarding to blame when the kernel refuses it. */
  readonly owner: string;
  readonly after: T['frontend'] | undefined;
} & (
  | { readonly from: 'belief'; readonly before: T['frontend'] | undefined }
  /** `before` was read from the kernel. What differs is counted in `drift`. */
  | { readonly from: 'kernel'; readonly before: T['held'] | undefined; readonly drift: Counts }
);

/** Counts one fault for the whole frontend. */
export function countDifference<T extends ObjectTypes>(
  one: Extract<Difference<T>, { from: 'kernel' }>,
): void {
  if (one.before === undefined) one.drift.missing += 1;
  else if (one.after === undefined) one.drift.unwanted += 1;
  else one.drift.wrong += 1;
}

/** One batch in the making. */
export interface Writer<T extends ObjectTypes> {
  /** Approximate bytes of what was written so far. */
  readonly byteLength: number;
  frontend(difference: Difference<T>): void;
  /** Makes the object whole. `isThere`: it may be there already, in whatever form. */
  add(object: T['shared'], owner: string, isThere: boolean): void;
  /** Deletes what nobody needs: at once, or what `isDeletedLater` in a later transaction. */
  delete(id: string, owner: string): void;
  /** What was written; undefined = nothing. The writer must not be used afterwards. */
  batch(): WrittenBatch | undefined;
}

/** What every mode says of what it has read. */
interface Reading {
  /** See `Takeover`. */
  readonly generation: number | undefined;
  /** See `Observation`; default: no. */
  readonly allowsBatches?: boolean;
  /** See `Takeover`. */
  adopt(next: Forwarding): Forwarding;
}

/** What was read from the kernel, as objects that the mode keeps. */
export interface Found<T extends ObjectTypes> extends Reading {
  /** Ids of objects that batches have written since the reading began. */
  readonly touched: Set<string>;
  /** What the kernel holds of the frontend. `rest` leaves out what was taken. */
  take(frontend: T['frontend']): T['held'] | undefined;
  /** The frontends that were not taken. */
  rest(): Iterable<readonly [id: string, held: T['held']]>;
  /** How the kernel differs from the object; undefined: not at all. */
  faultOf(object: T['shared']): 'missing' | 'wrong' | undefined;
  /** The shared objects that the kernel holds. */
  shared(): Iterable<Pick<SharedObject, 'id' | 'isDeletedLater'>>;
  /** Nobody compares with it any longer: lets go of what was read. */
  abandon?(): void;
}

/** What is desired besides frontends, for a repair. */
export interface Fixed<T extends ObjectTypes> {
  /** All shared objects that are needed. */
  shared(): Iterable<Needed<T['shared']>>;
  /** The next batch deletes the object. */
  isLeaving(id: string): boolean;
}

/** The result of a repair of fixed objects, with which a repair begins. */
export interface FixedRepair<W> {
  readonly drift: Drift;
  /** The table is deleted with all that was found in it, and is made anew. */
  readonly isAnew?: boolean;
  /** Packets meet what is replaced, so that all must be one transaction. */
  readonly isIndivisible?: boolean;
  /** At the end of the repair: deletes what is ours but is no object. Resolves to how many. */
  prune?(writer: W, pause: Pause): Promise<number>;
}

/** Deletions that wait until no packet and no connection needs the object any more. */
export interface LateDeletions<W> {
  readonly isAny: boolean;
  /** What was recorded so far is in force in the kernel. */
  confirm(): void;
  /** What was recorded since `confirm` never happened. */
  rollback(): void;
  /** Writes those that are due; resolves to the ids of their frontends. */
  write(kernel: Kernel, writer: W): Promise<Iterable<string>> | Iterable<string>;
}

/** See `Planner.takeSweep`. */
export interface Sweep<W> {
  readonly isDue: boolean;
  write(kernel: Kernel, writer: W): Promise<void>;
}

/**
 * Is told of each object that becomes desired or is no longer. `resumed`: it is in force already.
 */
export interface Tally<T extends ObjectTypes> {
  frontend(frontend: T['frontend'], step: 'claimed' | 'resumed' | 'released'): void;
  /** `step` 1: the first Forwarding needs it. -1: none needs it any more. */
  shared(object: T['shared'], step: 1 | -1): void;
  /** Nothing is desired. */
  clear(): void;
}

/** Tables of nf_tables that a mode writes. */
export interface Tables<T extends Types> {
  /** See `Planner`. */
  readonly exposed: readonly TableName[];
  readonly batchBytesMax?: number;
  readonly sweep?: Sweep<T['writer']>;
  prepare(kernel: Kernel, transact: (ops: Uint8Array) => Promise<ApplyResult>): Promise<void>;
  stage?(found: T['found']): boolean;
  /** From now on, `ofEnvironment` returns the base chains too. */
  hook?(): void;
  miscounts?(kernel: Kernel): Promise<readonly Miscount[] | undefined>;
  takeRuleCounts?(): readonly RuleCount[];
  /** Of shared objects that are to be deleted, those of a lower rank go first. */
  rankOf?(id: string): number;
}

export interface Backend<T extends Types> {
  readonly family: Family;
  readonly tables?: Tables<T>;
  readonly late?: LateDeletions<T['writer']>;
  readonly tally?: Tally<T>;
  /** What the mode keeps for a Forwarding. Pure. */
  objects(forwarding: Forwarding, environment: Environment): Objects<T>;
  /**
   * What the mode keeps whatever Forwardings there are, in the order in which it can be made.
   * `repairFixed` leaves it out.
   */
  ofEnvironment(environment: Environment): readonly T['shared'][];
  /** Another for the same configuration, that knows nothing of the kernel. */
  twin(): Backend<T>;
  /** See `Planner.describe`. */
  describe(forwarding: Forwarding, environment: Environment): readonly string[];
  /** A new batch. */
  writer(): T['writer'] & Writer<T>;
  /** Reads what the kernel holds of ours; `begun` is called before anything is read. */
  read(kernel: Kernel, pause: Pause, begun: (found: T['found']) => void): Promise<T['found']>;
  /** Repairs what is no object. */
  repairFixed(
    found: T['found'],
    writer: T['writer'],
    fixed: Fixed<T>,
    pause: Pause,
  ): Promise<FixedRepair<T['writer']>>;
}
