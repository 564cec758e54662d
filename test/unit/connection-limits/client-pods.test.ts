/** The names of refused clients' pods. */
import { expect, it, vi } from 'vitest';
import { ClientPods } from '../../../src/connection-limits/refusals.ts';
import type { EndpointSlice } from '../../../src/state/types.ts';
import { FakeLookup } from '../../fake/lookup.ts';
import { ready, slice, slicePort } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';
import { fakeTimeouts } from '../turns.ts';

function world(slices: Readonly<Record<string, readonly EndpointSlice[]>>) {
  const [clock, lookup] = [new ToyClock(), new FakeLookup()];
  const state = {
    serviceKeys: function* () {
      yield* Object.keys(slices);
    },
    slices: (key: string) => slices[key]!,
  };
  return { clock, lookup, pods: new ClientPods({ clock, state, source: { lookup } }) };
}

const ports = [slicePort('', 8080)];
const carts = slice({ '10.244.0.4': ready, '10.244.0.5': ready }, { ports });
const six = slice({ '2001:db8::7': ready }, { ports });

it('are those that EndpointSlices of any Service have, of both families', async () => {
  const { lookup, pods } = world({ 'shop/web': [], 'shop/cart': [carts], 'blog/six': [six] });
  lookup.named.set('shop/cart', new Map([['10.244.0.5', 'cart-7']]));
  lookup.named.set('blog/six', new Map([['2001:db8::7', 'six-0']]));
  await pods.find(['10.244.0.5', '2001:db8::7', '10.244.0.4', '192.0.2.1']);
  expect(pods.of('10.244.0.5')).toBe('shop/cart-7');
  expect(pods.of('2001:db8::7')).toBe('blog/six-0');
  expect(pods.of('10.244.0.4')).toBeUndefined();
  expect(pods.of('192.0.2.1')).toBeUndefined();
});

it('are asked for again after a minute, also where there was no answer', async () => {
  const { clock, lookup, pods } = world({ 'shop/cart': [carts] });
  await pods.find(['10.244.0.5']);
  lookup.named.set('shop/cart', new Map([['10.244.0.5', 'cart-7']]));
  await clock.pass(59_999);
  await pods.find(['10.244.0.5']);
  expect(pods.of('10.244.0.5')).toBeUndefined();
  await clock.pass(1);
  await pods.find(['10.244.0.5']);
  expect(pods.of('10.244.0.5')).toBe('shop/cart-7');
  await clock.pass(60_000);
  await pods.find([]);
  expect(pods.of('10.244.0.5')).toBeUndefined();
});

it('are asked for sixteen clients at a time', async () => {
  const addresses = Array.from({ length: 17 }, (_, i) => `10.244.1.${i}`);
  const all = slice(Object.fromEntries(addresses.map((one) => [one, ready])), { ports });
  const { lookup, pods } = world({ 'shop/cart': [all] });
  lookup.named.set('shop/cart', new Map(addresses.map((one) => [one, `pod-${one}`])));
  await pods.find(addresses);
  expect(addresses.filter((one) => pods.of(one) !== undefined)).toHaveLength(16);
});

it('are not waited for longer than half a second', async () => {
  fakeTimeouts();
  const { lookup, pods } = world({ 'shop/cart': [carts] });
  lookup.podsOf = (...[, , signal]: Parameters<typeof lookup.podsOf>) =>
    new Promise((_, reject) => signal.addEventListener('abort', reject));
  let isOver = false;
  const found = pods.find(['10.244.0.5']).then(() => {
    isOver = true;
  });
  await vi.advanceTimersByTimeAsync(499);
  expect(isOver).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  await found;
  expect(pods.of('10.244.0.5')).toBeUndefined();
});
