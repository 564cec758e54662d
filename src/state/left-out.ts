/** Objects that are not kept for lack of memory: how many there are. */

/** The most that are counted one by one, and the most namespaces that are named. */
const objectsMax = 1_000_000;
const namespacesMax = 1000;

/**
 * Counts objects without keeping them, or their names: there may be millions. Two whose hashes are
 * equal, one pair in 4,000 million, count as one.
 */
export class LeftOut {
  readonly #hashes = new Set<number>();
  /** By namespace. */
  readonly #counts = new Map<string, number>();

  get count(): number {
    return this.#hashes.size;
  }

  /** The namespaces that have most, these first. */
  namespaces(most: number): [namespace: string, objects: number][] {
    return [...this.#counts].sort(([, a], [, b]) => b - a).slice(0, most);
  }

  /** `object`: the resource and `namespace/name`. */
  add(namespace: string, object: string): void {
    if (this.#hashes.size >= objectsMax) return;
    const before = this.#hashes.size;
    if (this.#hashes.add(hashOf(object)).size > before) this.#add(namespace, 1);
  }

  delete(namespace: string, object: string): void {
    if (this.#hashes.size > 0 && this.#hashes.delete(hashOf(object))) this.#add(namespace, -1);
  }

  clear(): void {
    this.#hashes.clear();
    this.#counts.clear();
  }

  #add(namespace: string, change: number): void {
    const count = (this.#counts.get(namespace) ?? 0) + change;
    if (count <= 0) this.#counts.delete(namespace);
    else if (count > 1 || this.#counts.size < namespacesMax) this.#counts.set(namespace, count);
  }
}

/** FNV-1a, 32 bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  }
  return hash;
}
