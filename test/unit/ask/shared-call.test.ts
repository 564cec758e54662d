import { expect, it } from 'vitest';
import { sharedCall } from '../../../src/serve/ask/shared-call.ts';

it('a shared call runs once for concurrent callers, and again for the next one', async () => {
  const finish: ((result: number) => void)[] = [];
  const call = sharedCall(() => new Promise<number>((resolve) => finish.push(resolve)));
  const first = [call(), call()];
  expect(finish).toHaveLength(1);
  finish[0]!(1);
  expect(await Promise.all(first)).toEqual([1, 1]);
  const next = call();
  finish[1]!(2);
  expect(await next).toBe(2);
});

it('a shared call does not keep a failure', async () => {
  let times = 0;
  const call = sharedCall(async () => {
    times += 1;
    if (times === 1) throw new Error('once');
    return times;
  });
  await expect(call()).rejects.toThrow('once');
  expect(await call()).toBe(2);
});
