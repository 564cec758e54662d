import { expect, it } from 'vitest';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { PlannedChanges } from '../../../src/sync/planned-changes.ts';
import { Tracked } from '../../../src/sync/tracked.ts';
import { context, service } from '../state/build.ts';

const [web] = resolve(service({ name: 'web' }), [], context) as [Forwarding];
const [db] = resolve(service({ name: 'db' }), [], context) as [Forwarding];

function cause(receivedMs: number, ...triggerTimesMs: number[]) {
  return { receivedMs, resolvedMs: receivedMs, triggerTimesMs };
}

it('a Forwarding that changes twice in a batch changes once, at the end, for both causes', () => {
  const changes = new PlannedChanges();
  const [first, second] = [new Tracked(web.key), new Tracked(db.key)];
  changes.add(first, undefined, cause(1, 10));
  changes.add(second, db, cause(2));
  changes.add(first, web, cause(3, 30));
  expect(changes.size).toBe(2);
  expect([...changes]).toEqual([
    { record: second, next: db, cause: cause(2) },
    { record: first, next: web, cause: cause(1, 10, 30) },
  ]);
});

it('a Forwarding may be in two batches', () => {
  const [first, second] = [new PlannedChanges(), new PlannedChanges()];
  const [one, other] = [new Tracked(web.key), new Tracked(db.key)];
  first.add(other, db, undefined);
  first.add(one, web, undefined);
  second.add(other, undefined, undefined);
  second.add(one, undefined, undefined);
  expect(Array.from(first, ({ next }) => next)).toEqual([db, web]);
  expect(Array.from(second, ({ next }) => next)).toEqual([undefined, undefined]);
});
