/** `kubectl fairlead` against a kubectl that answers from files: what it makes of the answers. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fairleadVersion } from '../../../src/config/version.ts';
import { PaperCluster, report, rows } from './cluster.ts';

function statusReport(...extra: readonly string[]): string {
  return report(
    ...['node x', 'healthy yes', 'mode nftables', 'version v0.1.0', 'config aaaa'],
    ...['last-sync 3 ok', 'silent -', 'conntrack 10 100', ...extra],
  );
}

const usual = ['yes', 'nftables', 'v0.1.0', 'aaaa', '3s ago', 'none', '10%'];

describe('kubectl fairlead status', () => {
  it('shows a row for each node, and exits with 0 if all are healthy and alike', async () => {
    const cluster = new PaperCluster().node('a', statusReport()).node('b', statusReport());
    const { code, stderr, stdout } = await cluster.ask('status');
    const [head, ...body] = rows(stdout);
    expect(head!.slice(0, 4)).toEqual(['NODE', 'HEALTHY', 'MODE', 'VERSION']);
    expect(body.slice(0, 2)).toEqual([
      ['a', ...usual],
      ['b', ...usual],
    ]);
    expect([code, stderr, body.at(-1)]).toEqual([0, '', ['2 nodes, 2 answered, 0 to look at']]);
  });

  it('first lists nodes that do not answer, are unhealthy, or differ from most, with the reason', async () => {
    const cluster = new PaperCluster();
    for (const name of ['a', 'b', 'c']) cluster.node(name, statusReport());
    cluster
      .node('d', statusReport().replace('aaaa', 'bbbb').replace('nftables', 'iptables'))
      .node('e', statusReport('problem It~is~starting.').replace('healthy\tyes', 'healthy\tno'))
      .node('f', report('unreachable cannot~reach~http://127.0.0.1:10249:~timeout'))
      .node('g', '', 'Running CrashLoopBackOff')
      .node('h', '', 'Pending')
      .node('i', statusReport().slice(0, 40))
      .script('j', 'echo "Error: commands come first: fairlead status" >&2; exit 2')
      .script('k', 'echo "error: unable to upgrade connection" >&2; exit 1');
    const { code, stdout } = await cluster.ask('status', '--no-headers');
    const found = rows(stdout).map((cells) => [cells[0], cells[1], cells.at(-1)]);
    expect(found).toEqual([
      ['f', 'no answer', 'cannot reach http://127.0.0.1:10249: timeout'],
      ['g', 'no answer', 'its pod is CrashLoopBackOff'],
      ['h', 'no answer', 'its pod is Pending'],
      ['i', 'no answer', 'the answer was cut off (exit code 0)'],
      ['j', 'no answer', 'its release does not have this report'],
      ['k', 'no answer', 'error: unable to upgrade connection'],
      ['e', 'no', 'It is starting.'],
      ['d', 'yes', '* differs from most nodes: mode, config.'],
      ...['a', 'b', 'c'].map((name) => [name, 'yes', '10%']),
      ['11 nodes, 5 answered, 8 to look at', undefined, '11 nodes, 5 answered, 8 to look at'],
    ]);
    expect(rows(stdout)[7]!.slice(2, 5)).toEqual(['iptables *', 'v0.1.0', 'bbbb *']);
    expect(code).toBe(1);
  });

  it('says of nodes that do not answer that the API has them as not ready', async () => {
    const cluster = new PaperCluster().object('nodes', 'a Unknown\nb False\nc True\n');
    for (const name of ['a', 'c']) cluster.script(name, 'echo "error: dead" >&2; exit 1');
    cluster.node('b', statusReport());
    const { stdout } = await cluster.ask('status', '--no-headers');
    expect(rows(stdout).map((cells) => [cells[0], cells.at(-1)])).toEqual([
      ['a', 'error: dead; the API has its node as not ready: look at its kubelet'],
      ['c', 'error: dead'],
      ['b', '10%'],
      ['3 nodes, 1 answered, 2 to look at', '3 nodes, 1 answered, 2 to look at'],
    ]);
  });

  it('reports a timeout of a node that hangs, and shows the others', async () => {
    const cluster = new PaperCluster().node('a', statusReport()).script('b', 'exec sleep 600');
    const { code, stdout } = await cluster.ask('status', '--timeout=1', '--no-headers');
    expect(rows(stdout).slice(0, 2)).toEqual([
      ['b', 'no answer', '-', '-', '-', '-', '-', '-', 'no answer within 1 s'],
      ['a', ...usual],
    ]);
    expect(code).toBe(1);
  });

  it('shows unknown for values that an older release does not report, and ignores unknown ones', async () => {
    const old = report('healthy yes', 'mode nftables', 'weather fine');
    const { code, stdout } = await new PaperCluster().node('a', old).ask('status', '--no-headers');
    expect(rows(stdout)[0]).toEqual(['a', 'yes', 'nftables', '?', '?', '?', '?', '?']);
    expect(code).toBe(0);
  });

  it('prints no control character from a node’s answer', async () => {
    const evil = statusReport('problem \u001b[2J\u009bX\rhealthy', '@node\tfake', '@why\tfake');
    const { stdout } = await new PaperCluster().node('a', evil).ask('status');
    expect(stdout).not.toMatch(/[^\n -~]/);
    expect(stdout).not.toContain('fake');
    expect(rows(stdout)[1]![0]).toBe('a');
  });

  it('stops reading a node’s endless answer', async () => {
    const spam = 'problem\tspam\n'.repeat(100_000);
    const cluster = new PaperCluster()
      .node('a', statusReport().replace('healthy', `${spam}healthy`))
      .script('b', 'while echo problem spam; do :; done');
    const { code, stdout } = await cluster.ask('status', '--timeout=60', '--no-headers');
    const [first, second] = stdout.split('\n');
    expect([code, first!.slice(0, 12), second!.length < 3000]).toEqual([1, 'b  no answer', true]);
  });

  it('names nodes without a pod of Fairlead', async () => {
    const cluster = new PaperCluster().node('a', statusReport()).object('nodes', 'a\nbare\n');
    const { stdout } = await cluster.ask('status');
    expect(stdout).toContain('1 without a pod of Fairlead: bare\n');
  });

  it('finds Fairlead in the DaemonSet of kube-proxy, and names nodes that still run kube-proxy', async () => {
    const notFound =
      'OCI runtime exec failed: exec failed: unable to start container process: exec: ' +
      '"fairlead": executable file not found in $PATH: unknown';
    const cluster = new PaperCluster()
      .node('a', statusReport())
      .script('b', `echo '${notFound}' >&2; exit 126`)
      .labels('k8s-app=kube-proxy');
    const { code, stdout } = await cluster.ask('status', '--no-headers');
    expect(code).toBe(1);
    expect(rows(stdout)[0]).toContain('its pod does not run Fairlead');
    expect(rows(stdout)[1]![0]).toBe('a');
    const other = await cluster.ask('status', '-l', 'app=other');
    expect([other.code, other.stderr]).toEqual([3, 'Error: no pod with the labels app=other\n']);
  });

  it('asks twenty nodes at a time', async () => {
    const cluster = new PaperCluster();
    writeFileSync(join(cluster.path, 'answer'), statusReport());
    // A node answers when twenty have been asked at one time.
    const wait =
      '[ "$(ls "$CLUSTER/now" | wc -l)" -lt 20 ] || touch "$CLUSTER/go"\n' +
      'while [ ! -e "$CLUSTER/go" ]; do sleep 0.05; done\ncat "$CLUSTER/answer"';
    for (let i = 0; i < 30; i += 1) cluster.script(`n${i}`, wait);
    const { code, stdout } = await cluster.ask('status', '--timeout=300');
    expect([code, rows(stdout).at(-1)]).toEqual([0, ['30 nodes, 30 answered, 0 to look at']]);
    const running = cluster.read('running').trim().split('\n').map(Number);
    expect(running).toHaveLength(30);
    expect(Math.max(...running)).toBeLessThanOrEqual(20);
  });
});

describe('kubectl fairlead service', () => {
  const programmed = (service: string, slice: string, ...extra: string[]): string =>
    report(`state in~force`, `observed ${service}`, `slice web-a ${slice}`, 'used 1', ...extra);

  function cluster(): PaperCluster {
    return new PaperCluster()
      .object('service', '120\n')
      .object('endpointslices', 'IPv4\tweb-a\t130\nFQDN\tweb-f\t140\n');
  }

  it('shows the nodes that have programmed the Service in the API’s revision, and stale ones', async () => {
    const shop = cluster()
      .node('a', programmed('120', '130', 'endpoint 10.244.1.5:8080'))
      .node('b', programmed('99', '130'))
      .node('c', programmed('120', '98'))
      .node('d', report('state in~force', 'observed 120', 'used 0'))
      .node('e', programmed('120', '130').replace('in force', 'waiting'))
      .node('f', programmed('121', '131', 'slice web-new 132'))
      .node('g', programmed('120', '130', 'slice web-old 97'))
      .node('h', report('refused this~proxy~serves~no~Service~shop/web'));
    const { code, stdout } = await shop.ask('service', 'shop/web', '--no-headers');
    expect(rows(stdout).map((cells) => [cells[0], cells[1], cells[4]])).toEqual([
      ['b', 'stale', 'Service is at 99, the API has 120'],
      ['c', 'stale', 'web-a is at 98, the API has 130'],
      ['d', 'stale', 'has no slice web-a'],
      ['e', 'waiting', undefined],
      ['g', 'stale', 'still has slice web-old'],
      ['h', 'absent', 'not known on this node: this proxy serves no Service shop/web'],
      ['a', 'yes', undefined],
      ['f', 'yes', undefined],
      ['Programmed on 2 of 8 nodes, in revision 120 or newer', undefined, undefined],
    ]);
    expect(rows(stdout)[6]).toEqual(['a', 'yes', '120', '10.244.1.5:8080']);
    expect(code).toBe(1);
  });

  it('exits with 0 if all nodes have programmed it', async () => {
    const { code } = await cluster().node('a', programmed('120', '130')).ask('service', 'shop/web');
    expect(code).toBe(0);
  });

  it('reports that the Service does not exist in the API', async () => {
    const gone = new PaperCluster().object('endpointslices', '').node('a', report('refused none'));
    const { code, stdout } = await gone.ask('service', 'shop/web');
    expect(stdout).toMatch(/\nThe Service is not in the API\n$/);
    expect(code).toBe(1);
  });

  it('accepts the namespace of -n, and kubectl’s names for Services', async () => {
    const shop = cluster().node('a', programmed('120', '130'));
    await shop.ask('svc', 'web', '-n', 'shop');
    expect(shop.read('calls')).toContain('-- fairlead node-report service shop/web\n');
  });
});

describe('kubectl fairlead problems', () => {
  it('shows each problem once, with its nodes', async () => {
    const noEndpoint = 'problem shop/web It~has~no~endpoint.';
    const cluster = new PaperCluster()
      .node('a', report(noEndpoint))
      .node('b', report(noEndpoint, 'problem node Conntrack~is~full.'))
      .node('c', report('unreachable nobody~answers'));
    const { code, stdout } = await cluster.ask('problems', '--no-headers');
    expect(rows(stdout)).toEqual([
      ['node', 'b', 'Conntrack is full.'],
      ['node', 'c', 'Does not answer: nobody answers'],
      ['shop/web', 'a,b', 'It has no endpoint.'],
      ['3 nodes, 2 answered, 3 problems, 0 remarks'],
    ]);
    expect(code).toBe(1);
  });

  it('shows what nodes have in common once, also where its figures, times or interfaces differ', async () => {
    const lost = (seconds: number) => `problem node No~answer~for~${seconds}s.`;
    const silent = (minute: number) => `problem shop/web ${endpoint},~seen~since~10:${minute}Z.`;
    const endpoint = 'Endpoint~10.244.1.5:80';
    const bridge = (...ports: string[]) =>
      `remark Bridge~cni0~(${ports.join()}):~bridge~link~set~dev~${ports[0]}~hairpin~on.`;
    const cluster = new PaperCluster()
      .node('a', report(lost(61), silent(10), bridge('veth1a', 'veth1b')))
      .node('b', report(lost(75), silent(11), bridge('vethxy')))
      .node('c', report(lost(75), silent(11).replace('1.5', '1.6')));
    const { code, stdout } = await cluster.ask('problems', '--no-headers');
    expect(rows(stdout)).toEqual([
      ['node', 'all 3', 'No answer for 61s. (as a says it)'],
      ['shop/web', 'a,b', 'Endpoint 10.244.1.5:80, seen since 10:10Z. (as a says it)'],
      ['shop/web', 'c', 'Endpoint 10.244.1.6:80, seen since 10:11Z.'],
      [
        'node',
        'a,b',
        'Remark: Bridge cni0 (veth1a,veth1b): bridge link set dev veth1a hairpin on. (as a says it)',
      ],
      ['3 nodes, 3 answered, 3 problems, 1 remarks'],
    ]);
    expect(code).toBe(1);
  });

  it('shows two problems of a node that differ in figures', async () => {
    const one = report('problem node IPv4~is~off.', 'problem node IPv6~is~off.');
    const cluster = new PaperCluster().node('a', one).node('b', one);
    const { stdout } = await cluster.ask('problems', '--no-headers');
    expect(rows(stdout).slice(0, 2)).toEqual([
      ['node', 'all 2', 'IPv4 is off.'],
      ['node', 'all 2', 'IPv6 is off.'],
    ]);
  });

  it('exits with 0 where nodes have remarks only', async () => {
    const cluster = new PaperCluster().node('a', report('remark Look~here.'));
    const { code, stdout } = await cluster.ask('problems', '--no-headers');
    expect(rows(stdout)[0]).toEqual(['node', 'a', 'Remark: Look here.']);
    expect(code).toBe(0);
  });

  it('names a node whose configuration, mode or version most nodes do not have', async () => {
    const usual = ['mode nftables', 'version v1', 'config aaaa'];
    const cluster = new PaperCluster()
      .node('a', report('mode nftables', 'version v1', 'config bbbb'))
      .node('b', report(...usual))
      .node('c', report(...usual))
      .node('d', report('config aaaa'));
    const { code, stdout } = await cluster.ask('problems', '--no-headers');
    expect(rows(stdout)).toEqual([
      ['node', 'a', 'Its config is bbbb, that of most nodes is aaaa.'],
      ['4 nodes, 4 answered, 1 problems, 0 remarks'],
    ]);
    expect(code).toBe(1);
  });
});

describe('kubectl fairlead diff', () => {
  it('shows nodes first whose kernel differs', async () => {
    const cluster = new PaperCluster()
      .node('a', report('same yes', 'family IPv4 30 0 0', 'family IPv6 5 0 0'))
      .node(
        'b',
        report('same no', 'family IPv4 30 1 0', 'difference IPv4 shop/web:http:~1~missing'),
      );
    const { code, stdout } = await cluster.ask('diff', '--all', '--no-headers');
    expect(rows(stdout)).toEqual([
      ['b', 'no', '30', 'IPv4 shop/web:http: 1 missing'],
      ['a', 'yes', '35'],
    ]);
    expect(code).toBe(1);
  });
});

describe('kubectl fairlead explain', () => {
  function cluster(): PaperCluster {
    return new PaperCluster()
      .object('pod', 'b\n10.244.2.7\nfd00:10:244:2::7\n')
      .object('service', 'IPv6')
      .node('a', 'wrong node\n')
      .script('b', 'echo "Outcome: \u001b[1mendpoint"; exit 1');
  }

  it('asks the node of the pod, with the pod’s address of the target’s family', async () => {
    for (const [target, address] of [
      ['10.96.0.10:53', '10.244.2.7'],
      ['[fd00:10:96::a]:53', 'fd00:10:244:2::7'],
      ['shop/web:80', 'fd00:10:244:2::7'],
    ] as const) {
      const shop = cluster();
      const { code, stdout } = await shop.ask('explain', target, '--from', 'pod/shop/client');
      expect([code, stdout]).toEqual([1, 'On node b:\nOutcome: ?[1mendpoint\n']);
      const call = `exec -n kube-system fairlead-b -- fairlead explain ${target} --from ${address}\n`;
      expect(shop.read('calls')).toContain(call);
    }
  });

  it('accepts the namespace of -n for the Service and the pod', async () => {
    for (const [target, asked, family] of [
      ['web:80', 'shop/web:80', 'IPv6'],
      ['web:http/UDP', 'shop/web:http/UDP', 'IPv6'],
      ['other/web:80', 'other/web:80', 'IPv6'],
      ['10.96.0.10:53/UDP', '10.96.0.10:53/UDP', 'IPv4'],
      ['[fd00:10:96::a]:53', '[fd00:10:96::a]:53', 'IPv6'],
    ] as const) {
      const shop = cluster();
      const { code } = await shop.ask('explain', target, '-n', 'shop', '--from', 'pod/client');
      expect(code).toBe(1);
      const calls = shop.read('calls');
      expect(calls).toContain('get pod client -n shop ');
      const from = family === 'IPv6' ? 'fd00:10:244:2::7' : '10.244.2.7';
      expect(calls).toContain(`-- fairlead explain ${asked} --from ${from}\n`);
    }
  });

  it('leaves a name without namespace to the node', async () => {
    const shop = cluster();
    await shop.ask('explain', 'web:80', '--from', 'pod/shop/client');
    const calls = shop.read('calls');
    expect(calls).toContain('get service web -n default ');
    expect(calls).toContain('-- fairlead explain web:80 --from fd00:10:244:2::7\n');
  });

  it('exits with 1 if the pod does not exist, and with 2 if no node is given', async () => {
    const shop = new PaperCluster().node('a', '');
    const lost = await shop.ask('explain', '10.96.0.1:443', '--from=pod/shop/client');
    expect([lost.code, lost.stderr]).toEqual([1, 'Error from server (NotFound): not found\n']);
    expect((await shop.ask('explain', '10.96.0.1:443')).code).toBe(2);
  });
});

describe('kubectl fairlead trace', () => {
  it('sends a packet from each node, and names what stops it', async () => {
    const cluster = new PaperCluster()
      .node('a', report('packets 1', 'packet endpoint 10.244.1.5:80 it~went~there', 'sent -'))
      .node(
        'b',
        report('packets 1', 'packet dropped 10.96.0.9:80 rule~1~of~chain~inet~x~y', 'sent -'),
      );
    const { code, stdout } = await cluster.ask('trace', 'shop/web:80', '--all', '--no-headers');
    expect(rows(stdout)).toEqual([
      ['b', 'dropped', '10.96.0.9:80', 'rule 1 of chain inet x y'],
      ['a', 'endpoint', '10.244.1.5:80', 'it went there'],
    ]);
    expect(code).toBe(1);
  });

  it('counts a packet as a problem that its endpoint has refused', async () => {
    const refused = 'packet endpoint 10.244.1.5:80 It~was~refused failed';
    const cluster = new PaperCluster()
      .node('a', report('packets 1', 'packet endpoint 10.244.1.5:80 It~was~answered fine'))
      .node('b', report('packets 1', refused));
    const { code, stdout } = await cluster.ask('trace', 'shop/web:80', '--all', '--no-headers');
    expect(rows(stdout).map(([node]) => node)).toEqual(['b', 'a']);
    expect(code).toBe(1);
  });

  it('takes the count of packets as fairlead trace does, and -A as kubectl', async () => {
    for (const count of [['-c', '3'], ['--count=3']]) {
      const cluster = new PaperCluster().script('a', 'echo fine');
      expect((await cluster.ask('trace', 'shop/web:80', '--node', 'a', '-A', ...count)).code).toBe(
        0,
      );
      const call = '-- fairlead trace shop/web:80 --from node --count=3\n';
      expect(cluster.read('calls')).toContain(call);
    }
  });
});

describe('kubectl fairlead bundle', () => {
  it('makes one archive with a folder for each node, and removes tokens from logs', async () => {
    const token = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl';
    const evil = ['file ../../evil', 'text out', 'file .hidden', 'text out', 'file plain.txt'];
    const cluster = new PaperCluster()
      .node('a', report('file status.json', 'part {"a', 'text ":1}', 'text -', 'text more'))
      .node('b', report(...evil, 'text \u001b[2Jfine'))
      .node('c', '', 'Pending')
      .log(`asked with Authorization: Bearer ${token}\nhttps://user:secret@host/ ${token}\n`);
    const { code, stdout } = await cluster.ask('bundle', '-f', 'x.tar.gz');
    expect([code, stdout]).toEqual([1, 'x.tar.gz: 2 of 3 nodes answered\n']);
    const tar = (...args: string[]): string =>
      execFileSync('tar', args, { cwd: cluster.path, encoding: 'utf8' });
    const names = tar('-tzf', 'x.tar.gz').trim().split('\n');
    expect(names.filter((name) => !name.endsWith('/')).sort()).toEqual([
      'fairlead-bundle/cluster.txt',
      ...['log.txt', 'previous-log.txt', 'status.json'].map((f) => `fairlead-bundle/nodes/a/${f}`),
      ...['log.txt', 'plain.txt', 'previous-log.txt'].map((f) => `fairlead-bundle/nodes/b/${f}`),
      ...['log.txt', 'no-answer.txt', 'previous-log.txt'].map(
        (f) => `fairlead-bundle/nodes/c/${f}`,
      ),
    ]);
    expect(tar('-xzOf', 'x.tar.gz', 'fairlead-bundle/nodes/a/status.json')).toBe(
      '{"a":1}\n\nmore\n',
    );
    const all = tar('-xzOf', 'x.tar.gz');
    expect(all).toContain('Bearer [redacted]');
    for (const secret of [token, 'secret', 'c2lnbmF0dXJl', '\u001b'])
      expect(all).not.toContain(secret);
  });
});

describe('kubectl fairlead bundle with a process that hangs', () => {
  it('names the node, and contains everything else', async () => {
    const cluster = new PaperCluster()
      .node('a', report('file status.json', 'text could~not~be~read:~timeout', 'file x.txt'))
      .node('b', report('file status.json', 'text {}'));
    const { code, stdout } = await cluster.ask('bundle', '-f', 'x.tar.gz');
    expect([code, stdout]).toEqual([
      1,
      'x.tar.gz: 2 of 2 nodes answered\nThe process did not answer on: a\n',
    ]);
    const silent = await new PaperCluster().node('c', '', 'Pending').ask('bundle');
    expect([silent.code, silent.stderr]).toEqual([3, 'Error: its pod is Pending\n']);
  });
});

describe('kubectl fairlead', () => {
  it('exits with 2 for wrong usage, and asks no node', async () => {
    const cluster = new PaperCluster().node('a', statusReport());
    for (const args of [
      [],
      ['sttaus'],
      ['status', '--colour'],
      ['status', 'x'],
      ['service'],
      ['service', 'a/b/c'],
      ['service', '$(id)'],
      ['status', '--timeout', 'x'],
      ['bundle', '-f', 'x.zip'],
      ['explain', '--', 'x'],
      ['trace', 'shop/web:80', '--node'],
    ]) {
      const { code, stderr } = await cluster.ask(...args);
      expect([args, code]).toEqual([args, 2]);
      expect(stderr).toMatch(/^Error: .+\nSee 'kubectl fairlead --help'\n$/);
    }
    expect(cluster.read('calls')).toBe('');
  });

  it('asks no pod that only has the labels of Fairlead', async () => {
    const pod = (hostNetwork: string): string =>
      `a\taaa\tfairlead-x\t2026-11-28T12:00:00Z\t\t${hostNetwork}\t\tfairlead\n`;
    const cluster = new PaperCluster().node('a', statusReport()).object('pods', pod(''));
    const { code, stdout } = await cluster.ask('status', '--no-headers');
    expect([code, rows(stdout)[0]]).toEqual([0, ['a', ...usual]]);
    const privileged = new PaperCluster().node('a', statusReport()).object('pods', pod('true'));
    const refused = await privileged.ask('status');
    expect([refused.code, refused.stdout, refused.stderr]).toEqual([
      3,
      '',
      'Error: pods with the labels app.kubernetes.io/name=fairlead are in several namespaces ' +
        '(kube-system aaa): give --fairlead-namespace\n',
    ]);
    expect(cluster.read('calls') + privileged.read('calls')).not.toContain('fairlead-x');
  });

  it('reads no pod of another node from what a kubelet says of its own pod', async () => {
    const forged = 'x\nhonest\tkube-system\tfairlead-bad\tRunning\t\t\ttrue\nz';
    const cluster = new PaperCluster().node('bad', statusReport(), `Pending ${forged}`);
    const { code, stdout, stderr } = await cluster.node('honest', statusReport()).ask('status');
    expect([code, stderr]).toEqual([1, '']);
    expect(rows(stdout).slice(1, 3)).toEqual([
      ['bad', 'no answer', '-', '-', '-', '-', '-', '-', 'its pod is x'],
      ['honest', ...usual],
    ]);
    expect(cluster.read('calls')).not.toContain('exec -n kube-system fairlead-bad');
    const fields = [...cluster.read('calls').matchAll(/get pods .*jsonpath=(.*)/g)];
    expect(fields.map(([, path]) => path)).toEqual([
      expect.not.stringMatching(/phase|reason|message|labels|annotations/),
    ]);
  });

  it.each([
    ['too few', 'b\tkube-system\tfairlead-b\t\ttrue\t\tfairlead\n'],
    ['too many', 'b\tkube-system\tfairlead-b\t\t\ttrue\t\tfairlead\t\n'],
  ])('asks no node if a line of the list of pods has %s fields', async (_, line) => {
    const cluster = new PaperCluster().node('a', statusReport()).object('pods', line);
    const { code, stdout, stderr } = await cluster.ask('status');
    const error = 'Error: the list of pods has a line that does not have eight fields\n';
    expect([code, stdout, stderr]).toEqual([3, '', error]);
    expect(cluster.read('calls')).not.toContain('exec');
  });

  it('exits with 3 if no node is reachable', async () => {
    const silent = new PaperCluster().node('a', report('unreachable nobody~answers'));
    for (const word of ['status', 'problems', 'diff']) {
      expect((await silent.ask(word)).code).toBe(3);
    }
    const none = await new PaperCluster().node('a', '').ask('status', '--node', 'b');
    expect([none.code, none.stderr]).toEqual([
      3,
      'Error: no pod with the labels app.kubernetes.io/name=fairlead or k8s-app=kube-proxy on node b\n',
    ]);
  });

  it('has the version of the program', async () => {
    const { code, stdout } = await new PaperCluster().ask('version');
    expect([code, stdout]).toEqual([0, `kubectl-fairlead ${fairleadVersion}\n`]);
  });

  it('passes each of kubectl’s arguments as one word', async () => {
    const cluster = new PaperCluster().node('a', statusReport());
    await cluster.ask('status', '--context', "it's; $(id)", '--as=me you');
    const [first] = cluster.read('calls').split('\n');
    expect(first).toMatch(/^--context=it's; \$\(id\) --as=me you get pods -A /);
  });
});
