/** External IPs that are addresses of the node: ports of its programs stay theirs. */
import { spawn } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import type { Namespace } from '../conformance/namespace.ts';
import { NODE_IP } from '../lab/addresses.ts';
import { service, slices } from '../lab/objects.ts';
import { inForce, Place, until } from './program.ts';

/** An address of the node that its Node object does not have, as keepalived gives one to a node. */
const virtual = { IPv4: '192.0.2.10' };

/** A program of the node that listens on all addresses of both families, as the kubelet does. */
async function listen({ name, run }: Namespace, port: number): Promise<void> {
  const server = `require('node:net').createServer().listen(${port}, '::')`;
  const child = spawn('ip', ['netns', 'exec', name, process.execPath, '-e', server]);
  onTestFinished(() => void child.kill('SIGKILL'));
  const listed = () => run('ss', ['-Hltn', `sport = :${port}`]);
  await until(async () => (await listed()) !== '', `something listens on port ${port}`);
}

test('an external IP takes no port from a program of the node, whenever that begins', async () => {
  const place = await Place.make();
  for (const own of [NODE_IP.IPv4, NODE_IP.IPv6, virtual.IPv4]) {
    await place.namespace.run('ip', ['address', 'add', own, 'dev', 'lo']);
  }
  await listen(place.namespace, 10_250);
  const ports = [
    { name: 'kubelet', port: 10_250 },
    { name: 'later', port: 10_255 },
    { name: 'free', port: 10_260 },
  ];
  const externalIps = [NODE_IP, virtual];
  const thief = service('thief', {
    clusterIp: { IPv4: '10.96.0.66', IPv6: 'fd00:96::66' },
    externalIps,
    ports,
  });
  const of = ports.map(({ name }) => ({ name, port: 8080 }));
  place.apply(['pod-a'], thief, ...slices('thief', ['pod-b'], { ports: of }));
  const program = place.start();
  await program.logged(inForce, 2);
  const taken = async (): Promise<string[]> => {
    const found = (await place.ruleset()).matchAll(
      /(192\.168\.10\.1|192\.0\.2\.10|fd00:10::1) \. tcp \. (\d+)(?= : goto| comment)/g,
    );
    return [...found].map(([, at, port]) => `${at} ${port}`).sort();
  };
  const own = (port: number) => [`192.168.10.1 ${port}`, `fd00:10::1 ${port}`];
  const atVirtual = ports.map(({ port }) => `${virtual.IPv4} ${port}`);
  expect(await taken()).toEqual([...atVirtual, ...own(10_255), ...own(10_260)].sort());
  const said = () =>
    program.lines
      .filter(({ msg }) => msg === 'Frontend is already in use by another Service')
      .map(({ err }) => String(err));
  const lost = (port: string, at: string) =>
    `default/thief:${port} does not get TCP ${at}, which a program of the node holds`;
  expect(said().sort()).toEqual([
    lost('kubelet', '192.168.10.1:10250'),
    lost('kubelet', '[fd00:10::1]:10250'),
  ]);

  await listen(place.namespace, 10_255);
  await until(async () => (await taken()).length === 5, 'the port is given back');
  expect(await taken()).toEqual([...atVirtual, ...own(10_260)].sort());
  expect(said()).toContain(lost('later', '192.168.10.1:10255'));

  // The operator gives Services all addresses and ports, as kube-proxy does.
  place.configure({ externalIPs: { cidrs: ['0.0.0.0/0', '::/0'] } });
  await until(async () => (await taken()).length === 9, 'all ports lead to the Service');
});
