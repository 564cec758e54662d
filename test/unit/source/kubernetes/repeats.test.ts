import { describe, expect, it } from 'vitest';
import { Repeats } from '../../../../src/source/kubernetes/repeats.ts';

describe('Repeats', () => {
  it('leaves out exactly what came after the next watch was asked for', () => {
    const repeats = new Repeats();
    expect(repeats.judge('a')).toBe('new');
    repeats.record();
    expect(['b', 'c'].map((event) => repeats.judge(event))).toEqual(['new', 'new']);
    repeats.handOver();
    expect(['b', 'c', 'd', 'b'].map((event) => repeats.judge(event))).toEqual([
      'repeat',
      'repeat',
      'new',
      'new',
    ]);
  });

  it('leaves out nothing when nothing came', () => {
    const repeats = new Repeats();
    repeats.record();
    repeats.handOver();
    expect(repeats.judge('b')).toBe('new');
  });

  it('notices a watch that does not go on where it should', () => {
    const repeats = new Repeats();
    repeats.record();
    for (const event of ['b', 'c']) repeats.judge(event);
    repeats.handOver();
    expect(['x', 'y', 'z'].map((event) => repeats.judge(event))).toEqual(['repeat', 'lost', 'new']);
  });
});
