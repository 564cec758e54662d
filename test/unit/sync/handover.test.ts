import { expect, it } from 'vitest';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { yieldRefused } from '../../../src/sync/handover.ts';
import { Tracked } from '../../../src/sync/tracked.ts';
import { noPause } from '../../../src/time/pacer.ts';
import { context, service } from '../state/build.ts';

const [web] = resolve(service({ name: 'web' }), [], context) as [Forwarding];
const [db] = resolve(service({ name: 'db' }), [], context) as [Forwarding];

it('what is refused keeps its old form without the frontends that others have', async () => {
  const [frontend] = web.frontends as [Forwarding['frontends'][0]];
  const at = (...ports: number[]) => ports.map((port) => ({ ...frontend, port }));
  const newRecord = (key: string) => new Tracked('IPv4', key);
  const [refused, other, twice] = [newRecord(web.key), newRecord(db.key), newRecord('twice')];
  const targets = new Map<Tracked, Forwarding>([
    [refused, { ...web, frontends: at(80, 81, 82) }],
    [other, { ...db, frontends: at(81, 90) }],
    [twice, { ...web, key: 'twice', frontends: at(82, 83) }],
  ]);
  await yieldRefused(targets, [refused, twice, newRecord('not desired')], noPause);
  const ports = [...targets.values()].map(({ frontends }) => frontends.map(({ port }) => port));
  expect(ports).toEqual([[80, 82], [81, 90], [83]]);
});
