/**
 * Objects that several Forwardings may need: who needs each is counted, and a batch adds and
 * deletes what that comes to.
 */
import { UndoMap } from './undo-map.ts';

export interface SharedObject {
  /** Identifies it among all of a family; says all that it is. */
  readonly id: string;
  /** A later transaction than the one that made it unused deletes it. */
  readonly isDeletedLater?: boolean;
  /** A repair makes it at its end, when all that it leads to is there. */
  readonly isMadeLast?: boolean;
  /** What making it costs, as so many bytes of ops would. */
  readonly bytes: number;
}

export interface Needed<S> {
  readonly object: S;
  /** Key of the Forwarding to blame when the kernel refuses it: one that needs it, or last did. */
  readonly owner: string;
}

interface Entry<S> extends Needed<S> {
  count: number;
}

/** What a batch does for shared objects. */
interface SharedChanges<S> {
  /** `isThere`: it was still to be deleted. */
  readonly added: readonly (Needed<S> & { readonly isThere: boolean })[];
  readonly deleted: readonly Needed<S>[];
}

/** Objects that one transaction deletes: so that others need not wait for it. */
const dueMax = 256;

export class SharedObjects<S extends SharedObject> {
  readonly #rankOf: (id: string) => number;
  readonly #needed = new Map<string, Entry<S>>();
  /** What came to be needed or ceased to be since the last batch, and whether it was before. */
  readonly #before = new Map<string, Needed<S> & { readonly isNeeded: boolean }>();
  /** What nobody needs and is not deleted yet, by id → whether a call of `due` has seen it. */
  readonly #retired = new UndoMap<boolean>();

  /** `rankOf`: of two that are to be deleted, the one with less goes first. */
  constructor(rankOf: (id: string) => number = () => 0) {
    this.#rankOf = rankOf;
  }

  has(id: string): boolean {
    return this.#needed.has(id);
  }

  /** All that are needed. */
  values(): IterableIterator<Needed<S>> {
    return this.#needed.values();
  }

  /** Something waits to be deleted. */
  get isAnyRetired(): boolean {
    return this.#retired.size > 0;
  }

  isRetired(id: string): boolean {
    return this.#retired.get(id) !== undefined;
  }

  /** Returns whether nobody needed it until now. */
  claim(owner: string, object: S): boolean {
    const isNew = this.resume(owner, object);
    if (isNew) this.#note({ owner, object, isNeeded: false });
    return isNew;
  }

  /** A claim to what is in force already: `take` does not name it. Returns as `claim`. */
  resume(owner: string, object: S): boolean {
    const entry = this.#needed.get(object.id);
    if (entry === undefined) this.#needed.set(object.id, { owner, object, count: 1 });
    else entry.count += 1;
    return entry === undefined;
  }

  /** Returns whether nobody needs it any more. */
  release(owner: string, object: S): boolean {
    const entry = this.#needed.get(object.id);
    if (entry === undefined) throw new Error('released an object that nobody had claimed');
    entry.count -= 1;
    if (entry.count > 0) return false;
    this.#needed.delete(object.id);
    this.#note({ owner, object, isNeeded: true });
    return true;
  }

  #note(before: Needed<S> & { readonly isNeeded: boolean }): void {
    if (!this.#before.has(before.object.id)) this.#before.set(before.object.id, before);
  }

  /** Whether the next `take` will add or delete it. */
  changes(id: string): boolean {
    const before = this.#before.get(id);
    return before !== undefined && before.isNeeded !== this.has(id);
  }

  /** What came to be needed and what is needed no longer since the last call. */
  take(): SharedChanges<S> {
    const added: (Needed<S> & { readonly isThere: boolean })[] = [];
    const deleted: Needed<S>[] = [];
    const retired: string[] = [];
    for (const [id, { owner, object, isNeeded: wasNeeded }] of this.#before) {
      const needed = this.#needed.get(id);
      if (wasNeeded === (needed !== undefined)) continue;
      if (needed !== undefined) added.push({ ...needed, isThere: this.revive(id) });
      else if (object.isDeletedLater === true) retired.push(id);
      else deleted.push({ owner, object });
    }
    this.#before.clear();
    this.retire(retired);
    return { added, deleted };
  }

  /** What was taken so far is in force in the kernel. */
  confirm(): void {
    this.#retired.confirm();
  }

  /** Nobody needs anything, and what was taken since `confirm` never happened. */
  reset(): void {
    this.#retired.rollback();
    this.#needed.clear();
    this.#before.clear();
  }

  /** The kernel holds none of it any more. */
  startAnew(): void {
    this.#before.clear();
    for (const [id] of this.#retired.entries()) this.#retired.put(id, undefined);
  }

  /**
   * The kernel has them, and nobody needs them. They come in the order in which they can be made;
   * what refers to others is deleted before these.
   */
  retire(ids: readonly string[]): void {
    for (const id of ids.toReversed()) this.#retired.put(id, false);
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
   * Ids of what was already waiting to be deleted at the call before this one, as much as one
   * transaction deletes.
   */
  due(): readonly string[] {
    this.confirm();
    const aged = this.#retired.entries().filter(([, isAged]) => isAged);
    const ids = aged.map(([id]) => id).sort((a, b) => this.#rankOf(a) - this.#rankOf(b));
    const due = ids.slice(0, dueMax);
    for (const [id] of this.#retired.entries()) this.#retired.put(id, true);
    // Time passes for the rest even if the kernel refuses to delete what is due.
    this.confirm();
    for (const id of due) this.#retired.put(id, undefined);
    return due;
  }
}
