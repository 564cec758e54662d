/** Problems that no object shows: what the machine, its sockets and its connections do. */
import { afterEach, describe, expect, it } from 'vitest';
import type { AppOptions } from '../../../src/agent/agent.ts';
import type { ProblemList } from '../../../src/ask/problems.ts';
import { NodePrograms } from '../../../src/host/node-programs.ts';
import { statusProblems } from '../../../src/serve/ask/status-problems.ts';
import { resources } from '../../../src/state/change.ts';
import { configOf, Running } from '../agent/running.ts';
import { filesOf } from '../host/machine.ts';
import { boundSockets } from '../host/sockets.ts';
import { quiet } from '../sync/double.ts';
import { asked, said } from './asking.ts';
import { changesOf } from './broken-cluster-app.ts';
import { endpoints, here, node, there, web } from './broken-clusters.ts';

let app: Running;

afterEach(() => app.stop());

const both = `${here}\n${there}`;

/** `list`: endpoints of Service default/web, or all objects of the cluster. */
async function started(list: string, options: Partial<AppOptions> = {}, ...flags: string[]) {
  const cidr = '--cluster-cidr=10.244.0.0/16';
  const config = await configOf('--manifests=/x', '--proxy-mode=nftables', cidr, ...flags);
  app = await new Running(config).start(options);
  const cluster = list.includes('kind:') ? list : web() + endpoints(list) + node;
  app.source.say(...changesOf(cluster));
  app.source.listed(...resources);
  await quiet();
}

async function problems(): Promise<ProblemList> {
  return (await asked(app, 'problems')).body;
}

/** Of Service default/web: `REASON: TEXT`. */
async function ofWeb(): Promise<string[]> {
  const { items } = await problems();
  return items.flatMap((item) => item.problems.map(({ reason, text }) => `${reason}: ${text}`));
}

/** Long enough that all is looked at again. */
async function later(ms = 60_000): Promise<void> {
  await app.clock.pass(ms);
}

describe('the machine', () => {
  const netstat = (dropped: number) =>
    `TcpExt: SyncookiesSent IPReversePathFilter\nTcpExt: 7 ${dropped}\nIpExt: InOctets\nIpExt: 9`;

  it('has problems and remarks in every answer, until they are over', async () => {
    const files: Record<string, string> = { '/proc/sys/net/ipv4/ip_forward': '0' };
    await started(here, { host: { ...filesOf(files), write: () => {} } });
    const text =
      'This node: net.ipv4.ip_forward is 0: the node forwards no packets of pods to endpoints; set it to 1, as network plugins do when they start.';
    const { healthy, proxy } = await problems();
    expect([healthy, proxy]).toEqual([false, [text]]);
    expect((await asked(app, 'status')).body.runbook).toEqual([
      'the-node-and-its-node-object-differ',
    ]);
    expect((await said(app, 'problems')).code).toBe(1);
    expect(await (await app.get('metrics', '/metrics')).text()).toMatch(/^fairlead_healthy 0$/m);
    files['/proc/sys/net/ipv4/ip_forward'] = '1';
    // It is looked at every five seconds.
    await later(4999);
    expect((await problems()).healthy).toBe(false);
    await later(1);
    expect(await problems()).toMatchObject({ healthy: true, proxy: [], remarks: [] });
  });

  it('is only asked to forward where packets are translated', async () => {
    const files = filesOf({ '/proc/sys/net/ipv4/ip_forward': '0' });
    await started(here, { host: { ...files, write: () => {} } }, '--proxy-mode=userspace');
    expect((await problems()).proxy.join()).not.toContain('forward');
  });

  it('has a remark on packets that rp_filter drops, for five minutes after the last', async () => {
    const files = { '/proc/net/netstat': netstat(1000) };
    await started(here, { host: { ...filesOf(files), write: () => {} } });
    const remarks = async (dropped: number) => {
      files['/proc/net/netstat'] = netstat(dropped);
      return (await problems()).remarks;
    };
    expect(await remarks(1000)).toEqual([]);
    await later();
    expect(await remarks(1009)).toEqual([]);
    await later();
    expect(await remarks(1010)).toEqual([
      'This node: rp_filter has dropped 10 packets since 1970-01-01T00:16:40.000Z, because the way back to their sender is another interface than they came in by; correct the routes, or set net.ipv4.conf.all.rp_filter=2.',
    ]);
    await later(295_000);
    expect(await remarks(1010)).toHaveLength(1);
    await later(5000);
    expect(await remarks(1010)).toEqual([]);
  });
});

describe('a program of the node that listens at a node port', () => {
  const named =
    'address_taken: A program of this node listens at node port 30080/TCP: its clients reach this Service instead (ss -lnp names it).';

  it.each<[string, string[], string[], Set<number>?]>([
    ['tcp 0.0.0.0 30080', [named], []],
    ['tcp :: 30080 both', [named], []],
    ['tcp 192.168.7.7 30080', [named], []],
    ['tcp 192.168.0.1 30080', [], ['--nodeport-addresses=192.168.7.0/24']],
    ['tcp 127.0.0.1 30080', [], []],
    ['tcp :: 30080', [], []],
    ['udp 0.0.0.0 30080', [], []],
    ['tcp 0.0.0.0 30081', [], []],
    ['tcp 0.0.0.0 30080', [], [], new Set([1])],
  ])('%s: %j with %j', async (socket, expected, flags, own = new Set()) => {
    const sockets: string[] = [];
    const programs = new NodePrograms({
      clock: new Running(await configOf()).clock,
      read: () => boundSockets(...sockets),
      own: () => own,
      host: { read: () => undefined },
      failed: () => {},
    });
    await started(here, { programs }, ...flags);
    expect(await ofWeb()).toEqual([]);
    sockets.push(socket);
    await later();
    expect(await ofWeb()).toEqual(expected);
    sockets.pop();
    await later();
    expect(await ofWeb()).toEqual([]);
  });
});

describe('an endpoint that comes and goes', () => {
  const isReady = (ready: boolean) =>
    app.source.say(...changesOf(endpoints(both.replace('{ ready: true }', `{ ready: ${ready} }`))));

  it('is a problem until ten minutes are over', async () => {
    await started(both);
    for (let i = 0; i < 5; i += 1) {
      isReady(i % 2 === 1);
      await later(1000);
    }
    expect(await ofWeb()).toHaveLength(1);
    await later(595_000);
    expect(await ofWeb()).toHaveLength(1);
    await later(5000);
    expect(await ofWeb()).toEqual([]);
  });
});

describe('connections without an answer', () => {
  /** Each from another port of the client. */
  const tried = (count: number, answeredBy: string, more: object = {}) =>
    Array.from({ length: count }, (_, i) => ({
      ...{ protocol: 'TCP' as const, from: `10.244.0.9:${5000 + i}`, to: '10.96.0.1:80' },
      ...{ answeredBy, answered: false, ...more },
    }));
  const silent =
    'endpoint_silent: Endpoint 10.244.1.6:8080 of port http/TCP answers no connections from this node, seen since 1970-01-01T00:16:40.000Z.';

  async function foundOf(list: string, ...entries: ReturnType<typeof tried>) {
    await started(list);
    app.conntrack.add(...entries);
    const first = await ofWeb();
    await later(2000);
    return [first, await ofWeb()];
  }

  it('make a problem of their endpoint when they are there twice', async () => {
    const found = await foundOf(both, ...tried(5, '10.244.1.6:8080'));
    expect(found).toEqual([[], [silent]]);
    app.conntrack.expire();
    await later(1999);
    expect(await ofWeb()).toEqual([silent]);
    await later(1);
    expect(await ofWeb()).toEqual([]);
  });

  it.each<[string, ReturnType<typeof tried>]>([
    [
      'another was answered',
      [
        ...tried(5, '10.244.1.6:8080'),
        ...tried(1, '10.244.1.6:8080', { from: '10.244.0.8:1', answered: true }),
      ],
    ],
    ['its endpoint is in use no longer', tried(5, '10.244.1.9:8080')],
    ['they are not translated', tried(5, '10.244.1.6:8080', { to: '10.244.1.6:8080' })],
    ['they are to no Service', tried(5, '10.244.1.6:8080', { to: '10.96.0.9:80' })],
  ])('make no problem where %s', async (_, entries) => {
    expect(await foundOf(both, ...entries)).toEqual([[], []]);
  });

  it.each([
    [4, 4],
    [5, 1],
  ] as const)(
    'to %i destinations are compared with what %i readings of the kernel show',
    async (count, reads) => {
      const services = Array.from({ length: count }, (_, i) => {
        const all = web() + endpoints(there.replace('1.6', `1.${i}`));
        const plain = all.replace(', nodePort: 30080', '').replace(/^status.*$/m, 'status: {}');
        return plain
          .replaceAll('web', `web-${i}`)
          .replace('LoadBalancer', 'ClusterIP')
          .replace('10.96.0.1', `10.96.1.${i}`);
      });
      await started(services.join('') + node);
      for (let i = 0; i < count; i += 1) {
        app.conntrack.add(...tried(5, `10.244.1.${i}:8080`, { to: `10.96.1.${i}:80` }));
      }
      // The endpoint of the first one answers another client.
      const answered = { to: '10.96.1.0:80', from: '10.244.0.8:1', answered: true };
      app.conntrack.add(...tried(1, '10.244.1.0:8080', answered));
      await problems();
      await later(2000);
      app.conntrack.dumps.length = 0;
      expect((await problems()).items.map(({ name }) => name)).toEqual(
        Array.from({ length: count - 1 }, (_, i) => `web-${i + 1}`),
      );
      expect(app.conntrack.dumps.filter(({ state }) => state === 'any')).toHaveLength(reads);
    },
  );

  it('of one namespace hide none of others', async () => {
    const hosts = Array.from({ length: 40 }, (_, i) => `10.244.2.${i}`);
    const list = hosts.map((host) => there.replace('10.244.1.6', host)).join('\n');
    const mean = (web() + endpoints(list))
      .replaceAll('default', 'mean')
      .replace('10.96.0.1', '10.96.0.7')
      .replace(', nodePort: 30080', '')
      .replace('203.0.113.80', '203.0.113.81');
    await started(mean + web() + endpoints(both) + node);
    for (const host of hosts)
      app.conntrack.add(...tried(5, `${host}:8080`, { to: '10.96.0.7:80' }));
    app.conntrack.add(...tried(5, '10.244.1.6:8080'));
    await problems();
    await later(2000);
    expect((await problems()).items.map(({ name, namespace }) => `${namespace}/${name}`)).toEqual([
      ...['default/web', 'mean/web'],
    ]);
  });

  it.each([
    [262_144, 1],
    [262_145, 0],
  ])('in a table of %i entries make %i problems', async (entries, count) => {
    const table = '/proc/sys/net/netfilter/nf_conntrack';
    const files = { [`${table}_count`]: `${entries}`, [`${table}_max`]: '1000000' };
    await started(both, { host: { ...filesOf(files), write: () => {} } });
    app.conntrack.add(...tried(5, '10.244.1.6:8080'));
    await ofWeb();
    await later(2000);
    expect(await ofWeb()).toHaveLength(count);
  });
});

describe('watches that are silent', () => {
  const watch = (resource: string, failure?: string) =>
    ({ resource, state: 'silent', silenceSeconds: 135.475, failure }) as const;
  const problemsOf = (watches: readonly object[]): string[] => {
    const facts = {
      source: { server: 'https://192.0.2.1' },
      watches,
      families: [{}],
      services: { leftOut: 0 },
    };
    const stale = { state: 'off', stale: {} };
    const known = { isKeepingUp: true, unserved: 0, configRefusal: undefined, findings: [] };
    const all = { ...facts, connectTime: stale } as unknown as Parameters<typeof statusProblems>[0];
    return statusProblems(all, known)
      .filter(({ section }) => section.includes('silent') || section.includes('api-server'))
      .map(({ text }) => text);
  };

  it('are one problem if the server does not answer', () => {
    const unused = { resource: 'servicecidrs', state: 'unused' };
    expect(
      problemsOf([watch('services', 'timed out'), watch('nodes', 'timed out'), unused]),
    ).toEqual([
      'The API server (https://192.0.2.1) has not answered for 2m15s: timed out. Rules stay in force, and later changes are missing.',
    ]);
  });

  it('are problems each where the server answers, or nothing has failed', () => {
    const one = 'Nothing was heard of services for 135.475 s';
    const watching = { resource: 'nodes', state: 'watching' };
    expect(problemsOf([watch('services', 'Forbidden'), watching])).toEqual([`${one}: Forbidden.`]);
    expect(problemsOf([watch('services')])).toEqual([`${one}.`]);
  });
});
