import { afterEach, describe, expect, it } from 'vitest';
import type { Explanation } from '../../../src/ask/explanation.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import type { Running } from '../agent/running.ts';
import { save } from '../modes/iptables/save.ts';
import { asked, said } from './asking.ts';
import { packetOf, startedWith } from './broken-cluster-app.ts';
import { brokenClusters, endpoints, here, node, pods, there, web } from './broken-clusters.ts';
import { everyBrokenCluster } from './more-broken-clusters.ts';

let app: Running;

afterEach(() => app.stop());

/** What becomes of a packet, as the answer has it. */
function promised({ endpoints, outcome, steps }: Explanation) {
  const fate = steps.map(({ text }) => /^The packet is (rejected|dropped)/.exec(text)?.[1]);
  const isLeft = outcome === 'nobody' || outcome === 'routed';
  const end = isLeft ? fate.find((one) => one !== undefined) : outcome;
  const isMasqueraded = steps.some(({ text }) => text.startsWith('It is masqueraded'));
  return { end: end ?? 'as it is', isMasqueraded, isExpected: endpoints.length > 0 };
}

/** And as the rules in the kernel have it. */
function met(explanation: Explanation) {
  const { endpoints, from } = explanation;
  const { masqueraded, translated, ...end } = app.kernel.evaluate(packetOf(explanation));
  const untranslated = { accept: 'as it is', reject: 'rejected', drop: 'dropped' }[end.verdict];
  return {
    end: translated ? 'endpoint' : untranslated,
    isMasqueraded: masqueraded && end.to !== `${from.address}:8080`,
    isExpected: endpoints.includes(end.to),
  };
}

describe('a broken cluster', () => {
  it.each(everyBrokenCluster)('where $name', async (cluster) => {
    const { cause, from, object, outcome, to } = cluster;
    app = await startedWith(cluster);
    const query = new URLSearchParams({ to, ...(from && { from }) });
    const { body, status } = await asked(app, 'explain', `?${query}`);
    const options = from === undefined ? [] : [`--from=${from}`];
    const { code, stderr, stdout } = await said(app, 'explain', to, ...options);
    const { ask } = cluster;
    const named =
      ask === undefined ? stdout + stderr : (await said(app, ask[0]!, ...ask.slice(1))).stdout;
    expect(named).toContain(cause);
    const isUnreachable =
      cluster.routes !== undefined ||
      (cluster.reasons ?? []).some((one) => ['service_address', 'rule_in_the_way'].includes(one));
    expect(code).toBe(outcome === 'endpoint' && !isUnreachable ? 0 : 1);
    expect((body.unreachable ?? []).length > 0).toBe(isUnreachable);
    if (outcome === 'endpoint') {
      const [, shown] = /^Outcome: +(.*)$/m.exec(stdout)!;
      expect(shown!.startsWith('endpoint, but packets cannot reach')).toBe(isUnreachable);
    }
    if (outcome === 'refused') expect([status, body.error]).toEqual([404, expect.any(String)]);
    else expect(body.outcome).toBe(outcome);
    if (object !== undefined) expect(stdout).toContain(object);
    if (status === 200) expect(promised(body)).toEqual(met(body));
  });
});

/** Whether the kernel has what a step names. */
function isInKernel(object: string): boolean {
  const { kernel } = app;
  if (object.startsWith('-t ')) {
    const rest = / -m (comment --comment "[^"]*"|addrtype --dst-type LOCAL|tcp)|\/32/g;
    const tables = save(kernel, 'IPv4').replaceAll(rest, '').split('*');
    return object.split(', then ').every((part) => {
      const [, table, rule, chain, end] = /^-t (\w+) (-A )?(\S+)(.*)/.exec(part)!;
      const line = `^-A ${chain}${rule ? '' : '.*'}${end!.replaceAll(/[()]/g, '')}`;
      return tables.some((one) => one.startsWith(table!) && new RegExp(line, 'm').test(one));
    });
  }
  const [, at, persistent] = /^ipvsadm -l -t (\S+)( .*)?/.exec(object) ?? [];
  const service = new RegExp(`^TCP ${at} \\w+ flags 0x${persistent ? 1 : '.'} `, 'm');
  if (at !== undefined) return service.test(kernel.ipvs.text());
  const [, table, name, element] = / ip (\S+) (\S+)(?: \{ (.*) \})?/.exec(object)!;
  const { chains, sets } = kernel.table(NFPROTO.IPv4, table!)!;
  if (!sets.has(name!)) return chains.has(name!);
  const elements = kernel.elements(NFPROTO.IPv4, table!, name!);
  const plain = elements.map((one) => one.replace(/ comment "[^"]*"/, ''));
  return element === undefined || plain.includes(element);
}

const modes = ['nftables', 'iptables', 'ipvs'] as const;

describe.each(modes)('an explanation in mode %s', (mode) => {
  const guarded = 'loadBalancerSourceRanges: [10.244.0.0/16, 198.18.0.0/15]';
  it.each<[string, string, string, number[]]>([
    ['all', `${here}\n${there}`, `externalIPs: [198.51.100.9]\n  ${guarded}`, [14, 8, 13]],
    ['local', here, 'externalTrafficPolicy: Local\n  sessionAffinity: ClientIP', [15, 10, 12]],
    ['no local', there, 'externalTrafficPolicy: Local\n  internalTrafficPolicy: Local', [10, 7, 9]],
    ['no', '  []', '', [4, 3, 7]],
    ['ranges of', here, '', [11, 9, 5]],
  ])(
    'agrees with the kernel about a Service with %s endpoints',
    async (which, list, spec, counts) => {
      const isRange = which === 'ranges of';
      const service = web(spec, isRange ? 'annotations: { fairlead.io/port-range: 80-90 }' : '');
      const slice = endpoints(list, `{ name: http, port: ${isRange ? 80 : 8080} }`);
      const manifests = `${node}---${service}${slice}`;
      // Without a CIDR of pods, mode ipvs masquerades the node all the same.
      const flags = [...(which === 'all' ? [] : pods), `--proxy-mode=${mode}`];
      app = await startedWith({
        name: '',
        manifests,
        flags,
        to: '',
        outcome: 'endpoint',
        cause: '',
      });
      const objects = new Set<string>();
      for (const to of ['10.96.0.1', '203.0.113.80', '198.51.100.9', '192.168.7.7', '10.96.0.2']) {
        for (const from of ['pod', 'node', 'outside']) {
          const port = to === '192.168.7.7' ? 30080 : isRange ? 88 : 80;
          const { body } = await asked(app, 'explain', `?to=${to}:${port}&from=${from}`);
          expect(promised(body), `${to} ${from}`).toEqual(met(body));
          for (const { object } of body.steps) if (object !== undefined) objects.add(object);
        }
      }
      expect([...objects].filter((one) => !isInKernel(one))).toEqual([]);
      expect(objects.size).toBe(counts[modes.indexOf(mode)]);
    },
  );
});

describe('an explanation', () => {
  it('writes endpoints of IPv6 that connection tracking leads to with brackets', async () => {
    const [cluster] = brokenClusters.filter(({ conntrack }) => conntrack !== undefined);
    const toIPv6 = (text: string) =>
      text
        .replaceAll('10.96.0.1', 'fd00:96::1')
        .replaceAll('10.244.0.5', 'fd00:244::5')
        .replace('addressType: IPv4', 'addressType: IPv6');
    const conntrack = {
      protocol: 'TCP',
      from: '[fd00:244::9]:4711',
      to: '[fd00:96::1]:80',
      answeredBy: '[fd00:244:9::9]:8080',
    } as const;
    app = await startedWith({ ...cluster!, manifests: toIPv6(cluster!.manifests), conntrack });
    const { stdout } = await said(app, 'explain', '[fd00:96::1]:80', '--from=fd00:244::9');
    expect(stdout).toContain('(fd00:244::9 to [fd00:244:9::9]:8080)');
  });
});

describe('an explanation of a Service for clients outside', () => {
  const local = web('externalTrafficPolicy: Local\n  externalIPs: [198.51.100.9]');
  const ofFar = { name: 'far', manifests: `${node}---${local}${endpoints(there)}` };
  const cluster = { ...ofFar, to: '', outcome: 'dropped', cause: '' } as const;

  it('is about each of its frontends for them, and one that they do not reach decides', async () => {
    app = await startedWith(cluster);
    const { body } = await asked(app, 'explain', '?to=default/web:http&from=outside');
    const all: Explanation[] = [body, ...body.also];
    expect(
      all.map(({ outcome, service, to }) => [to.address, to.port, service!.frontend, outcome]),
    ).toEqual([
      ['203.0.113.80', 80, 'loadBalancerIP', 'dropped'],
      ['198.51.100.9', 80, 'externalIP', 'dropped'],
      ['192.168.7.7', 30080, 'nodePort', 'dropped'],
    ]);
    for (const one of all) expect(promised(one)).toEqual(met(one));
    expect((await said(app, 'explain', 'web:http', '--from=outside')).code).toBe(1);
    expect((await said(app, 'explain', 'web:http', '--from=pod')).code).toBe(0);
  });

  it('is about ten frontends at most', async () => {
    const ips = Array.from({ length: 11 }, (_, i) => `198.51.100.${i + 1}`);
    const many = web(`externalIPs: [${ips.join(', ')}]`);
    app = await startedWith({ ...cluster, manifests: `${node}---${many}${endpoints(there)}` });
    const { body } = await asked(app, 'explain', '?to=default/web:http&from=outside');
    expect(body.also).toHaveLength(9);
  });

  it('has the worst first, where others reach an endpoint', async () => {
    const flags = ['--nodeport-addresses=10.0.0.0/8'];
    const manifests = `${node}---${web()}${endpoints(there)}`;
    app = await startedWith({ ...cluster, flags, manifests });
    const { body } = await asked(app, 'explain', '?to=default/web:http&from=outside');
    const all: Explanation[] = [body, ...body.also];
    expect(all.map(({ outcome, to }) => [to.address, outcome])).toEqual([
      ['192.168.7.7', 'nobody'],
      ['203.0.113.80', 'endpoint'],
    ]);
    expect(body.summary).toContain('is not among the addresses that accept node ports');
    expect((await said(app, 'explain', 'web:http', '--from=outside')).code).toBe(1);
  });

  it('is about the ClusterIP, and says so, where it has no other', async () => {
    const inside = web()
      .replace('LoadBalancer', 'ClusterIP')
      .replace(/, nodePort: \d+|^status.*$/gm, '');
    app = await startedWith({ ...cluster, manifests: `${node}---${inside}${endpoints(there)}` });
    const { body } = await asked(app, 'explain', '?to=default/web:http&from=outside');
    expect([body.to.address, body.outcome, body.also]).toEqual([
      '10.96.0.1',
      'endpoint',
      undefined,
    ]);
    expect(body.warnings).toContain(
      'It has no address for clients outside the cluster: this is about its ClusterIP.',
    );
  });
});

it('an explanation leaves out connections that are over, and names each way once', async () => {
  const [stale] = brokenClusters.filter(({ conntrack }) => conntrack !== undefined);
  app = await startedWith(stale!);
  const { conntrack } = stale!;
  for (const [port, tcpState] of [
    [1, 3],
    [2, 7],
    [3, 8],
  ] as const) {
    app.conntrack.add({ ...conntrack!, from: `10.244.0.9:${port}`, tcpState });
  }
  const { stdout } = await said(app, 'explain', '10.96.0.1:80');
  expect(stdout).toContain(
    'has 2 connections to 10.96.0.1:80/TCP that lead to none of its endpoints ' +
      '(10.244.0.9 to 10.244.9.9:8080)',
  );
});

describe('the client in an explanation', () => {
  const [cluster] = brokenClusters.filter(({ outcome }) => outcome === 'endpoint');

  async function clientOf(...options: string[]): Promise<string> {
    return clientTo(cluster!.to, ...options);
  }

  async function clientTo(to: string, ...options: string[]): Promise<string> {
    const { stdout, stderr } = await said(app, 'explain', to, ...options);
    return /^Client:\s+(.*)$/m.exec(stdout)?.[1] ?? stderr.split('\n')[0]!;
  }

  it('is described in a sentence', async () => {
    app = await startedWith(cluster!);
    expect(await clientOf()).toBe('a pod, because the question names no other client');
    expect(await clientOf('--from=node')).toBe('the node itself, because the question names it');
    expect(await clientOf('--from=203.0.113.7')).toMatch(
      /^a client outside the cluster, because 203\.0\.113\.7 /,
    );
  });

  it('is the node for a loopback address, if the question names no other client', async () => {
    app = await startedWith(cluster!);
    expect(await clientTo('127.0.0.1:30080')).toBe(
      'the node itself, because packets to a loopback address do not leave the machine',
    );
    expect(await clientTo('127.0.0.1:30080', '--from=pod')).toMatch(/^a pod, /);
  });

  it('may be the name of a pod, which is looked up in the source', async () => {
    app = await startedWith(cluster!);
    const { pods } = app.source.lookup;
    pods.set('shop/here', { addresses: ['fd00::9', '10.244.0.9'], nodeName: 'node-a' });
    pods.set('shop/there', { addresses: ['10.244.9.9'], nodeName: 'node-b' });
    pods.set('shop/host', { addresses: ['192.168.7.7'], nodeName: 'node-a' });
    pods.set('shop/ipv6', { addresses: ['fd00::9'], nodeName: 'node-a' });
    const here = await said(app, 'explain', cluster!.to, '--from=pod/shop/here', '-o', 'json');
    expect(JSON.parse(here.stdout).from.address).toBe('10.244.0.9');
    const unproven = await asked(app, 'explain', `?to=${cluster!.to}&from=pod/shop/here`);
    expect(unproven.status).toBe(403);
    expect(await clientOf('--from=pod/shop/there')).toContain(
      'pod shop/there is asked for, and 10.244.9.9 ',
    );
    expect(await clientOf('--from=pod/shop/there')).toMatch(
      /meet the proxy of node node-b instead$/,
    );
    expect(await clientOf('--from=pod/shop/host')).toMatch(
      /^the node itself, because pod shop\/host/,
    );
    expect(await clientOf('--from=pod/shop/ipv6')).toBe('Error: pod shop/ipv6 has no IPv4 address');
    expect(await clientOf('--from=pod/shop/none')).toBe('Error: there is no pod shop/none');
    expect(await clientOf('--from=web')).toMatch(
      /^Error: from "web" is not one of: address, pod, node/,
    );
    // An invalid question, a packet that does not arrive, and an absent pod have different results.
    expect((await said(app, 'explain', cluster!.to, '--from=web')).code).toBe(2);
    expect((await said(app, 'explain', cluster!.to, '--from=pod/shop/none')).code).toBe(1);
  });
});

describe('the protocol in an explanation', () => {
  const slice = (name: string, ports: string) => `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ${name}-x, namespace: default, labels: {kubernetes.io/service-name: ${name}}}
addressType: IPv4
endpoints: [{addresses: [10.244.0.5], conditions: {ready: true}}]
ports: ${ports}
---`;
  const manifests = `
apiVersion: v1
kind: Service
metadata: {name: dns, namespace: default}
spec:
  clusterIP: 10.96.0.10
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
---
apiVersion: v1
kind: Service
metadata: {name: log, namespace: default}
spec: {clusterIP: 10.96.0.11, ports: [{name: log, port: 514, protocol: UDP}]}
---${slice('dns', '[{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]')}
${slice('log', '[{name: log, port: 514, protocol: UDP}]')}`;
  const cluster = { name: '', manifests, to: '', outcome: 'endpoint', cause: '' } as const;

  it.each([
    ['dns:53', ['10.96.0.10:53/UDP endpoint', '10.96.0.10:53/TCP endpoint'], 0],
    ['default/dns:dns', ['10.96.0.10:53/UDP endpoint'], 0],
    ['10.96.0.10:53', ['10.96.0.10:53/TCP endpoint', '10.96.0.10:53/UDP endpoint'], 0],
    ['10.96.0.10:53/udp', ['10.96.0.10:53/UDP endpoint'], 0],
    ['10.96.0.11:514', ['10.96.0.11:514/TCP no Service', '10.96.0.11:514/UDP endpoint'], 1],
    ['log:514', ['10.96.0.11:514/UDP endpoint'], 0],
    ['10.96.0.12:80', ['10.96.0.12:80/TCP no Service'], 1],
  ])(
    'is named in each outcome, and is TCP if the question is an address: %s',
    async (to, outcomes, expected) => {
      app = await startedWith(cluster);
      const { code, stdout } = await said(app, 'explain', to);
      const found = stdout.matchAll(/^Packet: +to (\S+)\n(?:Warning.*\n)*Outcome: +(.*)$/gm);
      expect([...found].map(([, place, outcome]) => `${place} ${outcome}`)).toEqual(outcomes);
      expect(code).toBe(expected);
      const { body } = await asked(app, 'explain', `?${new URLSearchParams({ to })}`);
      expect(body.also?.length ?? 0).toBe(outcomes.length - 1);
    },
  );
});
