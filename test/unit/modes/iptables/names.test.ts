import { describe, expect, it } from 'vitest';
import {
  endpointChain,
  isServiceChain,
  serviceChains,
} from '../../../../src/modes/iptables/names.ts';

function port(name: string, service: string) {
  const [namespace, rest] = service.split('/') as [string, string];
  return { namespace, name: rest, port: name, protocol: 'TCP' } as const;
}

describe('names of chains', () => {
  it.for([
    [port('p80', 'ns1/svc1'), 'XPGD46QRK7WJZT7O'],
    [port('p80', 'ns2/svc2'), 'GNZBNJ2PO5MGZ6GT'],
    [port('', 'ns1/svc1'), 'AQI2S6QIMU7PVVRP'],
  ] as const)("of a Service port are kube-proxy's: %o", ([id, hash]) => {
    expect(serviceChains(id)).toEqual({
      cluster: `KUBE-SVC-${hash}`,
      local: `KUBE-SVL-${hash}`,
      external: `KUBE-EXT-${hash}`,
      firewall: `KUBE-FW-${hash}`,
    });
  });

  it.for([
    ['10.180.0.1:80', 'SXIVWICOYRO3J4NJ'],
    ['[fd00::1]:80', 'T5UNFIPVCZXM3U7X'],
  ] as const)('of an endpoint match those of kube-proxy: %s', ([endpoint, hash]) => {
    expect(endpointChain(port('p80', 'ns1/svc1'), endpoint)).toBe(`KUBE-SEP-${hash}`);
  });

  it('are recognised by their hash', () => {
    expect(isServiceChain('KUBE-SVC-XPGD46QRK7WJZT7O')).toBe(true);
    for (const name of ['KUBE-SERVICES', 'KUBE-SEP-A', 'KUBE-HP-XPGD46QRK7WJZT7O']) {
      expect(isServiceChain(name)).toBe(false);
    }
  });
});
