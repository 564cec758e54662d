import { describe, expect, it } from 'vitest';
import { parseAddress } from '../../../src/net/address.ts';
import { EndpointList } from '../../../src/net/endpoint-list.ts';
import { frontendKey, isNodePortKey } from '../../../src/state/frontend-key.ts';
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
