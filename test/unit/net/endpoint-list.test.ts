import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addressBytes, type Family } from '../../../src/net/address.ts';
import { EndpointList } from '../../../src/net/endpoint-list.ts';
import { address } from '../state/build.ts';

function list(family: Family, ...endpoints: [string, number][]): EndpointList {
  return EndpointList.of(
    family,
    endpoints.map(([text, port]) => ({ address: address(text).bytes, port })),
  );
}

describe('EndpointList', () => {
  it('packs address and port in network order, as nf_tables requires', () => {
    const v4 = list('IPv4', ['10.0.0.1', 0x1f90]);
    expect([...v4.bytes()]).toEqual([10, 0, 0, 1, 0x1f, 0x90, 0, 0]);
    const v6 = list('IPv6', ['fd00::1', 443]);
    expect([...v6.bytes()]).toEqual([0xfd, 0, ...Array(13).fill(0), 1, 1, 0xbb, 0, 0]);
  });

  it('prints endpoints in the usual notation', () => {
    expect(list('IPv4', ['10.0.0.1', 80], ['10.0.0.2', 65535]).texts()).toEqual([
      '10.0.0.1:80',
      '10.0.0.2:65535',
    ]);
    expect(list('IPv6', ['fd00::1', 80]).texts()).toEqual(['[fd00::1]:80']);
  });

  it('equals a list of the same endpoints in the same order, and no other', () => {
    const one = list('IPv4', ['10.0.0.1', 80], ['10.0.0.2', 80]);
    expect(one.equals(list('IPv4', ['10.0.0.1', 80], ['10.0.0.2', 80]))).toBe(true);
    expect(one.equals(list('IPv4', ['10.0.0.2', 80], ['10.0.0.1', 80]))).toBe(false);
    expect(one.equals(list('IPv4', ['10.0.0.1', 80], ['10.0.0.2', 81]))).toBe(false);
    expect(one.equals(list('IPv4', ['10.0.0.1', 80]))).toBe(false);
    expect(EndpointList.empty.IPv4.equals(EndpointList.empty.IPv6)).toBe(false);
  });

  it('returns the original endpoints, whose keys are equal exactly if they are', () => {
    const families = fc.constantFrom<Family>('IPv4', 'IPv6');
    const lists = families.chain((family) => {
      // Two values for each byte: equal endpoints come up often.
      const octet = fc.constantFrom(0, 255);
      const width = addressBytes[family];
      const endpoint = fc.record({
        address: fc
          .array(octet, { minLength: width, maxLength: width })
          .map((b) => Uint8Array.from(b)),
        port: fc.constantFrom(1, 255, 256, 65535),
      });
      return fc.record({ family: fc.constant(family), endpoints: fc.array(endpoint) });
    });
    fc.assert(
      fc.property(lists, ({ family, endpoints }) => {
        const packed = EndpointList.of(family, endpoints);
        expect(packed.length).toBe(endpoints.length);
        endpoints.forEach((endpoint, i) => {
          expect(packed.address(i)).toEqual(endpoint.address);
          expect(packed.port(i)).toBe(endpoint.port);
          for (let j = 0; j < i; j += 1) {
            const same = packed.text(i) === packed.text(j);
            expect(packed.key(i) === packed.key(j)).toBe(same);
            expect(packed.sameAt(i, packed, j)).toBe(same);
          }
        });
      }),
    );
  });
});
