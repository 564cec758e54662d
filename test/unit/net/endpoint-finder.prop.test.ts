import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Family } from '../../../src/net/address.ts';
import { EndpointFinder } from '../../../src/net/endpoint-finder.ts';
import { EndpointList, endpointBytes } from '../../../src/net/endpoint-list.ts';

/** The last bytes distinguish endpoints, as in one subnet. */
function listOf(family: Family, ids: readonly number[]): EndpointList {
  const stride = endpointBytes[family];
  const bytes = new Uint8Array(ids.length * stride);
  ids.forEach((id, i) => {
    bytes[i * stride + stride - 5] = id;
  });
  return EndpointList.from(family, bytes);
}

const family = fc.constantFrom<Family>('IPv4', 'IPv6');
const ids = fc.uniqueArray(fc.nat(60), { maxLength: 40 });

it('the endpoint finder finds the endpoints of the list in any order of questions', () => {
  const asked = fc.array(fc.nat(60), { maxLength: 120 });
  fc.assert(
    fc.property(family, ids, asked, (family, has, asked) => {
      const finder = new EndpointFinder(listOf(family, has));
      const other = listOf(family, asked);
      const found = asked.map((_, i) => finder.indexOf(other, i));
      expect(found).toEqual(asked.map((id) => has.indexOf(id)));
      const isThere = asked.map((_, i) => finder.has(other.key(i)));
      expect(isThere).toEqual(asked.map((id) => has.includes(id)));
      // From now on it has an index.
      expect(asked.map((_, i) => finder.indexOf(other, i))).toEqual(found);
    }),
    { numRuns: 500 },
  );
});

it('two lists differ at the indexes that are named', () => {
  fc.assert(
    fc.property(family, ids, fc.array(fc.nat(60)), fc.nat(40), (family, has, other, from) => {
      const all = [...has.slice(0, from), ...other];
      const named = listOf(family, has).changedAt(listOf(family, all));
      expect(named).toEqual([...has.keys()].filter((i) => has[i] !== all[i]));
    }),
    { numRuns: 500 },
  );
});

it('the endpoint finder finds nothing in an empty list', () => {
  const finder = new EndpointFinder(EndpointList.empty.IPv4);
  const other = listOf('IPv4', [1, 2]);
  expect([0, 1, 0, 1].map((index) => finder.indexOf(other, index))).toEqual([-1, -1, -1, -1]);
});
