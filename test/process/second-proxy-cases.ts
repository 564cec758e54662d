/** Two proxies on one node: each has its Services, tables, lock and cleanup. */
import { spawn } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import type { ModeName } from '../../src/modes/mode-table.ts';
import { clusterIp, NODE_IP, POD_A_IP, POD_B_IP } from '../lab/addresses.ts';
import { type KubernetesObject, service, slices } from '../lab/objects.ts';
import { inForce, listens, Place, Program } from './program.ts';

const name = 'blue';
const labels = { 'service.kubernetes.io/service-proxy-name': name };
const second: readonly KubernetesObject[] = [
  service('second', { clusterIp: clusterIp(20), labels }),
  ...slices('second', ['pod-b']),
  service('empty', { clusterIp: clusterIp(21), labels }),
];

async function makePlace(): Promise<Place> {
  const place = await Place.make();
  const { namespace } = place;
  for (const own of [NODE_IP, POD_A_IP, POD_B_IP]) {
    await namespace.run('ip', ['address', 'add', own.IPv4, 'dev', 'lo']);
  }
  const commands = ['link add out type veth peer name in', 'link set out up', 'link set in up'];
  commands.push(`route add 10.96.0.0/16 dev out src ${NODE_IP.IPv4}`);
  for (const command of commands) await namespace.run('ip', command.split(' '));
  const server =
    "require('node:net').createServer((s) => s.end(s.localAddress)).listen(8080, '0.0.0.0')";
  const argv = ['netns', 'exec', namespace.name, process.execPath, '-e', server];
  const child = spawn('ip', argv);
  onTestFinished(() => void child.kill('SIGKILL'));
  await listens(namespace, 8080);
  place.apply(['pod-a'], ...second);
  return place;
}

const own = ['--proxy-mode=nftables', `--service-proxy-name=${name}`];

function startSecond({ manifests, namespace }: Place): Program {
  return new Program(namespace, [
    ...[...own, `--manifests=${manifests}`, '--hostname-override=node', '--logging-format=json'],
    ...['--healthz-bind-address=127.0.0.1:10266', '--metrics-bind-address=127.0.0.1:10259'],
    ...['--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0s'],
    '--conntrack-tcp-timeout-close-wait=0s',
  ]);
}

/** Who answers at the ClusterIP; `refused` if it refuses. */
function answer({ namespace }: Place, host: number): Promise<string> {
  const asks = `exec 3<>/dev/tcp/10.96.0.${host}/80 && cat <&3`;
  const words = ['20', 'bash', '-c', `{ ${asks}; } 2>&1 || true`];
  return namespace.run('timeout', words).then((said) => (/refused/.test(said) ? 'refused' : said));
}

async function tables({ namespace }: Place): Promise<string[]> {
  const listed = await namespace.run('nft', ['list', 'tables']);
  return [...listed.matchAll(/^table ip (fairlead\S*)$/gm)].map(([, table]) => table!).sort();
}

async function serve(place: Place): Promise<void> {
  expect(await answer(place, 10)).toBe(POD_A_IP.IPv4);
  expect(await answer(place, 20)).toBe(POD_B_IP.IPv4);
}

/** The first proxy is in this mode. */
export function secondProxyCases(mode: ModeName): void {
  test('two proxies serve the Services that labels give them, and leave each other alone', async () => {
    const place = await makePlace();
    const first = place.start(`--proxy-mode=${mode}`);
    await first.logged(inForce, 2);
    const other = startSecond(place);
    await other.logged(inForce, 2);
    expect(await tables(place)).toEqual(['fairlead', `fairlead.${name}`]);
    await serve(place);
    // The first one drops what is for no Service that it knows.
    expect(await answer(place, 21)).toBe('refused');

    const before = await place.ruleset();
    for (const [running, start] of [
      [first, () => place.start(`--proxy-mode=${mode}`)],
      [other, () => startSecond(place)],
    ] as const) {
      running.kill('SIGTERM');
      expect(await running.exitCode).toBe(0);
      await start().logged(inForce, 2);
      expect(await place.ruleset()).toBe(before);
    }
    const third = startSecond(place);
    await third.logged('Another instance runs in this network namespace; waiting for it to exit');
    await serve(place);
  });

  test('--cleanup removes what the proxy of this name has made, and nothing of the other', async () => {
    const place = await makePlace();
    const first = place.start(`--proxy-mode=${mode}`);
    await first.logged(inForce, 2);
    const other = startSecond(place);
    await other.logged(inForce, 2);
    const clean = async (...flags: readonly string[]): Promise<void> => {
      const cleanup = new Program(place.namespace, ['--cleanup', ...flags]);
      expect(await cleanup.exitCode, cleanup.words).toBe(0);
    };
    other.kill('SIGTERM');
    await other.exitCode;
    await clean(...own);
    expect(await tables(place)).toEqual(['fairlead']);
    expect(await answer(place, 10)).toBe(POD_A_IP.IPv4);

    const again = startSecond(place);
    await again.logged(inForce, 2);
    first.kill('SIGTERM');
    await first.exitCode;
    await clean();
    expect(await tables(place)).toEqual([`fairlead.${name}`]);
    expect(await answer(place, 20)).toBe(POD_B_IP.IPv4);
  });
}
