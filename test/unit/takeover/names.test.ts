import { describe, expect, it } from 'vitest';
import {
  type IptablesTable,
  isIPVSChain,
  isIptablesChain,
  isKubeProxyJump,
} from '../../../src/takeover/names.ts';

function isKubeProxyChain(table: IptablesTable, chain: string): boolean {
  return isIptablesChain(table, chain) || isIPVSChain(table, chain);
}

describe('a chain by its name', () => {
  it.each([
    ['nat', 'KUBE-SERVICES'],
    ['nat', 'KUBE-SVC-XPGD46QRK7WJZT7O'],
    ['nat', 'KUBE-SEP-SXIVWICOYRO3J4NJ'],
    ['nat', 'KUBE-EXT-GNZBNJ2PO5MGZ6GT'],
    ['filter', 'KUBE-PROXY-FIREWALL'],
    ['filter', 'KUBE-IPVS-FILTER'],
    ['mangle', 'KUBE-PROXY-CANARY'],
  ] as const)("of table %s named %s is kube-proxy's", (table, chain) => {
    expect(isKubeProxyChain(table, chain)).toBe(true);
  });

  it.each([
    ['filter', 'KUBE-FIREWALL'],
    ['nat', 'KUBE-KUBELET-CANARY'],
    ['mangle', 'KUBE-IPTABLES-HINT'],
    ['nat', 'KUBE-HOSTPORTS'],
    ['nat', 'KUBE-HP-XPGD46QRK7WJZT7O'],
    ['nat', 'KUBE-MARK-DROP'],
    ['filter', 'KUBE-SVC-XPGD46QRK7WJZT7O'],
    ['nat', 'KUBE-SVC-MINE'],
    ['nat', 'KUBE-SVC-xpgd46qrk7wjzt7o'],
    ['nat', 'KUBE-ROUTER-SERVICES'],
    ['filter', 'cali-INPUT'],
    ['nat', 'DOCKER'],
    ['mangle', 'KUBE-SERVICES'],
  ] as const)("of table %s named %s is another program's", (table, chain) => {
    expect(isKubeProxyChain(table, chain)).toBe(false);
  });
});

describe('the chains that only the ipvs mode has', () => {
  it.each([
    ['nat', 'KUBE-NODE-PORT'],
    ['nat', 'KUBE-LOAD-BALANCER'],
    ['filter', 'KUBE-NODE-PORT'],
    ['filter', 'KUBE-SOURCE-RANGES-FIREWALL'],
    ['filter', 'KUBE-IPVS-FILTER'],
    ['filter', 'KUBE-IPVS-OUT-FILTER'],
  ] as const)('include %s: %s', (table, chain) => {
    expect([isIPVSChain(table, chain), isIptablesChain(table, chain)]).toEqual([true, false]);
  });

  it.each(['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-SVC-XPGD46QRK7WJZT7O'])(
    'do not include %s, which our iptables mode has, too',
    (chain) => {
      expect([isIPVSChain('nat', chain), isIptablesChain('nat', chain)]).toEqual([false, true]);
    },
  );
});

describe('a jump', () => {
  it('is recognised by table, built-in chain and target', () => {
    expect(isKubeProxyJump('nat', 'PREROUTING', 'KUBE-SERVICES')).toBe(true);
    expect(isKubeProxyJump('filter', 'FORWARD', 'KUBE-FORWARD')).toBe(true);
    expect(isKubeProxyJump('filter', 'INPUT', 'KUBE-IPVS-FILTER')).toBe(true);
    expect(isKubeProxyJump('nat', 'POSTROUTING', 'KUBE-SERVICES')).toBe(false);
    expect(isKubeProxyJump('nat', 'PREROUTING', 'KUBE-MARK-MASQ')).toBe(false);
    expect(isKubeProxyJump('filter', 'INPUT', 'KUBE-FIREWALL')).toBe(false);
    expect(isKubeProxyJump('nat', 'MY-CHAIN', 'KUBE-SERVICES')).toBe(false);
    expect(isKubeProxyJump('mangle', 'PREROUTING', 'KUBE-SERVICES')).toBe(false);
  });
});
