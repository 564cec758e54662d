/** What Services have cost lately, so that changes of those that cost little go first. */
import { namespaceOf } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { Debt } from '../time/debt.ts';

/** A Service that has cost more than this part of the time does not go first. */
const serviceShare = 0.2;

/**
 * Nor do Services of a namespace whose changes that went first have cost more than this part of the
 * time, and milliseconds in advance. So one Service that changes all the time does not hold up
 * others of its namespace, and a namespace of many Services does not hold up other namespaces.
 */
const namespaceShare = 0.05;
const namespaceAllowanceMs = 200;

/** The most Services and namespaces whose costs are kept: the last ones. */
const costsMax = 4096;

export class RecentCosts {
  readonly #clock: Pick<Clock, 'now'>;
  /** By `namespace/name` of Services, and by namespace. The last one that cost is the last. */
  readonly #debts = new Map<string, Debt>();
  /** The elements that the present sync has planned, of the same. */
  readonly #planned = new Map<string, number>();
  #elements = 0;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** Whether the Service has cost little. */
  isLow(service: string): boolean {
    return this.#isDue(service, 0);
  }

  /** Whether its small changes go first. */
  goesFirst(service: string): boolean {
    return this.isLow(service) && this.#isDue(namespaceOf(service), namespaceAllowanceMs);
  }

  /** The sync has planned a change of this number of elements. */
  planned(service: string, elements: number, isFirst: boolean): void {
    this.#elements += elements;
    this.#add(service, elements);
    if (isFirst) this.#add(namespaceOf(service), elements);
  }

  /** The sync is over that began at `beganMs` of `Clock.now`. Elements cost about the same. */
  spent(costMs: number, beganMs: number): void {
    for (const [key, elements] of this.#planned) {
      const share = key.includes('/') ? serviceShare : namespaceShare;
      const debt = this.#debts.get(key) ?? new Debt(this.#clock, share);
      debt.spent((costMs * elements) / this.#elements, beganMs);
      this.#debts.delete(key);
      this.#debts.set(key, debt);
    }
    this.#planned.clear();
    this.#elements = 0;
    for (const key of this.#debts.keys()) {
      if (this.#debts.size <= costsMax && !this.#isDue(key, 0)) break;
      this.#debts.delete(key);
    }
  }

  #isDue(key: string, allowanceMs: number): boolean {
    const debt = this.#debts.get(key);
    return debt === undefined || debt.dueMs(allowanceMs) <= this.#clock.now();
  }

  /** One sync of more Services costs each of them little. */
  #add(key: string, elements: number): void {
    const before = this.#planned.get(key);
    if (before === undefined && this.#planned.size === costsMax) return;
    this.#planned.set(key, (before ?? 0) + elements);
  }
}
