/**
 * Objects that several Forwardings may need, or the environment. The claims to each are counted: a
 * batch adds an object with its first claim, and deletes it after its last.
 */
import { UndoMap } from './undo-map.ts';

export interface SharedObject {
  /** Identifies it within a family. Objects with the same id and content are equal. */
  readonly id: string;
  readonly isShared: true;
  /** Of an object whose content can be replaced in place, which only the environment claims. */
  readonly content?: string;
  /**
   * Set if it must not be deleted in the transaction that makes it unused, but in a later one. What
   * has a lower rank goes first: objects that refer to others, then those.
   */
  readonly laterRank?: number | undefined;
  /** A repair makes it at its end, when all that it leads to exists. */
  readonly isMadeLast?: boolean;
  /** Packets meet the rules of a table by it. A start that is staged leaves it out. */
  readonly isHook?: boolean;
  /** What it costs to make, in bytes of ops. */
  readonly bytes: number;
}

export interface Needed<S> {
  readonly object: S;
  /**
   * Key of the Forwarding to blame when the kernel refuses it: one that needs it, or last did.
   * Empty: the environment needs it.
   */
  readonly owner: string;
}

/** What a later transaction deletes. */
export interface Retirable {
  readonly id: string;
  readonly laterRank: number;
}

interface Retired {
  readonly rank: number;
  /** A call of `due` has seen it. */
  readonly isAged: boolean;
}

interface Entry<S> {
  object: S;
  owner: string;
  /** Number of claims. 0: the next batch deletes it. */
  count: number;
  /** Whether it was needed before the claims and releases of this batch; undefined = none yet. */
  wasNeeded: boolean | undefined;
  /** The object then. */
  before: S;
}

/** What a batch does for shared objects. */
interface SharedChanges<S> {
  /** `isThere`: it was retired, or has other content now, and is in the kernel still. */
  readonly added: readonly (Needed<S> & { readonly isThere: boolean })[];
  readonly deleted: readonly Needed<S>[];
}

/** One transaction deletes at most this many objects, so that others need not wait long. */
const dueMax = 256;

export class SharedObjects<S extends SharedObject> {
  readonly #entries = new Map<string, Entry<S>>();
  /** Entries with `wasNeeded`, in the order of their first claim or release. */
  #changed: Entry<S>[] = [];
  /** By id. */
  readonly #retired = new UndoMap<Retired>();

  has(id: string): boolean {
    return (this.#entries.get(id)?.count ?? 0) > 0;
  }

  /** All that are needed. */
  *values(): Generator<Needed<S>> {
    for (const entry of this.#entries.values()) if (entry.count > 0) yield entry;
  }

  /** Whether `take` might name any. */
  get isAnyChanged(): boolean {
    return this.#changed.length > 0;
  }

  get isAnyRetired(): boolean {
    return this.#retired.size > 0;
  }

  isRetired(id: string): boolean {
    return this.#retired.get(id) !== undefined;
  }

  /** Returns whether it is the first claim. */
  claim(owner: string, object: S): boolean {
    const entry = this.#claim(owner, object);
    if (entry.count > 1) return false;
    this.#note(entry, false);
    return true;
  }

  /** A claim to what is in force already: `take` does not name it. Returns as `claim`. */
  resume(owner: string, object: S): boolean {
    return this.#claim(owner, object).count === 1;
  }

  #claim(owner: string, object: S): Entry<S> {
    let entry = this.#entries.get(object.id);
    if (entry === undefined) {
      entry = { owner, object, count: 0, wasNeeded: undefined, before: object };
      this.#entries.set(object.id, entry);
    } else if (entry.count === 0) Object.assign(entry, { owner, object });
    entry.count += 1;
    return entry;
  }

  /** Returns whether it was the last claim. */
  release(owner: string, object: S): boolean {
    const entry = this.#entries.get(object.id);
    if (entry === undefined || entry.count === 0) {
      throw new Error('released an object without a claim');
    }
    entry.count -= 1;
    if (entry.count > 0) return false;
    entry.owner = owner;
    this.#note(entry, true);
    return true;
  }

  #note(entry: Entry<S>, wasNeeded: boolean): void {
    if (entry.wasNeeded !== undefined) return;
    entry.wasNeeded = wasNeeded;
    entry.before = entry.object;
    this.#changed.push(entry);
  }

  /** Whether the next `take` will add or delete it. */
  changes(id: string): boolean {
    const entry = this.#entries.get(id);
    return entry?.wasNeeded !== undefined && isChanged(entry);
  }

  /** What to add and to delete since the last call. */
  take(): SharedChanges<S> {
    const added: (Needed<S> & { readonly isThere: boolean })[] = [];
    const deleted: Needed<S>[] = [];
    const retired: Retirable[] = [];
    for (const entry of this.#changed) {
      if (!isChanged(entry)) continue;
      const { count, object, owner, wasNeeded } = entry;
      const { id } = object;
      if (count > 0) added.push({ owner, object, isThere: wasNeeded === true || this.revive(id) });
      else if (object.laterRank !== undefined) retired.push({ id, laterRank: object.laterRank });
      else deleted.push({ owner, object });
    }
    this.#settle();
    this.retire(retired);
    return { added, deleted };
  }

  /** The changes so far need no batch. */
  #settle(): void {
    for (const entry of this.#changed) {
      entry.wasNeeded = undefined;
      if (entry.count === 0) this.#entries.delete(entry.object.id);
    }
    this.#changed = [];
  }

  /** A batch has what was taken and retired so far. */
  taken(): void {
    this.#retired.take();
  }

  /** The batch is in force in the kernel. */
  confirm(): void {
    this.#retired.confirmTaken();
  }

  /** What is not confirmed is not in force. */
  rollback(): void {
    this.#retired.rollback();
  }

  /** Forgets all claims. */
  reset(): void {
    this.#entries.clear();
    this.#changed = [];
  }

  /** The kernel holds none of it any more. */
  startOver(): void {
    this.#settle();
    for (const [id] of this.#retired.entries()) this.#retired.put(id, undefined);
  }

  /**
   * The kernel has them, and they are not needed. They are given in the order in which they can be
   * made, and are deleted in the reverse one: an object that refers to another goes before it.
   */
  retire(objects: readonly Retirable[]): void {
    for (const { id, laterRank: rank } of objects.toReversed()) {
      this.#retired.put(id, { rank, isAged: false });
    }
  }

  /** It is not to be deleted after all. Returns whether it was. */
  revive(id: string): boolean {
    if (this.#retired.size === 0) return false;
    const isRetired = this.isRetired(id);
    if (isRetired) this.#retired.put(id, undefined);
    return isRetired;
  }

  /** Forgets those that the kernel does not have: their deletion would fail. */
  keepRetired(isThere: (id: string) => boolean): void {
    for (const [id] of this.#retired.entries()) {
      if (!isThere(id)) this.#retired.put(id, undefined);
    }
  }

  /**
   * Ids of the objects that were already retired at the call before this one, as many as one
   * transaction deletes.
   */
  due(): readonly string[] {
    this.#retired.confirm();
    const aged = this.#retired.entries().filter(([, { isAged }]) => isAged);
    aged.sort(([, a], [, b]) => a.rank - b.rank);
    const due = aged.slice(0, dueMax).map(([id]) => id);
    for (const [id, one] of this.#retired.entries()) {
      if (!one.isAged) this.#retired.put(id, { ...one, isAged: true });
    }
    // The others have been seen, even if the kernel refuses to delete what is due.
    this.#retired.confirm();
    for (const id of due) this.#retired.put(id, undefined);
    return due;
  }
}

function isChanged<S extends SharedObject>({
  before,
  count,
  object,
  wasNeeded,
}: Entry<S>): boolean {
  const isNeeded = count > 0;
  return wasNeeded !== isNeeded || (isNeeded && before.content !== object.content);
}
