import { expect, it } from 'vitest';
import { type Family, families } from '../../../src/net/address.ts';
import type { EndpointKey } from '../../../src/net/endpoint-list.ts';
import { EndpointList, endpointBytes } from '../../../src/net/endpoint-list.ts';
import { usedMiB } from '../../used-memory.ts';

/** A list that differs from those of other rounds, as a pool does whose endpoints change. */
function listOf(family: Family, round: number): EndpointList {
  const bytes = new Uint8Array(endpointBytes[family] * 40_000);
  bytes[3] = round;
  return EndpointList.from(family, bytes);
}

it.each(families)('keys of %s endpoints do not keep their lists in memory', (family) => {
  const beforeMiB = usedMiB();
  const kept: EndpointKey[] = [];
  for (let round = 0; round < 100; round += 1) kept.push(listOf(family, round).key(0));
  // When keys were views of their lists, it was 76 MiB for IPv6.
  expect(usedMiB() - beforeMiB).toBeLessThan(20);
  expect(new Set(kept).size).toBe(100);
});
