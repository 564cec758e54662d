import { expect, it } from 'vitest';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { map } from '../../../../src/modes/nft-table/parts.ts';
import { AffinityKeeper } from '../../../../src/modes/nftables/affinity.ts';
import { memoryName } from '../../../../src/modes/nftables/affinity-objects.ts';
import type { FrontendElements } from '../../../../src/modes/nftables/frontends.ts';
import { EndpointList } from '../../../../src/net/endpoint-list.ts';

/** A frontend with session affinity that an earlier process has left. */
function frontend(namespace: string, port: string): FrontendElements {
  const servicePort = { namespace, name: 'web', port, protocol: 'TCP' } as const;
  const name = memoryName(servicePort, 'cluster');
  const definition = map(name, ['ipv4_addr'], ['ipv4_addr', 'inet_service'], '');
  const memories = [{ set: { definition, elements: undefined }, pool: EndpointList.empty.IPv4 }];
  return { id: name, affinity: { memories } } as unknown as FrontendElements;
}

it('a namespace with very many maps of clients does not keep those of others waiting', async () => {
  const keeper = new AffinityKeeper('IPv4', 'fairlead');
  for (let i = 0; i < 2000; i += 1) keeper.resume(frontend('tenant', `p${i}`));
  keeper.resume(frontend('shop', 'http'));
  const read: string[] = [];
  const kernel: Pick<Kernel, 'dump'> = {
    dump: async (request) => {
      if ('set' in request) read.push(String(request.set));
      return { records: [], consistent: true };
    },
  };
  await keeper.stale(kernel as Kernel);
  expect(read).toHaveLength(512);
  expect(read.slice(0, 3)).toContain('affinity-shop/web/tcp/http');
});

it('empty maps of clients are not read, and of full ones four MiB for one batch', async () => {
  const keeper = new AffinityKeeper('IPv4', 'fairlead');
  for (let i = 0; i < 9; i += 1) keeper.resume(frontend('ns', `p${i}`));
  const read: string[] = [];
  const table = { kind: 'table', table: 'fairlead' };
  const kernel = {
    dump: async ({ set }: { set?: string }) => {
      const name = (i: number) => `affinity-ns/web/tcp/p${i}`;
      if (set === undefined) {
        const sets = [0, 7].map((count, i) => ({ kind: 'set', set: name(i), count }));
        return { records: [table, ...sets], consistent: true };
      }
      read.push(set.replace(name(0).slice(0, -1), ''));
      // Of 4 bytes for a client, and 6 for its endpoint.
      const entries = new Uint8Array(1024 * 1024);
      return { records: [{ kind: 'elements', entries }], consistent: true };
    },
  };
  await keeper.stale(kernel as unknown as Kernel);
  expect(read).toEqual(['1', '2', '3', '4']);
  expect(keeper.due).toBe(true);
});
