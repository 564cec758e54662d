import { expect, it } from 'vitest';
import { Deferred } from '../../../../src/modes/nftables/deferred.ts';

const key = '\u0001';

it('deferred deletions are split so that other changes do not wait long', () => {
  const deferred = new Deferred();
  for (const id of ['a', 'b', 'c', 'd']) deferred.retire('endpoints-a', id, key, 0, 10_000);
  expect(deferred.due()).toEqual([]);
  const ids = (): string[] => deferred.due().map(({ id }) => id);
  expect(ids()).toEqual(['a', 'b']);
  deferred.retire('endpoints-a', 'e', key, 0, 1);
  expect(ids()).toEqual(['c', 'd']);
  expect(ids()).toEqual(['e']);
  expect(deferred.size).toBe(0);
});
