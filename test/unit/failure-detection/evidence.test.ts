/** What counts and probes say about one endpoint. */
import { describe, expect, it } from 'vitest';
import { Evidence } from '../../../src/failure-detection/evidence.ts';

/** Counts every quarter of a second: attempts and answers since the beginning. */
function counted(...counts: readonly (readonly [attempts: number, answers: number])[]): Evidence {
  const evidence = new Evidence();
  counts.forEach(([attempts, answers], i) => {
    evidence.note({ attempts, answers, resets: 0 }, 0, 250 * i, 250 * i);
  });
  return evidence;
}

describe('attempts without an answer', () => {
  it('count once they have waited for a second', () => {
    expect(counted([3, 0], [5, 0], [5, 0], [5, 0]).unanswered()).toBe(0);
    expect(counted([3, 0], [5, 0], [5, 0], [5, 0], [9, 0]).unanswered()).toBe(3);
    expect(counted([3, 0], [5, 0], [5, 0], [5, 0], [9, 0], [9, 0]).unanswered()).toBe(5);
  });

  it('are all forgiven by one answer', () => {
    const evidence = counted([5, 0], [5, 0], [5, 0], [5, 0], [9, 1]);
    expect(evidence.unanswered()).toBe(0);
    expect(evidence.answeredMs).toBe(1000);
    expect(evidence.silentSinceMs).toBeUndefined();
    for (let at = 1250; at <= 2250; at += 250) {
      evidence.note({ attempts: 12, answers: 1, resets: 3 }, 0, at, at);
    }
    expect(evidence.unanswered()).toBe(3);
    expect(evidence.silentSinceMs).toBe(1250);
    expect(evidence.counts).toEqual({ attempts: 12, answers: 1, resets: 3 });
  });

  it('keep few samples, however long the silence is', () => {
    const evidence = new Evidence();
    for (let i = 0; i < 10_000; i += 1) {
      evidence.note({ attempts: i, answers: 0, resets: 0 }, 0, 250 * i, 250 * i);
    }
    expect(evidence.unanswered()).toBe(9995);
    expect(evidence.sampleCount).toBeLessThan(10);
  });

  it('count from zero when the kernel counts from zero', () => {
    const evidence = counted([9, 4], [9, 4], [0, 0], [2, 0], [2, 0], [2, 0], [2, 0], [2, 0]);
    expect(evidence.unanswered()).toBe(2);
  });

  it('are not known of a reading that began before they had waited', () => {
    const evidence = new Evidence();
    evidence.note({ attempts: 4, answers: 0, resets: 0 }, 0, 0, 100);
    evidence.note({ attempts: 4, answers: 0, resets: 0 }, 0, 1050, 1200);
    expect(evidence.unanswered()).toBe(0);
    evidence.note({ attempts: 4, answers: 0, resets: 0 }, 0, 1100, 1200);
    expect(evidence.unanswered()).toBe(4);
  });
});

describe('probes that fail', () => {
  it('say nothing before one has succeeded, and are not attempts of clients', () => {
    const evidence = new Evidence();
    for (let i = 1; i <= 8; i += 1) {
      evidence.note({ attempts: i, answers: 0, resets: 0 }, i, 1000 * i, 1000 * i);
      evidence.probed(false, 1000 * i + 900);
    }
    expect(evidence.unanswered()).toBe(0);
    evidence.probed(true, 9000);
    expect(evidence.answeredMs).toBe(9000);
    for (let i = 0; i < 8; i += 1) evidence.probed(false, 10_000 + i);
    expect(evidence.unanswered()).toBe(8);
  });

  it('are forgotten after an answer, and so is all that the kernel counted before a restart', () => {
    const evidence = counted([0, 0], [9, 0], [9, 0], [9, 0], [9, 0], [9, 0]);
    expect(evidence.unanswered()).toBe(9);
    evidence.restart(0);
    expect(evidence.unanswered()).toBe(0);
    expect(evidence.counts).toEqual({ attempts: 0, answers: 0, resets: 0 });
  });
});

it('begins with what is known by then: neither an old answer nor old attempts count', () => {
  const evidence = new Evidence({ attempts: 40, answers: 5, resets: 0 }, 12);
  const look = (attempts: number, probes: number, atMs: number) =>
    evidence.note({ attempts, answers: 5, resets: 0 }, probes, atMs, atMs);
  look(40, 12, 0);
  look(40, 12, 2000);
  expect(evidence.unanswered()).toBe(0);
  expect(evidence.answeredMs).toBe(Number.NEGATIVE_INFINITY);
  // Three probes that others asked for, and two attempts of clients.
  look(45, 15, 3000);
  look(45, 15, 4000);
  expect(evidence.unanswered()).toBe(2);
});
