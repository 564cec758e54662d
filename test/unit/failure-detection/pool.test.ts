/** Laws of leaving endpoints out and taking them back, over random lives. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Evidence } from '../../../src/failure-detection/evidence.ts';
import { attemptsLeast, type Member, Pool } from '../../../src/failure-detection/pool.ts';
import { mostEjected } from '../../../src/state/detection.ts';

const tickMs = 250;
const growthMs = 9000;

/** A pool whose endpoints get attempts in each turn, and answer or do not. */
class Life {
  readonly pool = new Pool();
  readonly answering = new Set<number>();
  /** Whose last attempt or probe was not answered. */
  readonly unanswered = new Set<number>();
  readonly probed: number[] = [];
  nowMs = 0;
  readonly #all: Member[];
  readonly #counts: { attempts: number; answers: number; resets: number }[];

  constructor(size: number) {
    this.#all = Array.from({ length: size }, (_, i) => {
      const text = `10.0.0.${i}:80`;
      return { key: i, text, evidence: new Evidence(), exempt: undefined };
    });
    this.#counts = this.#all.map(() => ({ attempts: 0, answers: 0, resets: 0 }));
    this.pool.update(this.#all);
    for (let i = 0; i < size; i += 1) this.answering.add(i);
  }

  keep(indexes: readonly number[]): void {
    this.pool.update(indexes.map((i) => this.#all[i]!));
  }

  member(index: number): Member {
    return this.#all[index]!;
  }

  get out(): number[] {
    return this.pool.members.filter((one) => this.pool.isOut(one)).map(({ key }) => Number(key));
  }

  /** One turn: clients connect to those that are in, and probes go to those that are due. */
  turn(attempts = 2, percent = 50) {
    this.nowMs += tickMs;
    this.pool.members.forEach((member) => {
      const i = Number(member.key);
      const counts = this.#counts[i]!;
      const sent = this.pool.isOut(member) ? 0 : attempts;
      const answers = counts.answers + (this.answering.has(i) ? sent : 0);
      this.#counts[i] = { attempts: counts.attempts + sent, answers, resets: 0 };
      member.evidence.note(this.#counts[i]!, 0, this.nowMs, this.nowMs);
      if (sent > 0) this.#asked(i);
    });
    const changes = this.pool.judge(this.nowMs, { maxEjected: percent, growthMs });
    const mayProbe = ({ exempt }: Member): boolean => exempt === undefined;
    for (const { evidence, key } of this.pool.suspects(this.nowMs, mayProbe)) {
      this.probed.push(Number(key));
      evidence.probed(this.answering.has(Number(key)), this.nowMs);
      this.#asked(Number(key));
    }
    return changes;
  }

  #asked(index: number): void {
    if (this.answering.has(index)) this.unanswered.delete(index);
    else this.unanswered.add(index);
  }

  turns(count: number, attempts = 2): void {
    for (let i = 0; i < count; i += 1) this.turn(attempts);
  }
}

/** Of four, the first one has just been left out. */
function withOneOut(): Life {
  const life = new Life(4);
  life.turns(4);
  life.answering.delete(0);
  while (life.out.length === 0) life.turn();
  return life;
}

describe('a pool', () => {
  it('never leaves out more than its part, nor all, whatever happens to its endpoints', () => {
    const step = fc.oneof(
      fc.record({ toggle: fc.nat(11) }),
      fc.record({ turns: fc.integer({ min: 1, max: 12 }), attempts: fc.nat(4) }),
    );
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 12 }),
        fc.nat(100),
        fc.array(step, { maxLength: 60 }),
        (size, percent, steps) => {
          const life = new Life(size);
          life.turns(1);
          for (const one of steps) {
            if ('toggle' in one) {
              const i = one.toggle % size;
              if (!life.answering.delete(i)) life.answering.add(i);
              continue;
            }
            for (let i = 0; i < one.turns; i += 1) {
              const changes = life.turn(one.attempts, percent);
              expect(life.out.length).toBeLessThanOrEqual(mostEjected(size, percent));
              for (const change of changes) {
                if (change.kind === 'ejected') {
                  expect(life.unanswered).toContain(Number(change.member.key));
                  expect(change.unanswered).toBeGreaterThanOrEqual(attemptsLeast);
                }
              }
            }
          }
          // All that answer come back.
          for (let i = 0; i < size; i += 1) life.answering.add(i);
          life.turns(4 * 70);
          expect(life.out).toEqual([]);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('leaves an endpoint out within two seconds and a half of its silence', () => {
    const life = new Life(10);
    life.turns(4);
    life.answering.delete(3);
    let turns = 0;
    while (life.out.length === 0 && turns < 40) {
      life.turn();
      turns += 1;
    }
    expect(life.out).toEqual([3]);
    expect(turns * tickMs).toBeLessThanOrEqual(2500);
  });

  it('leaves out no endpoint where all stop answering together', () => {
    const life = new Life(6);
    life.turns(8);
    life.answering.clear();
    life.turns(100);
    expect(life.out).toEqual([]);
  });

  it('leaves no endpoint out that no probe may go to', () => {
    const life = new Life(3);
    const exempt = { ...life.member(1), exempt: 'it is an address of this node' };
    life.pool.update([life.member(0), exempt, life.member(2)]);
    life.answering.delete(1);
    life.turns(60);
    expect(life.pool.isSilent(exempt)).toBe(true);
    expect(life.out).toEqual([]);
    expect(life.probed).not.toContain(1);
  });

  it('probes an endpoint that is out with growing pauses', () => {
    const life = withOneOut();
    life.probed.length = 0;
    const pauses: number[] = [];
    let last = life.nowMs;
    while (pauses.length < 8) {
      life.turn();
      if (life.probed.length === 0) continue;
      pauses.push(life.nowMs - last);
      last = life.nowMs;
      life.probed.length = 0;
    }
    expect(pauses).toEqual([1000, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000]);
  });

  it('takes an endpoint back later, each time it fails soon again, and does not probe it before', () => {
    const life = new Life(4);
    life.turns(4);
    const outMs: number[] = [];
    for (let round = 0; round < 4; round += 1) {
      life.answering.delete(0);
      while (life.out.length === 0) life.turn();
      const from = life.nowMs;
      life.answering.add(0);
      life.probed.length = 0;
      while (life.out.length > 0) life.turn();
      expect(life.probed).toEqual([0]);
      outMs.push(life.nowMs - from);
    }
    expect(outMs).toEqual([1000, 2000, 4000, 8000].map((ms) => ms + tickMs));
  });

  it.each([
    [499, 0],
    [500, 1],
  ])('needs another that has answered half a second later: after %i ms, %i are out', (ms, out) => {
    const of = (unanswered: number, answeredMs: number) => {
      return { evidence: { unanswered: () => unanswered, silentSinceMs: 0, answeredMs } };
    };
    const pool = new Pool();
    pool.update([of(attemptsLeast, 0), of(0, ms)] as never);
    expect(pool.judge(2000, { maxEjected: 50, growthMs })).toHaveLength(out);
  });

  it.each([
    [595_000, 2000],
    [605_000, 1000],
  ])(
    'takes it back as after the first failure once it has answered for ten minutes: %i ms',
    (forMs, leastMs) => {
      const life = new Life(4);
      life.turns(4);
      const fail = (): number => {
        life.answering.delete(0);
        while (life.out.length === 0) life.turn();
        const from = life.nowMs;
        life.answering.add(0);
        while (life.out.length > 0) life.turn();
        return life.nowMs - from;
      };
      expect(fail()).toBe(1000 + tickMs);
      // It takes some seconds to be left out.
      life.turns((forMs - 4000) / tickMs);
      expect(fail()).toBe(leastMs + tickMs);
    },
  );

  it('gives an endpoint that comes back its share in steps', () => {
    const life = withOneOut();
    expect([...life.pool.parts(life.nowMs, growthMs)!]).toEqual([[0, 0]]);
    life.answering.add(0);
    while (life.out.length > 0) life.turn();
    const parts: (number | undefined)[] = [];
    for (let i = 0; i < 10; i += 1) {
      parts.push(life.pool.parts(life.nowMs + 1000 * i, growthMs)?.get(0));
    }
    expect(parts).toEqual([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, undefined]);
  });

  it('lets clients try an endpoint after five minutes that probes do not reach', () => {
    const life = withOneOut();
    const from = life.nowMs;
    let because: string | undefined;
    while (because === undefined) {
      for (const change of life.turn()) if (change.kind === 'returned') because = change.because;
    }
    expect(because).toBe('trial');
    expect(life.nowMs - from).toBe(300_000);
    // It has to fail again before it is left out again.
    expect(life.out).toEqual([]);
    while (life.out.length === 0) life.turn();
    expect(life.nowMs - from).toBeLessThan(303_000);
  });

  it('forgets an endpoint that has gone', () => {
    const life = withOneOut();
    life.keep([1, 2, 3]);
    expect(life.pool.parts(life.nowMs, growthMs)).toBeUndefined();
  });
});
