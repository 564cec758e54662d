import { describe, expect, it } from 'vitest';
import { parseStatus } from '../../vm/machine.ts';

describe('the exit status from a guest', () => {
  it.each([
    ['0\n', 0],
    ['1\r\n', 1],
    ['137\n', 137],
  ])('%j is parsed', (text, status) => {
    expect(parseStatus(text)).toEqual({ kind: 'exited', status });
  });

  it.each(['', '1', '\n', 'x\n', '0\n1\n'])('%j means that the machine died', (text) => {
    expect(parseStatus(text)).toEqual({ kind: 'died' });
  });
});
