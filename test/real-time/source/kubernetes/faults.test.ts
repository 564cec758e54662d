import { describe, expect, it } from 'vitest';
import { resources } from '../../../../src/state/change.ts';
import { disturbances } from '../../../fake/api-server-watch.ts';
import { until } from '../../until.ts';
import {
  blind,
  change,
  faults,
  hasty,
  impatient,
  isGone,
  startCluster,
  startSource,
} from './setup.ts';

describe('KubernetesSource with a server that misbehaves', () => {
  it.each(disturbances)('loses no event when running watches are disturbed: %s', async (what) => {
    const server = await startCluster();
    // A busy machine may be silent for as long as a dead server: lists are counted below.
    const timing = what === 'stall' ? impatient : hasty;
    const { sink, converged } = startSource(server, { timing });
    await converged();
    for (const resource of resources) {
      await until('watching', () => server.disturb(resource, what) === 1);
    }
    for (let i = 0; i < 10; i += 1) change(server, i);
    server.store.delete('services', 'shop/s11');
    server.store.delete('endpointslices', 'shop/s11-1');
    await converged();
    change(server, 12);
    await converged();
    expect(sink.changes.filter(isGone)).toHaveLength(2);
    expect([...sink.syncedResources].sort()).toEqual([...resources].sort());
    const lists = ['expired', 'failed', 'garbage'].includes(what) ? 2 : 1;
    expect(server.count('endpointslices', 'streaming-list')).toBe(lists);
  });

  describe.each([
    ['streaming lists', 'supported'],
    ['pages', 'refused'],
  ] as const)('with %s', (_how, streamingLists) => {
    it.each(faults)('converges when a server %s, first and again', async (_what, fault) => {
      const server = await startCluster(20, { streamingLists });
      server.fault({ fault, times: fault.kind === 'stall' ? 4 : 12 });
      const { sink, converged } = startSource(server, { timing: impatient });
      await converged();
      for (const resource of resources) server.fault({ resource, fault, times: 2 });
      for (const resource of resources) server.disturb(resource, 'drop');
      change(server, 3);
      server.store.delete('services', 'shop/s11');
      await converged();
      change(server, 4);
      await converged();
      expect(sink.changes.filter(isGone)).toHaveLength(1);
      // As many as there were faults, one that worked at the start, and one in the place of each
      // watch that could not be gone on with.
      for (const resource of resources) {
        const lists = server.count(resource, 'streaming-list') + server.count(resource, 'list');
        expect(lists).toBeLessThanOrEqual(12 + 1 + 2 + 2);
      }
    });

    it.each(['cut', 'end'] as const)('deletes nothing on half a list: %s', async (how) => {
      const server = await startCluster(20, { streamingLists });
      const { sink, converged } = startSource(server, { timing: impatient });
      await converged();
      const listings = ['streaming-list', 'list', 'page'] as const;
      for (const verb of listings) {
        server.fault({ resource: 'services', verb, fault: { kind: how }, times: 1000 });
      }
      blind(server, 'services');
      for (let i = 0; i < 5; i += 1) server.store.delete('services', `shop/s${i}`);
      server.store.compact();
      server.disturb('services', 'drop');
      const listed = (): number =>
        listings.reduce((sum, verb) => sum + server.count('services', verb), 0);
      const before = listed();
      await until('cut', () => listed() > before + 4);
      expect(sink.changes.filter(isGone)).toEqual([]);
      server.heal();
      await converged();
      expect(sink.changes.filter(isGone)).toHaveLength(5);
    });
  });
});
