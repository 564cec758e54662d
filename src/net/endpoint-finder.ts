import type { EndpointKey, EndpointList } from './endpoint-list.ts';

/** With this many comparisons for each endpoint, a list costs about as much as a Map. */
const comparisonsEach = 4;

/**
 * Finds endpoints in a list. Lists that are compared mostly have the same endpoints in the same
 * order, so it looks from behind the last one that was found. Only when that takes long does it
 * make a Map.
 */
export class EndpointFinder {
  readonly #list: EndpointList;
  #from = 0;
  #comparisonsLeft: number;
  #indexes: Map<EndpointKey, number> | undefined;

  constructor(list: EndpointList) {
    this.#list = list;
    this.#comparisonsLeft = comparisonsEach * list.length;
  }

  /** The index in this list of the endpoint at `index` of `other`, of one family; -1 = none. */
  indexOf(other: EndpointList, index: number): number {
    if (this.#indexes === undefined && this.#comparisonsLeft < 0) this.#indexes = this.#index();
    return this.#indexes === undefined
      ? this.#look(other, index)
      : (this.#indexes.get(other.key(index)) ?? -1);
  }

  #look(other: EndpointList, index: number): number {
    const { length } = this.#list;
    for (let i = 0; i < length; i += 1) {
      const at = (this.#from + i) % length;
      if (!this.#list.sameAt(at, other, index)) continue;
      this.#comparisonsLeft -= i;
      this.#from = at + 1;
      return at;
    }
    this.#comparisonsLeft -= length;
    return -1;
  }

  #index(): Map<EndpointKey, number> {
    const indexes = new Map<EndpointKey, number>();
    for (let i = 0; i < this.#list.length; i += 1) indexes.set(this.#list.key(i), i);
    return indexes;
  }
}
