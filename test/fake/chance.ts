/** What the fake kernel decides by chance, and how all that may happen is gone through. */

export interface Chance {
  /** A whole number, 0 ≤ n < limit. */
  below(limit: number): number;
  /** Whether something of this probability happens, in units of 2^-31. */
  hits(probability: number): boolean;
}

/** `random % limit`; hits look random, always the same for the same number (xorshift). */
export function chanceOf(random: number): Chance {
  let state = Math.imul(random + 1, 0x9e3779b1) | 1;
  return {
    below: (limit) => random % limit,
    hits: (probability) => {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      return (state & 0x7fffffff) < probability;
    },
  };
}

/** Results by text, with the probability of each. */
export type Odds = ReadonlyMap<string, number>;

/** Runs something once for each way in which chance may decide. */
export function oddsOf(run: (chance: Chance) => string): Odds {
  const found = new Map<string, number>();
  const path: { readonly odds: readonly number[]; at: number }[] = [];
  do {
    let depth = 0;
    let probability = 1;
    const decide = (odds: readonly number[]): number => {
      const decision = path[depth] ?? { odds, at: 0 };
      path[depth] = decision;
      depth += 1;
      probability *= decision.odds[decision.at]!;
      return decision.at;
    };
    const result = run({
      below: (limit) => (limit === 1 ? 0 : decide(Array<number>(limit).fill(1 / limit))),
      hits: (units) => {
        const odds = units / 2 ** 31;
        return odds >= 1 || decide([odds, 1 - odds]) === 0;
      },
    });
    found.set(result, (found.get(result) ?? 0) + probability);
    while (path.length > 0 && path.at(-1)!.at === path.at(-1)!.odds.length - 1) path.pop();
    if (path.length > 0) path.at(-1)!.at += 1;
  } while (path.length > 0);
  return found;
}
