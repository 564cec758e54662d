/**
 * Values of answers that stay the same objects from one answer to the next while they say the same,
 * such as rows of the list of Services. What is made of them is made once.
 */

import type { Age } from './view.ts';

const lasting = new WeakSet<object>();

/** Without ages at any depth: what is shown of one changes with the time. */
export type Lasting<T> = T extends Age
  ? never
  : T extends object
    ? { readonly [K in keyof T]: Lasting<T[K]> }
    : T;

/** Marks a value whose contents, and those of the values in it, never change. */
export function lasts<T extends object>(value: T & Lasting<T>): T {
  lasting.add(value);
  return value;
}

interface Made<T> {
  readonly variant: string;
  readonly value: T;
}

/** What is made of lasting values. It goes with them. Of other values nothing is kept. */
export class MadeOnce<T> {
  readonly #made = new WeakMap<object, Made<T>>();

  /** `variant`: what `make` depends on apart from `from`; of each value only the last is kept. */
  of<From extends object>(from: From, variant: string, make: (from: From) => T): T {
    if (!lasting.has(from)) return make(from);
    const known = this.#made.get(from);
    if (known?.variant === variant) return known.value;
    const value = make(from);
    this.#made.set(from, { variant, value });
    return value;
  }
}
