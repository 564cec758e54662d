/** Chance that can be repeated: the same seed gives the same numbers. */
export class Random {
  #state: number;

  /** `seed`: a whole number, 32 bits of it count. */
  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** 0 ≤ x < 1. Mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  }

  /** A whole number, 0 ≤ n < limit. */
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!;
  }
}

/** The first of each choice. */
export class FirstChoices extends Random {
  constructor() {
    super(0);
  }

  override next(): number {
    return 0;
  }
}

/** A new seed. Report it, so that findings can be repeated. */
export function freshSeed(): number {
  return Math.floor(Math.random() * 0x1_0000_0000);
}
