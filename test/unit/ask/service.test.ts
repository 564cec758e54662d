import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { matchesGlob } from '../../../src/serve/ask/services.ts';
import { type Change, resources } from '../../../src/state/change.ts';
import { type Running, started } from '../agent/running.ts';
import {
  draining,
  type Endpoint,
  node,
  ready,
  readyLocal,
  service,
  slice,
  unready,
} from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { asked, said, saidAt } from './asking.ts';

let app: Running;

afterEach(() => app?.stop());

const running = (...changes: Change[]) => runningIn('nftables', ...changes);

async function runningIn(mode: string, ...changes: Change[]): Promise<void> {
  app = await started('--manifests=/anywhere', `--proxy-mode=${mode}`);
  app.source.say({ kind: 'node', node: node() }, ...changes);
  app.source.listed(...resources);
  await quiet();
}

function web(
  endpoints: Readonly<Record<string, Endpoint>>,
  fields: Parameters<typeof service>[0] = {},
): Change[] {
  return [
    { kind: 'service', service: service(fields) },
    { kind: 'slice', slice: slice(endpoints) },
  ];
}

/** The same, with endpoints that name another node. */
function elsewhere(...of: Parameters<typeof web>): Change[] {
  return web(...of).map((change) =>
    change.kind === 'slice'
      ? {
          ...change,
          slice: {
            ...change.slice,
            places: Array.from({ length: change.slice.length }, () => otherNode),
          },
        }
      : change,
  );
}

const otherNode = { node: 'node-b', zone: '' };

/** The only port of ns/web. */
async function port() {
  const { body } = await asked(app, 'service', '?namespace=ns&name=web');
  expect(body.ports).toHaveLength(1);
  return body.ports[0];
}

/** `ADDRESS: pools` or `ADDRESS: why not`. */
async function fates(): Promise<string[]> {
  const { endpoints } = await port();
  return endpoints.map(
    (one: { address: string; usedBy: string[]; because?: string }) =>
      `${one.address}: ${[one.usedBy.join(), one.because].filter(Boolean).join('; ')}`,
  );
}

async function problems(name = 'web'): Promise<string[]> {
  return (await asked(app, 'service', `?namespace=ns&name=${name}`)).body.problems;
}

it('says how connections are shared out, and what part each endpoint gets', async () => {
  const slices = [300, 100].map((weight, i) => ({
    kind: 'slice' as const,
    slice: slice({ [`10.244.0.${i + 1}`]: ready }, { key: `ns/web-${i}`, weight }),
  }));
  const balancing = { balance: 'maglev' } as const;
  await runningIn('iptables', { kind: 'service', service: service({ balancing }) }, ...slices);
  const { balance, endpoints, remarks } = await port();
  expect(balance).toBe('random');
  expect(remarks).toContain(
    'Balance maglev is not done: mode iptables cannot do it; connections are shared out as without it.',
  );
  expect(endpoints.map(({ shares }: { shares: unknown }) => shares)).toEqual([[0.75], [0.25]]);
});

it('says what part endpoints get that have connections', async () => {
  const balancing = { balance: 'least-connections' } as const;
  await running(...web({ '10.244.0.1': ready, '10.244.0.2': ready }, { balancing }));
  const of = { protocol: 'TCP', to: '10.96.0.1:80', answeredBy: '10.244.0.1:8080' } as const;
  for (let i = 0; i < 99; i += 1) app.conntrack.add({ ...of, from: `10.9.0.1:${1024 + i}` });
  await app.clock.pass(5000);
  const { endpoints, remarks } = await port();
  expect(endpoints.map(({ shares }: { shares: unknown }) => shares)).toEqual([[0.0898], [0.9102]]);
  expect(remarks).toContain('The pool cluster has 256 slots for 2 endpoints.');
});

describe('fairlead service show', () => {
  it('shows a Service with its frontends, endpoints and last changes', async () => {
    await running(...web({ '10.244.0.2': ready, '10.244.0.3': readyLocal }));
    await app.clock.pass(2000);
    const places = [
      { node: 'node-b', zone: 'zone-b' },
      { node: 'node-a', zone: 'zone-a' },
    ];
    const moved = slice({ '10.244.0.9': ready, '10.244.0.3': readyLocal }, { places });
    app.source.say({ kind: 'slice', slice: moved });
    await quiet();
    const { body } = await asked(app, 'service', '?name=web');
    expect(body).toMatchObject({
      ...{ namespace: 'ns', name: 'web', type: 'ClusterIP', state: 'in force', problems: [] },
      changes: [
        {
          ...{ port: 'http', what: 'changed', before: 2, after: 2 },
          ...{ added: ['10.244.0.9:8080'], removed: ['10.244.0.2:8080'] },
        },
      ],
    });
    const [http] = body.ports;
    expect(http.frontends).toEqual([
      {
        ...{ kind: 'clusterIP', address: '10.96.0.1', port: 80 },
        paths: {
          pod: { to: 'cluster', masqueraded: false },
          node: { to: 'cluster', masqueraded: true },
          outside: { to: 'cluster', masqueraded: true },
        },
      },
    ]);
    expect(http.endpoints).toMatchObject([
      { address: '10.244.0.3', port: 8080, ready: true, local: true, node: 'node-a' },
      { address: '10.244.0.9', port: 8080, ready: true, local: false, zone: 'zone-b' },
    ]);
  });

  it('shows the time of creation, if known', async () => {
    await running(...web({}, { createdMs: 0 }), ...web({}, { name: 'old', createdMs: 1000 }));
    const types = await Promise.all(
      ['web', 'old'].map(async (name) => (await said(app, 'service', 'show', `ns/${name}`)).stdout),
    );
    expect(types.map((text) => /^Type: +(.*)$/m.exec(text)![1])).toEqual([
      'ClusterIP',
      'ClusterIP, made 1970-01-01T00:00:01.000Z',
    ]);
  });

  it('shows why an endpoint is not used', async () => {
    await running(...web({ '10.244.0.2': ready, '10.244.0.3': unready, '10.244.0.4': draining }));
    expect(await fates()).toEqual([
      '10.244.0.2: cluster',
      '10.244.0.3: is not ready',
      '10.244.0.4: terminates',
    ]);
  });

  it('shows that source ranges of the other family limit no clients', async () => {
    const balanced = { type: 'LoadBalancer', loadBalancerIPs: ['203.0.113.5'] } as Parameters<
      typeof service
    >[0];
    const ranges = ['fd00::/8', '192.0.2.0/24'];
    const remarksWith = async (fields: Parameters<typeof service>[0]) => {
      app.source.say({ kind: 'service', service: service({ ...balanced, ...fields }) });
      await quiet();
      return (await port()).remarks;
    };
    await running(...web({ '10.244.0.2': ready }));
    expect(await remarksWith({ loadBalancerSourceRanges: ranges.slice(0, 1) })).toEqual([
      'loadBalancerSourceRanges has no range of IPv4: all clients of it are let in.',
    ]);
    expect(await remarksWith({ loadBalancerSourceRanges: ranges })).toEqual([]);
    expect(await remarksWith({ loadBalancerSourceRanges: [] })).toEqual([]);
    const inside = { loadBalancerIPs: [], loadBalancerSourceRanges: ranges.slice(0, 1) };
    expect(await remarksWith(inside)).toEqual([]);
    const guardsAll = true;
    expect(await remarksWith({ ...inside, externalIPs: ['203.0.113.6'], guardsAll })).toEqual([
      'loadBalancerSourceRanges has no range of IPv4: all clients of it are let in.',
    ]);
    expect(await remarksWith({ loadBalancerSourceRanges: ranges, guardsAll })).toEqual([
      'loadBalancerSourceRanges count for node ports and external IPs, too.',
    ]);
    expect(await remarksWith({ loadBalancerSourceRanges: [], guardsAll })).toEqual([
      'There are no loadBalancerSourceRanges: all clients are let in.',
    ]);
  });

  it('shows which endpoints hints select', async () => {
    const here = { ...ready, zones: ['zone-a'] };
    const elsewhere = { ...ready, zones: ['zone-b'] };
    await running(...web({ '10.244.0.2': here, '10.244.0.3': elsewhere }));
    expect(await fates()).toEqual(['10.244.0.2: cluster', '10.244.0.3: is hinted for other zones']);
    expect((await port()).remarks).toEqual(['Hints choose endpoints for zone zone-a.']);
  });

  it('shows which endpoints policy Local excludes', async () => {
    const outside = { type: 'NodePort', externalTrafficPolicy: 'Local' } as const;
    const ports = [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 }] as const;
    await running(...elsewhere({ '10.244.0.2': ready }, { ...outside, ports }));
    expect(await fates()).toEqual(['10.244.0.2: cluster; local: is on another node']);
    expect(await problems()).toEqual([
      'Port http 80/TCP in IPv4 drops connections from outside: externalTrafficPolicy is Local, and its only endpoint is not on this node and ready.',
    ]);
  });

  it('names the owner of an address that the Service does not get', async () => {
    const late = service({
      ...{ name: 'late', clusterIPs: ['10.96.0.9'], externalIPs: ['192.0.2.1'] },
      createdMs: 2,
    });
    await running(
      ...web({ '10.244.0.2': ready }, { externalIPs: ['192.0.2.1'], createdMs: 1 }),
      { kind: 'service', service: late },
      { kind: 'slice', slice: slice({ '10.244.0.5': ready }, { key: 'ns/l', service: 'ns/late' }) },
    );
    expect(await problems('late')).toEqual([
      'Port http 80/TCP in IPv4 does not get externalIP 192.0.2.1:80, which ns/web holds.',
    ]);
    expect(await problems()).toEqual([]);
    const { stdout } = await said(app, 'service', 'show', 'late');
    expect(stdout).toMatch(/externalIP +192\.0\.2\.1:80 +not this Service: ns\/web has it\n/);
  });

  it('writes an address of IPv6 that the Service does not get with brackets', async () => {
    const late = service({
      ...{ name: 'late', clusterIPs: ['fd00:96::9'], externalIPs: ['2001:db8::1'] },
      createdMs: 2,
    });
    const both = { clusterIPs: ['fd00:96::1'], externalIPs: ['2001:db8::1'] };
    await running(...web({}, { ...both, createdMs: 1 }), { kind: 'service', service: late });
    expect(await problems('late')).toContain(
      'Port http 80/TCP in IPv6 does not get externalIP [2001:db8::1]:80, which ns/web holds.',
    );
  });

  it('shows that a Service is set aside, with the kernel’s error', async () => {
    await running();
    app.kernel.failNext({ code: 'EINVAL', forKey: '10.96.0.1', times: Number.POSITIVE_INFINITY });
    app.source.say(...web({ '10.244.0.2': ready }));
    await quiet();
    const { body } = await asked(app, 'service', '?name=web');
    expect([body.state, body.ports[0].state]).toEqual(['set aside', 'set aside']);
    expect(body.ports[0].since).toBe(new Date(app.clock.wallMs()).toISOString());
    expect(body.problems).toEqual([
      expect.stringMatching(/^The kernel refuses ns\/web:http in IPv4: .*EINVAL.*; nothing of it/),
    ]);
  });

  it('lists as many endpoints as requested', async () => {
    await running(...web({ '10.244.0.2': ready, '10.244.0.3': ready, '10.244.0.4': ready }));
    const { body } = await asked(app, 'service', '?name=web&endpoints=2');
    const [http] = body.ports;
    expect([http.endpoints.length, http.endpointCount, http.cluster]).toEqual([2, 3, 3]);
  });

  it.each([
    ['?name=none', 404, 'this proxy serves no Service none: there is none of that name, or'],
    ['?name=web&namespace=x', 404, 'this proxy serves no Service x/web:'],
    ['?name=web', 409, '2 Services have that name; say which: ns/web, other/web'],
    ['?name=wbe&namespace=ns', 404, 'did you mean ns/web?'],
    ['?name=wbe', 404, 'did you mean ns/web?'],
    ['?name=web&namespace=x', 404, 'did you mean ns/web?'],
    ['?address=10.96.0.99', 404, 'no Service of this proxy has the address 10.96.0.99'],
    ['?address=web', 400, 'address "web" is not an address'],
    ['', 400, 'name is missing'],
    ['?name=web&endpoints=no', 400, 'endpoints must be a number from 1 to 10000, not "no"'],
  ])('answers %j with status %d', async (query, status, reason) => {
    const other = service({ namespace: 'other', clusterIPs: ['10.96.0.7'] });
    await running(...web({}), { kind: 'service', service: other });
    const answer = await asked(app, 'service', query);
    expect([answer.status, answer.body.error]).toEqual([status, expect.stringContaining(reason)]);
  });

  it('names the pods of endpoints on request, or why it cannot', async () => {
    await running(...web({ '10.244.0.1': ready, '10.244.0.2': ready }));
    app.source.lookup.named.set('ns/web', new Map([['10.244.0.1', 'web-7d9f-x2x']]));
    const shown = await said(app, 'service', 'show', 'web');
    expect(shown.stdout).toMatch(/\n +ENDPOINT +POD +CONDITIONS /);
    expect(shown.stdout).toMatch(/\n +10\.244\.0\.1:8080 +web-7d9f-x2x +ready/);
    const plain = await asked(app, 'service', '?name=web');
    expect(plain.body.ports[0].endpoints[0].pod).toBeUndefined();
    const unproven = await asked(app, 'service', '?name=web&pods=true');
    expect(unproven.body.podsUnknown).toContain('CAP_NET_ADMIN');
    expect(unproven.body.ports[0].endpoints[0].pod).toBeUndefined();
    app.source.lookup.named.clear();
    const without = await said(app, 'service', 'show', 'web');
    expect(without.stdout).toContain('not known: the API server does not answer');
    expect(without.stdout).not.toContain(' POD ');
    expect(without.code).toBe(0);
    expect((await asked(app, 'service', '?name=web&pods=1')).status).toBe(400);
  });

  it('finds a Service by one of its addresses, and without a namespace', async () => {
    const alone = service({ name: 'alone', clusterIPs: ['10.96.0.7', 'fd00::7'] });
    const inDefault = service({ namespace: 'default', clusterIPs: ['10.96.0.8'] });
    await running(
      ...web({}),
      { kind: 'service', service: alone },
      { kind: 'service', service: inDefault },
    );
    const found = async (...args: string[]) => {
      const { stderr, stdout } = await said(app, 'service', 'show', '-o', 'name', ...args);
      return stdout + stderr;
    };
    expect(await found('10.96.0.7')).toBe('ns/alone\n');
    expect(await found('[fd00::7]:80')).toBe('ns/alone\n');
    expect(await found('alone')).toBe('ns/alone\n');
    expect(await found('web')).toBe('default/web\n');
    expect(await found('web', '-n', 'ns')).toBe('ns/web\n');
  });

  it('rejects a name that several Services have, and lists these', async () => {
    const other = service({ namespace: 'other', clusterIPs: ['10.96.0.7'] });
    await running(...web({}), { kind: 'service', service: other });
    const { body } = await asked(app, 'service', '?name=web');
    expect(body.candidates).toEqual(['ns/web', 'other/web']);
    for (const [name, ...args] of [
      ['service', 'show', 'web'],
      ['explain', 'web:80'],
    ] as const) {
      const { code, stderr } = await said(app, name, ...args);
      expect([code, stderr.split('\n')[0]]).toEqual([
        2,
        'Error: 2 Services have that name; say which: ns/web, other/web',
      ]);
    }
  });
});

describe('fairlead service list', () => {
  const many = Array.from({ length: 5 }, (_, i): Change => {
    const name = `web-${4 - i}`;
    return { kind: 'service', service: service({ name, clusterIPs: [`10.96.0.${i + 1}`] }) };
  });

  it('returns pages', async () => {
    await running(...many);
    const names: string[] = [];
    let query = '?limit=2';
    for (let pages = 1; pages <= 3; pages += 1) {
      const { body } = await asked(app, 'services', query);
      names.push(...body.items.map(({ name }: { name: string }) => name));
      expect(body.continue).toBe(pages < 3 ? `ns/${names.at(-1)}` : undefined);
      query = `?limit=2&continue=${body.continue}`;
    }
    expect(names).toEqual(['web-4', 'web-3', 'web-2', 'web-1', 'web-0']);
    app.source.say({ kind: 'service-gone', key: 'ns/web-3' });
    const { status, body } = await asked(app, 'services', '?continue=ns/web-3');
    expect([status, body.error]).toEqual([
      410,
      'Service ns/web-3 was deleted in the meantime: start again',
    ]);
  });

  it('with problems first drops none on its pages when the one at the end of a page recovers', async () => {
    await running(...many);
    const page = async (place = ''): Promise<[string[], string]> => {
      const { body } = await asked(app, 'services', `?order=problems&limit=2${place}`);
      const names = body.items.map(({ name }: { name: string }) => name);
      return [names, `&continue=${encodeURIComponent(body.continue)}`];
    };
    // All lack endpoints.
    const [first, place] = await page();
    expect(first).toEqual(['web-0', 'web-1']);
    for (const name of ['web-1', 'web-2']) {
      const fields = { key: `ns/${name}-1`, service: `ns/${name}` };
      app.source.say({ kind: 'slice', slice: slice({ '10.244.0.2': ready }, fields) });
    }
    app.source.say({ kind: 'service-gone', key: 'ns/web-0' });
    await quiet();
    const [second, next] = await page(place);
    expect(second).toEqual(['web-3', 'web-4']);
    expect((await page(next))[0]).toEqual(['web-1', 'web-2']);
  });

  it('is sorted, and shows endpoints in use and progress', async () => {
    await running(...web({ '10.244.0.2': ready, '10.244.0.3': unready }), {
      kind: 'service',
      service: service({ name: 'api', namespace: 'a', clusterIPs: ['10.96.0.8'] }),
    });
    const { code, stdout } = await said(app, 'service', 'list');
    expect(code).toBe(0);
    expect(stdout.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
      ['NAMESPACE', 'NAME', 'TYPE', 'CLUSTER-IP', 'PORTS', 'USED', 'STATE'],
      ['a', 'api', 'ClusterIP', '10.96.0.8', '80/TCP', '0/0', 'no slices'],
      ['ns', 'web', 'ClusterIP', '10.96.0.1', '80/TCP', '1/2', 'in force'],
      [''],
    ]);
  });

  it('shows addresses, policies, affinity and the time of creation with -o wide', async () => {
    const policies = { internalTrafficPolicy: 'Local', affinityTimeoutSeconds: 600 } as const;
    const own = service({ ...policies, externalIPs: ['203.0.113.7'], createdMs: 1000 });
    await running({ kind: 'service', service: own }, ...web({ '10.244.0.2': ready }).slice(1));
    const { stdout } = await said(app, 'service', 'list', '-o', 'wide', '--no-headers');
    expect(stdout.trim().split(/ {2,}/).slice(7)).toEqual([
      ...['203.0.113.7', 'Local internal', '600s', expect.stringMatching(/^1970-01-01.00:00:01/)],
    ]);
  });

  it.each([
    [['-n', 'ns'], 5],
    [['-n', 'other'], 0],
    [['web-[0-9]'], 0],
    [['*-3'], 1],
    [['web-?', '--namespace=ns'], 5],
  ])('selects with %j: %d Services', async (args, count) => {
    await running(...many);
    const { stdout } = await said(app, 'service', 'list', '-o', 'json', ...args);
    expect(JSON.parse(stdout).items).toHaveLength(count);
  });
});

describe('fairlead service list --unhealthy', () => {
  const other = service({ name: 'other', clusterIPs: ['10.96.0.2'] });

  it('lists only Services with problems', async () => {
    await running(...web({ '10.244.0.2': ready }), { kind: 'service', service: other });
    const { body } = await asked(app, 'services', '?state=unhealthy');
    expect(body.items).toMatchObject([{ name: 'other', used: 0, state: 'in force' }]);
    expect(await asked(app, 'services', '?state=healthy')).toEqual({
      status: 400,
      body: { error: 'state must be unhealthy, not "healthy"' },
    });
  });
});

describe('fairlead changes', () => {
  it('lists changes of all Services since the start, the latest first', async () => {
    await running(...web({ '10.244.0.2': ready }));
    expect((await asked(app, 'changes')).body.items).toEqual([]);
    const other = service({ name: 'other', clusterIPs: ['10.96.0.2'] });
    app.source.say({ kind: 'service', service: other });
    await quiet();
    app.source.say({ kind: 'service-gone', key: 'ns/web' });
    await quiet();
    const { body } = await asked(app, 'changes');
    expect(body.items).toMatchObject([
      { namespace: 'ns', service: 'web', port: 'http', what: 'went', before: 1 },
      { namespace: 'ns', service: 'other', what: 'came', after: 0 },
    ]);
    expect((await asked(app, 'changes', '?limit=1')).body.items).toHaveLength(1);
  });
});

describe('the command service', () => {
  it('starts again if the Service at the end of a page was deleted', async () => {
    await running();
    const head = { apiVersion: 'fairlead/v1', kind: 'ServiceList', items: [] };
    const pages = [
      { ...head, continue: 'ns/web' },
      undefined,
      { ...head, continue: 'ns/api' },
      head,
    ];
    const asked: (string | undefined)[] = [];
    const server = createServer(({ url }, response) => {
      asked.push(url);
      const page = pages.shift();
      const body = page ?? { error: 'gone' };
      response.writeHead(page ? 200 : 410, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const { port } = server.address() as AddressInfo;
    const { code, stdout } = await saidAt(port, 'service', 'list');
    server.close();
    expect([code, stdout]).toEqual([0, 'No Services.\n']);
    const first = '/fairlead/v1/services';
    const next = `${first}?continue=ns%2F`;
    expect(asked).toEqual([first, `${next}web`, first, `${next}api`]);
  });

  it('prints names, and tables without headings', async () => {
    await running(...web({ '10.244.0.2': ready }));
    expect((await said(app, 'service', 'list', '-o', 'name')).stdout).toBe('ns/web\n');
    const { stdout } = await said(app, 'svc', 'ls', '-A', '--no-headers');
    expect(stdout).toMatch(/^ns +web +ClusterIP /);
    const template = '{range .items[*]}{.name} {.ports[0].port}{end}';
    expect((await said(app, 'services', 'get', '-o', `jsonpath=${template}`)).stdout).toBe(
      'web 80',
    );
  });

  it('exits with 1 if a named Service is not in the list', async () => {
    await running(...web({}));
    const codes = ['web', 'ns/web', 'nosuch', 'nosuch*'].map(async (name) => {
      return (await said(app, 'service', 'list', name)).code;
    });
    expect(await Promise.all(codes)).toEqual([0, 0, 1, 0]);
  });

  it('exits with 1 if the Service does not exist', async () => {
    await running();
    const { code, stderr } = await said(app, 'service', 'show', 'none');
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^Error: this proxy serves no /)]);
  });
});

describe('a name pattern', () => {
  it.each([
    ['web', 'web', true],
    ['web', 'we', false],
    ['web', 'w*', true],
    ['web', '*b', true],
    ['web', '*a*', false],
    ['web', '???', true],
    ['web', '????', false],
    ['web', '**', true],
    ['', '', true],
    ['abcabd', '*abd', true],
    ['a.c', 'a?c', true],
    ['abc', 'a.c', false],
  ])('%j matches %j: %s', (name, pattern, expected) => {
    expect(matchesGlob(name, pattern)).toBe(expected);
  });

  it('takes time in proportion to the lengths at most', () => {
    expect(matchesGlob('a'.repeat(63), `${'*a'.repeat(60)}*b`)).toBe(false);
  });
});
