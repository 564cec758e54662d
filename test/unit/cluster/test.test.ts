/** `kubectl fairlead test`: what it makes, what it prints of what its pods report, what it removes. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { PaperCluster, rows } from './cluster.ts';

const removal = 'delete namespace fairlead-test';

/** Two nodes that are ready, and one that is not. */
function cluster(): PaperCluster {
  const nodes = 'True n1 192.0.2.1 2001:db8::1\nTrue n2 192.0.2.2\nFalse n3 192.0.2.3\n';
  return new PaperCluster()
    .node('n1', '')
    .object('nodes', nodes)
    .object('pod', 'example.org/fairlead:1')
    .object('serviceaccount', '')
    .object('services,pods', '{}')
    .object('services', '')
    .object('service', '10.96.0.4 fd00::4');
}

/** What pods report, as the kubelet's message is printed: `NETWORK NODE LINE…`. */
function reports(of: PaperCluster, ...pods: readonly string[][]): PaperCluster {
  const quoted = pods.map(([network, node, ...lines]) => {
    return `${network} ${node} ${JSON.stringify([...lines, ''].join('\n'))}\n`;
  });
  writeFileSync(join(of.path, 'reports'), quoted.join(''));
  return of;
}

const sound = ['pass\tClusterIP\t4', 'end'];
const all = ['n1', 'n2'].flatMap((node) => [
  ['pod', node, ...sound],
  ['node', node, ...sound],
]);

describe('kubectl fairlead test', () => {
  it('tries from each ready node and from a pod there, and removes all', async () => {
    const paper = reports(cluster(), ...all);
    const { code, stderr, stdout } = await paper.ask('test');
    expect(rows(stdout)).toEqual([
      ['Not tested, since it is not ready: n3'],
      ['RESULT', 'FROM PODS', 'FROM NODES', 'FROM HERE', 'CHECK'],
      ['pass', '2 of 2', '2 of 2', '-', 'ClusterIP'],
    ]);
    expect([code, stderr]).toEqual([0, 'Removing namespace fairlead-test\n']);
    const objects = parseAllDocuments(paper.read('made')).map((one) => one.toJS());
    const pods = objects.filter((one) => one?.kind === 'Pod');
    expect(pods.map(({ metadata: { name }, spec }) => [name, spec.nodeName])).toEqual([
      ['server-1', 'n1'],
      ['server-2', 'n2'],
      ['pod-1', 'n1'],
      ['node-1', 'n1'],
      ['pod-2', 'n2'],
      ['node-2', 'n2'],
    ]);
    for (const { metadata, spec } of pods) {
      expect(spec.hostNetwork).toBe(metadata.name.startsWith('node-'));
      expect([spec.tolerations, spec.automountServiceAccountToken]).toEqual([
        [{ operator: 'Exists' }],
        false,
      ]);
      const [{ command, image, securityContext }] = spec.containers;
      expect(image).toBe('example.org/fairlead:1');
      expect(command[0]).toBe('fairlead');
      expect({ ...spec.securityContext, ...securityContext }).toMatchObject({
        runAsNonRoot: true,
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
      });
    }
    const services = objects.filter((one) => one?.kind === 'Service');
    expect(services.map(({ metadata }) => metadata.name)).toEqual([
      ...['plain', 'affinity', 'empty', 'local'],
    ]);
    expect(services.every(({ spec }) => spec.ports[1].protocol === 'UDP')).toBe(true);
    const { externalTrafficPolicy, loadBalancerClass, type } = services[3].spec;
    expect([type, externalTrafficPolicy]).toEqual(['LoadBalancer', 'Local']);
    expect(loadBalancerClass).toBe('fairlead.io/none');
    const commands = pods.slice(0, 2).map((one) => one.spec.containers[0].command.slice(1));
    expect(commands).toEqual([['test-server', '10.96.0.4/80', 'fd00::4/80'], ['test-server']]);
    expect(paper.read('calls').trimEnd().split('\n').at(-1)).toContain(removal);
  });

  it('lists what failed, explains it on the node that decides, and exits with 1', async () => {
    const failure = 'fail\tClusterIP\t10.96.0.1:80/TCP\tn1\tpod\ttimed out';
    const forged = 'x" \\n@ pod n2 "pass\tClusterIP';
    const paper = reports(
      cluster().script('n1', 'echo "It is dropped. ($*)"; exit 1'),
      ['pod', 'n1', failure, ...sound],
      ['node', 'n1', ...sound],
      ['pod', 'n2', 'ImagePullBackOff'],
      ['node', 'n2', `more\t7\u001b${forged}`, ...sound],
    );
    const { code, stdout } = await paper.ask('test', '--no-headers');
    const printed = rows(stdout);
    expect(printed.slice(1, 4).sort()).toEqual(
      [
        ['FAIL', '0 of 1', '-', '-', 'all'],
        ['FAIL', '0 of 1', '2 of 2', '-', 'ClusterIP'],
        ['FAIL', '-', '0 of 1', '-', 'others'],
      ].sort(),
    );
    expect(printed).toContainEqual(['n1', 'pod', 'ClusterIP', '10.96.0.1:80/TCP', 'timed out']);
    const silent = 'its pod has reported nothing: ImagePullBackOff';
    expect(stdout).toContain(silent);
    expect(stdout).toContain('explain 10.96.0.1:80/TCP --from pod\nOn node n1:\nIt is dropped. (');
    expect(stdout).not.toMatch(/[^\n -~]/);
    expect(
      paper
        .read('calls')
        .split('\n')
        .filter((call) => call.startsWith('exec ')),
    ).toEqual([expect.stringContaining('-- fairlead explain 10.96.0.1:80/TCP --from pod')]);
    expect([code, paper.read('calls').includes(removal)]).toEqual([1, true]);
  });

  it('tests one node, with a server on another one, and the addresses that it is given', async () => {
    const paper = reports(cluster(), ...all);
    const args = ['--node', 'n2', '--external-ip', '198.51.100.1', '--load-balancer'];
    await paper.ask('test', ...args, '--image', 'example.org/other');
    const made = paper.read('made');
    expect(made.match(/name: (pod|node|server)-\d|nodeName: .*/g)).toEqual([
      ...['name: server-1', 'nodeName: "n2"', 'name: server-2', 'nodeName: "n1"'],
      ...['name: pod-1', 'nodeName: "n2"', 'name: node-1', 'nodeName: "n2"'],
    ]);
    expect(made).toContain('externalIPs: ["198.51.100.1"]');
    expect(made).toContain('type: LoadBalancer');
    expect(made).toContain('image: "example.org/other"');
    const unknown = await paper.ask('test', '--node', 'n3');
    expect([unknown.code, unknown.stderr]).toEqual([3, 'Error: n3 is not ready\n']);
  });

  it.each([
    ['servers that do not start', 'late', 3, true],
    ['a signal', 'stopped', 130, true],
    ['the namespace of another test', 'exists', 3, false],
  ])('ends at %s, and removes what it has made', async (_, file, expected, isRemoved) => {
    const paper = cluster();
    writeFileSync(join(paper.path, file), '');
    const { code } = await paper.ask('test');
    expect(code).toBe(expected);
    expect(paper.read('calls').includes(removal)).toBe(isRemoved);
    expect(paper.read('made')).not.toContain('name: pod-1');
  });

  it('removes with --cleanup what a test has left, and no namespace that is not of a test', async () => {
    const paper = cluster();
    const remove = async (labels?: string) => {
      if (labels !== undefined) paper.object('namespace', labels);
      const { code } = await paper.ask('test', '--cleanup');
      return [code, paper.read('calls').includes(removal)];
    };
    expect(await remove()).toEqual([0, false]);
    expect(await remove('{"app.kubernetes.io/part-of":"shop"}')).toEqual([3, false]);
    expect(await remove('{"app.kubernetes.io/part-of":"fairlead-test"}')).toEqual([0, true]);
  });
});
