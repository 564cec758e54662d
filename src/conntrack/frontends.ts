import type { EndpointKey } from '../net/endpoint-list.ts';
import { madeAt } from '../net/made-at.ts';
import type { FrontendKey } from '../state/frontend-key.ts';
import { noEndpoints } from './policy.ts';

/** The most endpoints that a frontend has lost in several changes: of more, the last ones count. */
const lostMax = 16_384;

/** How many frontends one `markDue` asks about: that takes a millisecond. */
const askedMost = 512;

type Suspects = Map<FrontendKey, ReadonlySet<EndpointKey>>;

/** The frontends of one family and protocol whose entries are to be examined. */
export class SuspectFrontends {
  #fresh: Suspects = new Map();
  /**
   * What the change that was noted last has lost, by what was lost before. All frontends of a
   * Service share one set, as they share that of a change.
   */
  #joined = new Map<ReadonlySet<EndpointKey>, ReadonlySet<EndpointKey>>();
  #joinedWith = noEndpoints;
  #due: Suspects = new Map();

  /** Frontends whose entries are suspect since the last `markDue`, with the endpoints they lost. */
  get fresh(): ReadonlyMap<FrontendKey, ReadonlySet<EndpointKey>> {
    return this.#fresh;
  }

  /** Frontends whose entries must be examined now. */
  get due(): ReadonlyMap<FrontendKey, ReadonlySet<EndpointKey>> {
    return this.#due;
  }

  /** No entries must be examined, now or later. */
  get isClear(): boolean {
    return this.#due.size === 0 && this.#fresh.size === 0;
  }

  /**
   * Makes what is fresh due, in addition to what is. What `isEarly` names stays fresh, and so does
   * what it was not asked about: one call asks about few, the next one about the following. Returns
   * whether it was asked about all.
   */
  markDue(isEarly?: (key: FrontendKey) => boolean): boolean {
    const { size } = this.#fresh;
    if (isEarly === undefined && this.#due.size === 0) {
      this.#due = this.#fresh;
      this.#fresh = new Map();
      this.#joined = new Map();
      return true;
    }
    const asked = isEarly === undefined ? size : Math.min(size, askedMost);
    let left = asked;
    for (const [key, lost] of this.#fresh) {
      if (left === 0) break;
      left -= 1;
      this.#fresh.delete(key);
      if (isEarly?.(key)) this.#fresh.set(key, lost);
      else this.#add(this.#due, key, lost);
    }
    return asked === size;
  }

  /** What was due has been examined. */
  clear(): void {
    this.#due = new Map();
  }

  /** Entries of the frontend are to be examined, those to these endpoints above all. */
  readonly suspect = (key: FrontendKey, lost: ReadonlySet<EndpointKey>): void => {
    this.#add(this.#fresh, key, lost);
  };

  #add(to: Suspects, key: FrontendKey, lost: ReadonlySet<EndpointKey>): void {
    const known = to.get(key) ?? noEndpoints;
    if (known.size === 0) {
      to.set(key, lost);
      return;
    }
    if (lost.size === 0 || lost === known) return;
    to.set(key, this.#join(known, lost));
  }

  #join(known: ReadonlySet<EndpointKey>, lost: ReadonlySet<EndpointKey>): ReadonlySet<EndpointKey> {
    if (this.#joinedWith !== lost) this.#joined = new Map();
    this.#joinedWith = lost;
    return madeAt(this.#joined, known, () => lastOf(new Set([...known, ...lost])));
  }
}

function lastOf(all: Set<EndpointKey>): ReadonlySet<EndpointKey> {
  for (const first of all) {
    if (all.size <= lostMax) break;
    all.delete(first);
  }
  return all;
}
