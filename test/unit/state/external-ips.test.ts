import { describe, expect, it } from 'vitest';
import { formatFrontend } from '../../../src/state/conflict.ts';
import {
  type ExternalIPRules,
  externalIPNotices,
  formatExternalIPNotice,
} from '../../../src/state/external-ips.ts';
import { keysOf, type NodeSockets, noSockets } from '../../../src/state/node-sockets.ts';
import { address, cidr, resolveOne, service } from './build.ts';

const web = service({ namespace: 'shop', externalIPs: ['203.0.113.1', '192.168.0.1'] });
const allowed: ExternalIPRules = { cidrs: [cidr('203.0.113.0/24')], namespaces: ['shop'] };
const sockets: NodeSockets = { ...noSockets, addresses: keysOf([address('192.168.0.1')]) };

function served(rules: ExternalIPRules | undefined): string[] {
  const { frontends } = resolveOne(web, [], rules && { externalIPRules: rules });
  return frontends.map((frontend) => formatFrontend('TCP', frontend));
}

function notices(rules: ExternalIPRules | undefined, at: NodeSockets = sockets): string[] {
  return externalIPNotices(web, rules, at).map(formatExternalIPNotice);
}

describe('external IPs', () => {
  it('are all served without rules, as by kube-proxy', () => {
    const all = ['TCP 10.96.0.1:80', 'TCP 203.0.113.1:80', 'TCP 192.168.0.1:80'];
    expect(served(undefined)).toEqual(all);
    expect(served({ cidrs: [], namespaces: [] })).toEqual(all);
  });

  it('are served in the configured blocks only', () => {
    expect(served(allowed)).toEqual(['TCP 10.96.0.1:80', 'TCP 203.0.113.1:80']);
    expect(served({ ...allowed, cidrs: [cidr('::/0')] })).toEqual(['TCP 10.96.0.1:80']);
    expect(notices(allowed)).toEqual([
      'external IP 192.168.0.1 is not served: no block of --external-ip-cidrs holds it',
    ]);
  });

  it('are not served if they are other machines, whatever blocks are configured', () => {
    const rules = { ...allowed, machines: keysOf([address('203.0.113.1')]) };
    expect(served(rules)).toEqual(['TCP 10.96.0.1:80']);
    expect(notices({ ...rules, cidrs: [] })[0]).toBe(
      'external IP 203.0.113.1 is not served: it is another machine, which this node could not hear any more',
    );
  });

  it('are reported only if they are addresses of the node', () => {
    const [notice, ...others] = notices(undefined);
    expect(notice).toMatch(/^external IP 192\.168\.0\.1 is an address of this node: /);
    expect(others).toEqual([]);
    expect(notices(undefined, noSockets)).toEqual([]);
  });
});
