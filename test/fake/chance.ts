/** What the fake kernel decides by chance, and how all that may happen is gone through. */

export interface Chance {
  /** A whole number, 0 ≤ n < limit. */
  below(limit: number): number;
  /** Whether something of this probability happens, in units of 2^-31. */
  hits(probability: number): boolean;
  /** The number that was given last led nowhere: what follows is the same for all such numbers. */
  missed(): void;
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
    missed: () => undefined,
  };
}

/** Results by text, with the probability of each. */
export type Odds = ReadonlyMap<string, number>;

/** Numbers that led nowhere are put together, and come last: `miss` stands for them. */
interface Decision {
  readonly odds: readonly number[];
  at: number;
  missed: number;
  miss: number;
}

function isDone({ at, missed, odds }: Decision): boolean {
  return at === odds.length || (at === odds.length - 1 && missed === 0);
}

/** Thrown where a number is put to others that led nowhere. */
const put = new Error('put together');

function resultOf(run: (chance: Chance) => string, chance: Chance): string | undefined {
  try {
    return run(chance);
  } catch (error) {
    if (error !== put) throw error;
    return undefined;
  }
}

/** Runs something once for each way in which chance may decide. */
export function oddsOf(run: (chance: Chance) => string): Odds {
  const found = new Map<string, number>();
  const path: Decision[] = [];
  do {
    let depth = 0;
    let probability = 1;
    const decide = (odds: readonly number[]): number => {
      const decision = path[depth] ?? { odds, at: 0, missed: 0, miss: 0 };
      path[depth] = decision;
      depth += 1;
      const { at, miss, missed } = decision;
      probability *= odds[at] ?? missed;
      return at < odds.length ? at : miss;
    };
    const result = resultOf(run, {
      below: (limit) => (limit === 1 ? 0 : decide(Array<number>(limit).fill(1 / limit))),
      hits: (units) => {
        const odds = units / 2 ** 31;
        return odds >= 1 || decide([odds, 1 - odds]) === 0;
      },
      missed: () => {
        const decision = path[depth - 1]!;
        const { at, odds } = decision;
        if (at === odds.length) return;
        decision.missed += odds[at]!;
        decision.miss = at;
        throw put;
      },
    });
    if (result !== undefined) found.set(result, (found.get(result) ?? 0) + probability);
    while (path.length > 0 && isDone(path.at(-1)!)) path.pop();
    if (path.length > 0) path.at(-1)!.at += 1;
  } while (path.length > 0);
  return found;
}
