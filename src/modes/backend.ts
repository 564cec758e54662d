/**
 * What a mode supplies for one family: which objects it keeps for a Forwarding, and how it reads
 * and writes them. `ModePlanner` does the rest, for all modes alike.
 */
import type { ApplyResult, Kernel, KernelReader, WatchedTable } from '../kernel/kernel.ts';
import type { Forwarding } from '../state/types.ts';
import type { Pause } from '../time/pacer.ts';
import type { ModeFrontend } from './changes.ts';
import type { Applied, Drift, Environment, Miscount, RuleCount, WrittenBatch } from './mode.ts';
import type { Needed, SharedObject } from './shared-objects.ts';

/** The types of a mode's objects. */
interface ObjectTypes {
  /** What belongs to one Forwarding alone. */
  readonly frontend: ModeFrontend;
  /** A frontend as the kernel holds it. */
  readonly observed: unknown;
  /** What several Forwardings may need, or the environment. */
  readonly shared: SharedObject;
}

/** The types of a mode's objects, and of what reads and writes them. */
export interface Types extends ObjectTypes {
  /** What was read. */
  readonly found: object;
  readonly writer: object;
}

/** A Drift in the making. */
export type Counts = { -readonly [K in keyof Drift]: Drift[K] };

export function noCounts(): Counts {
  return { missing: 0, wrong: 0, unwanted: 0 };
}

/** What a mode keeps for one Forwarding or for the environment. */
export type ObjectOf<T extends ObjectTypes> = T['frontend'] | T['shared'];

export function isShared<T extends ObjectTypes>(object: ObjectOf<T>): object is T['shared'] {
  return object.isShared === true;
}

/** The difference of one frontend, to be written. */
export type Difference<T extends ObjectTypes> = {
  readonly of: 'frontend';
  /** Key of the Forwarding to blame when the kernel refuses it. */
  readonly owner: string;
  readonly after: T['frontend'] | undefined;
} & (
  | { readonly from: 'belief'; readonly before: T['frontend'] | undefined }
  /** `before` was read from the kernel. What differs is counted in `drift`. */
  | { readonly from: 'kernel'; readonly before: T['observed'] | undefined; readonly drift: Counts }
);

/** A shared object that is to be made whole, or deleted if `after` is undefined. */
export interface SharedDifference<T extends ObjectTypes> {
  readonly of: 'shared';
  readonly id: string;
  /** Key of the Forwarding to blame when the kernel refuses it; empty: no Forwarding. */
  readonly owner: string;
  readonly after: T['shared'] | undefined;
  /** It may be in the kernel already, in whatever form. */
  readonly isThere: boolean;
}

/** The difference of one object, to be written. */
export type ObjectDifference<T extends ObjectTypes> = Difference<T> | SharedDifference<T>;

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
  write(difference: ObjectDifference<T>): void;
  /**
   * Ends the writer: the next batch has another one. Returns what was written; undefined = nothing.
   */
  batch(): WrittenBatch | undefined;
}

/** A shared object as the kernel holds it. */
export type ObservedShared = Pick<SharedObject, 'id' | 'laterRank'>;

/** What was read from the kernel, as objects that the mode keeps. */
export interface Found<T extends ObjectTypes> {
  /** Packets meet what was read; absent in a mode without hooks. */
  readonly isHooked?: boolean;
  /** See `KernelState`. Without it, pools have no order in the kernel. */
  adopt?(next: Forwarding): Forwarding;
  /** What the kernel holds of the frontend. `rest` leaves out what was taken. */
  take(frontend: T['frontend']): T['observed'] | undefined;
  /** The frontends that were not taken. */
  rest(): Iterable<readonly [id: string, observed: T['observed']]>;
  /** How the kernel differs from the object; undefined: not at all. */
  faultOf(object: T['shared']): 'missing' | 'wrong' | undefined;
  /** The shared objects that the kernel holds. */
  shared(): Iterable<ObservedShared>;
}

/** The last part of a repair. */
export type EndOfRepair<T extends Types> = (repair: RepairPart<T>) => Promise<void> | void;

/** A repair that is under way, for a mode's part in it. */
export interface RepairPart<T extends Types> {
  readonly writer: T['writer'];
  /** Counts what the mode repairs. */
  readonly drift: Counts;
  /** Ids of what batches have written since the reading began: a repair leaves it out. */
  readonly touched: ReadonlySet<string>;
  readonly pause: Pause;
  /** All shared objects that are needed. */
  shared(): Iterable<Needed<T['shared']>>;
  /** The next batch deletes the object. */
  isLeaving(id: string): boolean;
  /**
   * The writer deletes the table with all its content, and makes it again. `indivisible`: packets
   * meet the rules that are replaced, so that all must be one transaction.
   */
  startOver(how?: 'indivisible'): void;
}

/**
 * Writes what could not be written before, and is due. Resolves to the ids of frontends that it
 * writes.
 */
export type WriteLater<W> = (
  kernel: KernelReader,
  writer: W,
) => Promise<Iterable<string>> | Iterable<string>;

/** `resumed`: it is in force already. */
export type TallyStep = 'claimed' | 'resumed' | 'released';

/** The number by which an object that takes the step changes a count. */
export function signOf(step: TallyStep): 1 | -1 {
  return step === 'released' ? -1 : 1;
}

export interface Tally<T extends ObjectTypes> {
  /**
   * Receives each object that becomes desired or is no longer: of shared objects the first claim
   * and the release of the last one.
   */
  count(object: ObjectOf<T>, step: TallyStep): void;
  /** Nothing is desired. */
  clear(): void;
  /** See `Planner`. */
  miscounts?(kernel: KernelReader): Promise<readonly Miscount[] | undefined>;
  /** See `PlannerReport`. */
  takeRules?(): readonly RuleCount[];
}

/** The tables of nf_tables that a mode writes. */
export interface OwnTables {
  /** See `Planner`. */
  readonly exposed: readonly WatchedTable[];
  /** See `Planner`. */
  prepare(kernel: Kernel, transact: (ops: Uint8Array) => Promise<ApplyResult>): Promise<void>;
}

export interface Backend<T extends Types> {
  /** Undefined: nothing that it reads is in a ruleset. */
  readonly tables?: OwnTables;
  /**
   * What batches write while the kernel is read may be in what was read or not. Default: what was
   * read is one state of the ruleset, and batches make it stale.
   */
  readonly allowsBatches?: boolean;
  /** Packets reach Services without it, so that nothing of it stays that may be wrong. */
  readonly isOptional?: boolean;
  readonly tally?: Tally<T>;
  /** Deletions that wait until no packet and no connection needs the object any more. */
  readonly deferred?: WriteLater<T['writer']> | undefined;
  /** See `Planner.takeSweep`. */
  readonly sweep?: WriteLater<T['writer']> | undefined;
  /** See `Planner`. */
  readonly unswept?: ((forwarding: Forwarding) => boolean) | undefined;
  /** What the mode keeps for a Forwarding: each object before those that refer to it. Pure. */
  objects(forwarding: Forwarding, environment: Environment): readonly ObjectOf<T>[];
  /**
   * What the mode keeps whatever Forwardings there are, in the order in which it can be made.
   * `repairFixed` leaves it out.
   */
  ofEnvironment(environment: Environment): readonly T['shared'][];
  /** See `Planner.describe`. */
  describe(forwarding: Forwarding, environment: Environment): readonly string[];
  /** A new batch. */
  writer(): T['writer'] & Writer<T>;
  /** What writers have recorded so far is in one batch, or needs none. Later records are not. */
  taken?(): void;
  /**
   * What writers had recorded when `taken` was called is in force, with the kernel's answer to a
   * batch if one was needed. `refused`: what was recorded since then has never happened, either.
   */
  settle?(outcome: Applied | 'nothing to write' | 'refused'): void;
  /** Reads what the kernel holds of ours. */
  read(kernel: KernelReader, pause: Pause): Promise<T['found'] & Found<T>>;
  /**
   * Repairs all that the planner does not know as objects. Resolves to what the repair ends with:
   * the deletion of all of ours that the planner does not know as objects.
   */
  repairFixed(found: T['found'], repair: RepairPart<T>): Promise<EndOfRepair<T> | undefined>;
}
