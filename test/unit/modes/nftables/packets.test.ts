import { describe, expect, it } from 'vitest';
import { http, ready, readyLocal, service } from '../../state/build.ts';
import { at, endpoints, everyKind, nodeAddress, type Sender, Stage, senders } from './stage.ts';

const families = ['IPv4', 'IPv6'] as const;

const clusterIP = '10.96.0.1 80';
const externalIP = '198.51.100.1 80';
const loadBalancerIP = '198.51.100.2 80';
const nodePort = `${nodeAddress} 30080`;
const everything = [clusterIP, externalIP, loadBalancerIP, nodePort];

const here = '10.244.0.5';
const away = '10.244.1.6';
const both = { [away]: ready, [here]: readyLocal };

describe.for(families)('nftables mode, %s', (family) => {
  const list = (some: Parameters<typeof endpoints>[1]) => endpoints(family, some);

  it('sends each random number to a different endpoint', async () => {
    const stage = await new Stage({ family }).play([everyKind(family), list(both)]);
    for (const to of everything) {
      const ends = [0, 1].map((random) => stage.send('outside', to, { random }).to);
      expect(new Set(ends).size).toBe(2);
      expect(stage.send('outside', to, { random: 2 }).to).toBe(ends[0]);
    }
  });

  describe('masquerades as in the matrix of 5.5', () => {
    const matrix = [
      ['pod', { clusterIP: '', external: ' masqueraded', externalLocal: '' }],
      [
        'node',
        { clusterIP: ' masqueraded', external: ' masqueraded', externalLocal: ' masqueraded' },
      ],
      ['outside', { clusterIP: ' masqueraded', external: ' masqueraded', externalLocal: '' }],
    ] as const satisfies readonly [Sender, Record<string, string>][];
    it.for(matrix)('%s', async ([sender, expected]) => {
      const stage = new Stage({ family });
      await stage.play([everyKind(family), list({ [away]: ready })]);
      expect(stage.outcome(sender, clusterIP)).toBe(`${away}${expected.clusterIP}`);
      for (const to of [externalIP, loadBalancerIP, nodePort]) {
        expect(stage.outcome(sender, to)).toBe(`${away}${expected.external}`);
      }
      await stage.play([everyKind(family, { externalTrafficPolicy: 'Local' }), list(both)]);
      for (const to of [externalIP, loadBalancerIP, nodePort]) {
        const ends = [0, 1].map((random) => stage.outcome(sender, to, { random }));
        const pools = sender === 'outside' ? [here, here] : [here, away];
        expect(ends.sort()).toEqual(pools.map((end) => `${end}${expected.externalLocal}`));
      }
    });
  });

  it('masquerades no client of ClusterIPs if it cannot recognise pods', async () => {
    const stage = new Stage({ family, localDetector: { kind: 'none' } });
    await stage.play([everyKind(family, { externalTrafficPolicy: 'Local' }), list(both)]);
    expect(stage.outcome('outside', clusterIP)).not.toContain('masqueraded');
    for (const random of [0, 1]) expect(stage.outcome('pod', nodePort, { random })).toBe(here);
  });

  it.for([
    ['bridge', { kind: 'bridge', name: 'veth9' }],
    ['interface prefix', { kind: 'interface-prefix', prefix: 'veth' }],
  ] as const)('recognises pods by their %s', async ([, localDetector]) => {
    const stage = new Stage({ family, localDetector });
    await stage.play([everyKind(family), list({ [away]: ready })]);
    expect(stage.outcome('pod', clusterIP)).toBe(away);
    expect(stage.outcome('outside', clusterIP)).toBe(`${away} masqueraded`);
  });

  it('masquerades all clients of ClusterIPs if configured', async () => {
    const stage = new Stage({ family, masqueradeAll: true });
    await stage.play([everyKind(family), list({ [away]: ready })]);
    expect(stage.outcome('pod', clusterIP)).toBe(`${away} masqueraded`);
  });

  it('takes the mark off a packet that it masquerades', async () => {
    const stage = await new Stage({ family }).play([everyKind(family), list(both)]);
    expect(stage.send('outside', clusterIP)).toMatchObject({ masqueraded: true, mark: 0 });
  });

  it('masquerades an endpoint that connects to itself, and no other', async () => {
    const stage = await new Stage({ family }).play([
      everyKind(family),
      list({ [here]: readyLocal }),
    ]);
    expect(stage.outcome('pod', clusterIP, { saddr: here })).toBe(`${here} masqueraded`);
    expect(stage.outcome('pod', clusterIP)).toBe(here);
  });

  it('rejects connections to a Service without endpoints', async () => {
    const stage = await new Stage({ family }).play([everyKind(family)]);
    for (const sender of ['pod', 'outside'] as const) {
      for (const to of everything) expect(stage.outcome(sender, to)).toBe('reject');
    }
    for (const to of [clusterIP, externalIP, loadBalancerIP]) {
      expect(stage.outcome('node', to)).toBe('reject');
    }
  });

  it('drops traffic of policy Local without endpoints, except from the node and its pods', async () => {
    const stage = new Stage({ family });
    const policies = {
      internalTrafficPolicy: 'Local',
      externalTrafficPolicy: 'Local',
    } as const;
    await stage.play([everyKind(family, policies), list({ [away]: ready })]);
    for (const sender of ['pod', 'node', 'outside'] as const) {
      expect(stage.outcome(sender, clusterIP)).toBe('drop');
    }
    for (const to of [externalIP, loadBalancerIP, nodePort]) {
      expect(stage.outcome('outside', to)).toBe('drop');
      expect(stage.outcome('pod', to)).toBe(away);
      expect(stage.outcome('node', to)).toBe(`${away} masqueraded`);
    }
  });

  it('keeps internal traffic on the node if the policy requires it', async () => {
    const stage = new Stage({ family });
    await stage.play([everyKind(family, { internalTrafficPolicy: 'Local' }), list(both)]);
    for (const random of [0, 1, 2]) expect(stage.outcome('pod', clusterIP, { random })).toBe(here);
    const ends = [0, 1].map((random) => stage.outcome('pod', externalIP, { random }));
    expect(ends.sort()).toEqual([`${here} masqueraded`, `${away} masqueraded`]);
  });

  describe('with source ranges', () => {
    const loadBalancerSourceRanges = ['192.0.0.0/8'];
    it('drops other clients of load-balancer addresses, pods too, and only there', async () => {
      const stage = new Stage({ family });
      await stage.play([everyKind(family, { loadBalancerSourceRanges }), list(both)]);
      const inside = { saddr: '192.0.2.9' };
      expect(stage.outcome('outside', loadBalancerIP)).toBe('drop');
      expect(stage.outcome('pod', loadBalancerIP)).toBe('drop');
      expect(stage.outcome('outside', loadBalancerIP, inside)).toContain('masqueraded');
      for (const to of [clusterIP, externalIP, nodePort]) {
        expect(stage.outcome('outside', to)).toContain('masqueraded');
      }
    });

    it('treats load-balancer addresses as clients if the node is in the ranges', async () => {
      const stage = new Stage({ family });
      const itself = { saddr: '198.51.100.2' };
      await stage.play([everyKind(family, { loadBalancerSourceRanges }), list(both)]);
      expect(stage.outcome('node', loadBalancerIP, itself)).toContain('masqueraded');
      const others = { loadBalancerSourceRanges: ['203.0.0.0/8'] };
      await stage.play([everyKind(family, others), list(both)]);
      expect(stage.outcome('node', loadBalancerIP, itself)).toBe('drop');
    });

    it('drops other clients even if there are no endpoints', async () => {
      const stage = new Stage({ family });
      await stage.play([everyKind(family, { loadBalancerSourceRanges })]);
      expect(stage.outcome('outside', loadBalancerIP)).toBe('drop');
    });
  });

  it('rejects other ports of ClusterIPs and drops unused ClusterIPs', async () => {
    const stage = new Stage({ family, serviceCIDRs: ['10.96.0.0/16'] });
    await stage.play([everyKind(family), list(both)]);
    expect(stage.outcome('pod', '10.96.0.1 81')).toBe('reject');
    expect(stage.outcome('pod', clusterIP, { protocol: 'UDP' })).toBe('reject');
    expect(stage.outcome('pod', '10.96.0.9 80')).toBe('drop');
    expect(stage.outcome('pod', '10.97.0.1 80')).toBe('untouched');
  });

  it('serves the same port of different protocols separately', async () => {
    const stage = new Stage({ family });
    const udp = { ...http, name: 'dns', protocol: 'UDP' } as const;
    const ports = [{ name: 'dns', protocol: 'UDP', port: 53 }] as const;
    await stage.play([
      service({ clusterIPs: [at(family, '10.96.0.1')], ports: [http, udp] }),
      list({ [away]: ready }),
      endpoints(family, { [here]: readyLocal }, { key: 'ns/web-2', ports }),
    ]);
    expect(stage.outcome('pod', clusterIP)).toBe(away);
    expect(stage.outcome('pod', clusterIP, { protocol: 'UDP' })).toBe(here);
    expect(stage.send('pod', clusterIP, { protocol: 'UDP' }).to).toMatch(/:53$/);
  });

  it('opens node ports on every address of the node except loopback', async () => {
    const stage = await new Stage({ family }).play([everyKind(family), list(both)]);
    expect(stage.outcome('outside', '192.168.0.2 30080')).toContain('masqueraded');
    expect(stage.outcome('outside', '10.97.0.1 30080')).toBe('untouched');
    const loopback = family === 'IPv4' ? '127.0.0.1' : '::1';
    const { kernel } = stage.rig;
    const { saddr } = { saddr: loopback };
    const packet = {
      saddr,
      daddr: loopback,
      protocol: 'TCP',
      dport: 30080,
      iif: undefined,
    } as const;
    expect(kernel.evaluate({ ...packet, nodeAddresses: [], random: 0 }).translated).toBe(false);
  });

  it('opens node ports only on the configured addresses', async () => {
    const stage = new Stage({ family, nodePortAddresses: ['192.168.0.2'] });
    await stage.play([everyKind(family), list(both)]);
    expect(stage.outcome('outside', '192.168.0.2 30080')).toContain('masqueraded');
    expect(stage.outcome('outside', nodePort)).toBe('untouched');
    await stage.play([everyKind(family)]);
    expect(stage.outcome('outside', '192.168.0.2 30080')).toBe('reject');
    expect(stage.outcome('outside', nodePort)).toBe('untouched');
  });

  it('ignores a packet to an unrelated address', async () => {
    const stage = await new Stage({ family }).play([everyKind(family), list(both)]);
    expect(stage.outcome('outside', '203.0.113.200 80')).toBe('untouched');
  });

  describe('with session affinity', () => {
    const affinity = { affinityTimeoutSeconds: 300 };
    const stageOf = async (fields: Parameters<typeof everyKind>[1] = {}) =>
      new Stage({ family }).play([everyKind(family, { ...affinity, ...fields }), list(both)]);

    it.for(everything)('returns a client of %s to its endpoint', async (to) => {
      const stage = await stageOf();
      const first = stage.outcome('outside', to, { random: 1 });
      for (const random of [0, 1, 2]) {
        expect(stage.outcome('outside', to, { random })).toBe(first);
      }
      const other = { saddr: '203.0.113.10', random: 0 };
      expect(stage.outcome('outside', to, other)).not.toBe(first);
    });

    it.for(everything)('returns a client of %s to it at every other address', async (to) => {
      const stage = await stageOf();
      const first = stage.outcome('outside', to, { random: 1 });
      for (const random of [0, 1]) {
        const again = everything.map((other) => stage.outcome('outside', other, { random }));
        expect(new Set(again)).toEqual(new Set([first]));
      }
    });

    it.for([
      { kind: 'bridge', name: 'cni0' },
      { kind: 'interface-prefix', prefix: 'cni' },
      { kind: 'none' },
    ] as const)('tells pods as detector $kind does when it remembers', async (localDetector) => {
      const stage = new Stage({ family, localDetector });
      await stage.play([
        everyKind(family, { ...affinity, externalTrafficPolicy: 'Local' }),
        list(both),
      ]);
      const isPod = localDetector.kind !== 'none';
      const ends = [0, 1].map((random) => {
        const packet = { iif: 'cni0', saddr: `10.244.0.${20 + random}`, random };
        const first = stage.outcome('outside', nodePort, packet);
        for (const other of [0, 1]) {
          expect(stage.outcome('outside', nodePort, { ...packet, random: other })).toBe(first);
        }
        return first.startsWith(here) ? 'here' : 'away';
      });
      expect(ends.sort()).toEqual(isPod ? ['away', 'here'] : ['here', 'here']);
    });

    it('drops the affinity of a client when its endpoint is removed', async () => {
      const stage = await stageOf();
      const { planner, kernel } = stage.rig;
      const first = stage.outcome('outside', clusterIP, { random: 1 });
      expect(await planner.takeSweep?.(kernel)).toBeUndefined();
      expect(planner.takeSweep).toBeUndefined();

      const rest = first.startsWith(here) ? { [away]: ready } : { [here]: readyLocal };
      await stage.play([everyKind(family, affinity), list(rest)]);
      expect(planner.takeSweep).toBeDefined();
      const sweep = await planner.takeSweep?.(kernel);
      expect(kernel.applyNow(sweep!.ops)).toEqual({ kind: 'applied' });
      sweep!.committed({ kind: 'applied' });
      expect(stage.outcome('outside', clusterIP)).not.toBe(first);
      expect(planner.takeSweep).toBeUndefined();
    });

    it('keeps the affinity of clients of an endpoint that is the node itself', async () => {
      const onNode = { [nodeAddress]: readyLocal, [away]: ready };
      const stage = new Stage({ family });
      await stage.play([everyKind(family, affinity), list(onNode)]);
      const ends = [0, 1].map((random) =>
        stage.outcome('pod', clusterIP, { random, saddr: `10.244.0.${20 + random}` }),
      );
      expect(ends.sort()).toEqual([nodeAddress, away].sort());
      const again = [1, 0].map((random) =>
        stage.outcome('pod', clusterIP, { random, saddr: `10.244.0.${21 - random}` }),
      );
      expect(again.sort()).toEqual(ends);
    });

    it('does not keep a client on another node once the policy is Local', async () => {
      const stage = await stageOf();
      const random = [0, 1].find((n) =>
        stage
          .outcome('outside', nodePort, { saddr: `203.0.113.${20 + n}`, random: n })
          .startsWith(away),
      )!;
      const saddr = `203.0.113.${20 + random}`;
      expect(stage.outcome('outside', nodePort, { saddr })).toContain(away);
      await stage.play([
        everyKind(family, { ...affinity, externalTrafficPolicy: 'Local' }),
        list(both),
      ]);
      expect(stage.outcome('outside', nodePort, { saddr })).toBe(here);
    });

    it('keeps all valid affinities', async () => {
      const stage = await stageOf();
      const first = stage.outcome('outside', clusterIP, { random: 1 });
      const more = { ...both, '10.244.1.7': ready };
      await stage.play([everyKind(family, affinity), list(more)]);
      const sweep = await stage.rig.planner.takeSweep?.(stage.rig.kernel);
      expect(sweep).toBeUndefined();
      expect(stage.outcome('outside', clusterIP, { random: 2 })).toBe(first);
    });
  });

  it.for(Object.keys(senders) as Sender[])(
    'delivers what %s sends to its original destination',
    async (sender) => {
      const stage = await new Stage({ family }).play([everyKind(family), list({ [away]: ready })]);
      for (const to of everything) expect(stage.send(sender, to).to).toMatch(/:8080$/);
    },
  );
});
