import { expect, it } from 'vitest';
import { Deferred } from '../../../../src/modes/nftables/deferred.ts';

const key = '\u0001';

it('deferred deletions are split so that other changes do not wait long', () => {
  const deferred = new Deferred();
  for (const id of ['a', 'b']) deferred.retire('endpoints-a', id, key, 0, 5000);
  deferred.retire('endpoints-a', 'c', key, 100, 12_000);
  expect(deferred.due()).toEqual([]);
  const due = (): string[] => deferred.due().map(({ id, from, to }) => `${id} ${from}-${to}`);
  expect(due()).toEqual(['a 0-5000', 'b 2000-5000']);
  deferred.retire('endpoints-a', 'd', key, 0, 1);
  expect(due()).toEqual(['b 0-2000', 'c 6000-12000']);
  // What the kernel refused to delete is still there.
  deferred.rollback();
  expect(due()).toEqual(['c 4000-12000']);
  expect(due()).toEqual(['c 100-4000', 'd 0-1', 'b 0-2000']);
  expect(deferred.size).toBe(0);
});
