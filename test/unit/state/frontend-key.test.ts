import { describe, expect, it } from 'vitest';
import { families, parseAddress } from '../../../src/net/address.ts';
import { EndpointList } from '../../../src/net/endpoint-list.ts';
import { protocols } from '../../../src/net/protocol.ts';
import {
  claimKey,
  familyOf,
  frontendKey,
  isNodePortKey,
  nodePortClaim,
} from '../../../src/state/frontend-key.ts';
import { allPaths } from '../../../src/state/paths.ts';
import type { Frontend } from '../../../src/state/types.ts';

function frontend(address: string | undefined, port: number): Frontend {
  const kind = address === undefined ? 'nodePort' : 'clusterIP';
  const parsed = address === undefined ? undefined : parseAddress(address)!;
  return { kind, address: parsed, port, paths: allPaths.inside };
}

describe('frontendKey', () => {
  it.each(['10.96.0.1', '255.255.255.255', 'fd00::1'])('equals that of the endpoint %s', (text) => {
    const { family, bytes } = parseAddress(text)!;
    const list = EndpointList.of(family, [{ address: bytes, port: 65_535 }]);
    expect(frontendKey(frontend(text, 65_535))).toBe(list.key(0));
  });

  it('distinguishes a node port from every address', () => {
    expect(isNodePortKey(frontendKey(frontend(undefined, 1)))).toBe(true);
    expect(isNodePortKey(frontendKey(frontend('0.0.0.0', 1)))).toBe(false);
    expect(isNodePortKey(frontendKey(frontend('::', 1)))).toBe(false);
  });
});

describe('claimKey', () => {
  /** Its first bytes are the text `IPv4 TCP`. */
  const textual = '4950:7634:2054:4350:202d:3100::';

  it('distinguishes frontends by family, protocol, address and port', () => {
    const addresses = [undefined, '10.96.0.1', '10.96.0.2', 'fd00::1', 'fd00::2', textual];
    const keys = new Map<unknown, string>();
    for (const address of addresses) {
      const [own] = address === undefined ? [] : [parseAddress(address)!.family];
      for (const family of families.filter((one) => one === (own ?? one))) {
        for (const protocol of protocols) {
          for (const port of [1, 256, 65_535]) {
            const key = claimKey(family, protocol, frontend(address, port));
            expect(familyOf(key)).toBe(family);
            keys.set(key, `${family} ${protocol} ${address} ${port}`);
          }
        }
      }
    }
    expect(new Set(keys.values()).size).toBe(7 * 3 * 3);
    expect(keys.size).toBe(7 * 3 * 3);
    expect(claimKey('IPv6', 'UDP', frontend(undefined, 80))).toBe(nodePortClaim('IPv6', 'UDP', 80));
  });
});
