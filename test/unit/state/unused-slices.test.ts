import { expect, it } from 'vitest';
import { UnusedSlices } from '../../../src/state/unused-slices.ts';

function slice(namespace: string, number: number) {
  return { key: `${namespace}/s-${number}`, service: `${namespace}/web`, because: 'it is FQDN' };
}

it('keeps a bounded number of unusable slices of a namespace, and those of others', () => {
  const slices = new UnusedSlices();
  const kept = Array.from({ length: 5000 }, (_, i) => slices.set(slice('tenant', i)));
  expect(kept.filter((services) => services.length > 0)).toHaveLength(100);
  expect(slices.set(slice('shop', 1))).toEqual(['shop/web']);
  expect(slices.of('shop/web')).toEqual([slice('shop', 1)]);

  expect(slices.delete('tenant/s-7')).toBe('tenant/web');
  expect(slices.set(slice('tenant', 6000))).toEqual(['tenant/web']);
  expect(slices.set(slice('tenant', 6001))).toEqual([]);
});

it('keeps a bounded number of unusable slices of all namespaces', () => {
  const slices = new UnusedSlices();
  const kept = Array.from({ length: 5000 }, (_, i) => slices.set(slice(`tenant-${i % 50}`, i)));
  expect(kept.filter((services) => services.length > 0)).toHaveLength(1000);
});
