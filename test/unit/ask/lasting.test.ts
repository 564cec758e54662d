import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { lasts, MadeOnce } from '../../../src/ask/lasting.ts';
import type { Cell } from '../../../src/ask/view.ts';
import { keepMs, WhileAsked } from '../../../src/serve/ask/while-asked.ts';

describe('what is made of a value', () => {
  it('is made once for a value that lasts, and for each variant', () => {
    const made = new MadeOnce<{ readonly text: string }>();
    const of = (from: object, variant: string) => made.of(from, variant, () => ({ text: variant }));
    const value = lasts({});
    const first = of(value, 'short');
    expect(of(value, 'short')).toBe(first);
    expect(of(value, 'long')).toEqual({ text: 'long' });
    expect(of(value, 'short')).toEqual(first);
    expect(of(lasts({}), 'short')).not.toBe(first);
  });

  it('has no age in a value that lasts, which would not grow: by type', () => {
    const time = '2026-01-01T00:00:00Z';
    const cells: readonly Cell[] = [{ time, isAge: true }, [{ time, isAge: true }]];
    // @ts-expect-error: a cell may be an age, or have one.
    expect(lasts(cells)).toEqual(cells);
    expect(lasts([{ time }, ['text', { time }]])).toEqual([{ time }, ['text', { time }]]);
  });

  it('is made each time for another value', () => {
    const made = new MadeOnce<object>();
    const value = { count: 1 };
    const before = made.of(value, '', () => ({ ...value }));
    value.count = 2;
    expect([before, made.of(value, '', () => ({ ...value }))]).toEqual([
      { count: 1 },
      { count: 2 },
    ]);
  });
});

it('a value is kept until there was no question for a while', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const kept = new WhileAsked<string>();
  expect(kept.value).toBeUndefined();
  kept.value = 'made';
  for (let i = 0; i < 3; i += 1) {
    vi.advanceTimersByTime(keepMs - 1);
    expect(kept.value).toBe('made');
  }
  vi.advanceTimersByTime(keepMs);
  expect(kept.value).toBeUndefined();
  kept.value = 'again';
  vi.advanceTimersByTime(keepMs - 1);
  expect(kept.value).toBe('again');
  vi.advanceTimersByTime(keepMs);
  expect(vi.getTimerCount()).toBe(0);
});
