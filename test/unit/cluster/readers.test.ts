/** `kubectl fairlead` where nodes have a port for readers. */
import { describe, expect, it } from 'vitest';
import { PaperCluster, report, rows } from './cluster.ts';

const healthy = report('healthy yes', 'mode nftables', 'version v0.1.0', 'config aaaa');
const port = '/api/v1/namespaces/kube-system/pods/https:fairlead-a:10251/proxy/fairlead/v1';

/** A cluster with such ports, and a user who gets a token for them. */
function cluster(): PaperCluster {
  return new PaperCluster().reader('10251').object('token', 'secret\n');
}

/** The right that each call of kubectl takes. */
function rightsFor(calls: string): Set<string> {
  const rightFor = (call: string): string => {
    if (/ --raw \S+\/proxy\//.test(call)) return 'create pods/proxy';
    if (call.includes('create token ')) return 'create serviceaccounts/token';
    return /\bget [a-z]+/.exec(call)?.[0] ?? call;
  };
  return new Set(calls.trim().split('\n').map(rightFor));
}

/** Paths and queries that were asked for, by kubectl create --raw. */
function asked(of: PaperCluster): string[] {
  return [...of.read('calls').matchAll(/^create -f \S+ --raw (\S+)$/gm)].map(([, url]) => url!);
}

describe('kubectl fairlead where nodes have a port for readers', () => {
  it('asks there with a token for it, and runs no command in a pod', async () => {
    const one = cluster().script(
      'a',
      `[ "$(cat "$4")" = secret ] || exit 1\nprintf %s '${healthy}'`,
    );
    const { code, stderr, stdout } = await one.ask('status', '--no-headers', '--context=x');
    expect([code, stderr, rows(stdout)[0]!.slice(0, 3)]).toEqual([0, '', ['a', 'yes', 'nftables']]);
    const calls = one.read('calls');
    expect(calls).toContain(
      '--context=x create token fairlead-reader -n kube-system --audience=fairlead --duration=10m\n',
    );
    expect(calls).toContain(` --raw ${port}/status?form=report\n`);
    expect(calls).not.toContain('exec');
  });

  it('asks the same questions there', async () => {
    const one = cluster()
      .object('service', '120\n')
      .object('endpointslices', '')
      .object('pod', 'a\n10.244.2.7\nfd00:10:244:2::7\n')
      .node('a', report('state in~force', 'observed 120', 'used 0', 'same yes'));
    for (const words of [
      ['service', 'shop/web'],
      ['problems'],
      ['diff'],
      ['explain', 'shop/web:http/UDP', '--node=a'],
      ['explain', '[fd00:10:96::a]:53', '--from=pod/shop/client'],
    ]) {
      await one.ask(...words);
    }
    const role = ['get pods', 'get pod', 'create pods/proxy', 'create serviceaccounts/token'];
    const view = ['get service', 'get endpointslices'];
    // The Role that the chart makes for readers (unit/deploy/chart.test.ts), and ClusterRole view.
    expect(rightsFor(one.read('calls'))).toEqual(new Set([...role, ...view]));
    expect(asked(one)).toEqual([
      `${port}/service?form=report&ports=500&endpoints=10000&namespace=shop&name=web`,
      `${port}/problems?form=report`,
      `${port}/diff?form=report`,
      `${port}/explain?form=report&to=shop/web:http/UDP`,
      `${port}/explain?form=report&to=%5Bfd00:10:96::a%5D:53&from=fd00:10:244:2::7`,
    ]);
  });

  it('prints an explanation, and exits as fairlead explain does', async () => {
    for (const [answer, code, printed] of [
      [report('healthy yes', 'text Outcome:~endpoint', 'text -', 'text 1.~It~is'), 0],
      [report('healthy no', 'text Outcome:~endpoint', 'text -', 'text 1.~It~is'), 1],
      [report('refused no~such~Service'), 1, 'Error: no such Service\n'],
      [report('healthy yes').slice(0, 30), 3, ''],
    ] as const) {
      const said = await cluster().node('a', answer).ask('explain', 'shop/web:80', '--node=a');
      const text = printed ?? 'Outcome: endpoint\n\n1. It is\n';
      expect([said.code, said.stdout]).toEqual([code, `On node a:\n${text}`]);
    }
  });

  it('shows why a node gives no answer', async () => {
    const refused = 'Error from server (Forbidden): visitor may not get /fairlead/v1/status';
    const unknown = 'error: You must be logged in to the server (provide credentials)';
    const one = cluster()
      .script('a', `echo '${refused}' >&2; exit 1`)
      .script('b', `echo '${unknown}' >&2; exit 1`)
      .script('c', 'exec sleep 600')
      .node('d', '', 'Pending');
    const { code, stdout } = await one.ask('status', '--no-headers', '--timeout=1');
    expect([code, rows(stdout).map((cells) => [cells[0], cells.at(-1)])]).toEqual([
      3,
      [
        ['a', refused],
        ['b', 'it does not accept the token of its readers'],
        ['c', 'no answer within 1 s'],
        ['d', 'its pod is Pending'],
        [expect.stringMatching(/^4 nodes, 0 answered/), expect.anything()],
      ],
    ]);
  });

  it('runs commands in the pods if the user may not have the token, or asks for that', async () => {
    const without = new PaperCluster().reader('10251').node('a', healthy);
    const one = await without.ask('status');
    expect([one.code, one.stderr]).toEqual([
      0,
      'Warning: Error from server (Forbidden): no token for you; running commands in the pods\n',
    ]);
    expect(asked(without)).toEqual([]);
    const by = cluster().node('a', healthy);
    expect((await by.ask('status', '--exec')).code).toBe(0);
    expect(by.read('calls')).not.toContain('create');
  });

  it('runs traces and bundles in the pods, which the port does not have', async () => {
    const one = cluster().node('a', report('packets 0', 'sent nothing'));
    await one.ask('trace', 'shop/web:80', '--all');
    await one.ask('trace', 'shop/web:80', '--node=a');
    await one.ask('bundle', '-f', 'b.tar.gz');
    expect(one.read('calls')).not.toContain('create');
    expect(one.read('calls').match(/ exec |^exec /gm)).toHaveLength(3);
  });

  it('asks no port that is not a number', async () => {
    for (const odd of ['10251 10252', '1/../x']) {
      const one = new PaperCluster().reader(odd).object('token', 'secret').node('a', healthy);
      expect((await one.ask('status')).code).toBe(0);
      expect(one.read('calls')).not.toContain('create');
    }
  });
});
