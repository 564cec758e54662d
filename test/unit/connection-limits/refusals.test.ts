/** Clients that the kernel has counted as refused. */
import { expect, it } from 'vitest';
import { Refusals } from '../../../src/connection-limits/refusals.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { FrontendsInForce } from '../../../src/state/frontends-in-force.ts';
import { FakeLookup } from '../../fake/lookup.ts';
import { ready, resolveOne, service, slice, slicePort } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';

/** Of 10.96.0.1:80/TCP and a client, with the number of its refused packets. */
function element(host: number, count: number, port = 80): number[] {
  const key = [10, 96, 0, 1, 6, 0, 0, 0, 0, port, 0, 0, 10, 244, 0, host];
  return [...key, count, 0, 0, 0, 0, 0, 0, 0];
}

it('are named by Service, the worst first, and counted by frontend, as read once a second', async () => {
  let entries: number[][] = [];
  const kernel = {
    dump: async ({ set }: { readonly set: string }) => {
      const held = set === 'max_connections-ipv4' ? entries.flat() : [];
      return { records: [{ kind: 'elements', keyLength: 16, entries: Uint8Array.from(held) }] };
    },
  } as unknown as Kernel;
  const web = resolveOne(service({ namespace: 'default' }), []);
  const inForce = new FrontendsInForce('IPv4');
  inForce.changed(undefined, web);
  const [clock, lookup, changed] = [new ToyClock(), new FakeLookup(), [] as string[]];
  lookup.named.set('default/cart', new Map([['10.244.0.5', 'cart-7']]));
  const carts = slice({ '10.244.0.5': ready }, { ports: [slicePort('', 8080)] });
  const state = { serviceKeys: () => ['default/cart'].values(), slices: () => [carts] };
  const agent = { engine: { frontends: { IPv4: inForce } } };
  const problems = { resolved: (key: string) => void changed.push(key) };
  const options = { agent, clock, kernel, problems, source: { lookup }, state } as const;
  const refusals = new Refusals(options as never, () => ['max_connections']);
  const read = async (...now: number[][]) => {
    entries = now;
    await refusals.refresh();
    const clients = refusals.of('default/web').map((one) => [one.client, one.packets, one.pod]);
    return [clients, refusals.counts('IPv4').map(({ count }) => count)];
  };

  const [pod, other] = ['default/cart-7', undefined];
  const first = [
    [
      ['10.244.0.5', 3, pod],
      ['10.244.0.6', 1, other],
    ],
    [4],
  ]; // prettier-ignore
  expect(await read(element(5, 3), element(6, 1), element(5, 9, 81))).toEqual(first);
  await clock.pass(999);
  expect(await read(element(5, 5))).toEqual(first);
  expect(changed).toEqual(['default/web']);
  await clock.pass(1);
  expect(await read(element(5, 5))).toEqual([[['10.244.0.5', 5, pod]], [6]]);
  // It was forgotten in the meantime, and refused again.
  await clock.pass(1000);
  expect(await read(element(5, 2))).toEqual([[['10.244.0.5', 2, pod]], [8]]);
  await clock.pass(1000);
  expect(await read(element(5, 2))).toEqual([[['10.244.0.5', 2, pod]], [8]]);
  expect(changed).toHaveLength(3);
  inForce.changed(web, undefined);
  await clock.pass(1000);
  expect(await read(element(5, 2))).toEqual([[], []]);
  expect(refusals.counts('IPv6')).toEqual([]);
});
