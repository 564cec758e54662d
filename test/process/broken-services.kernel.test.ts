/** Each broken Service is named by a command, and packets meet what it says. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { clusterIp, NODE_IP, POD_A_IP, POD_B_IP, POD_C_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { DEFAULT_CLUSTER_CIDR } from '../lab/objects.ts';
import { answerMs, paced } from '../lab/pace.ts';
import {
  behindNobody,
  blackhole,
  crowdedPort,
  guardedIP,
  guardedPort,
  narrowPort,
  nobody,
  prohibited,
  type Situation,
  situations,
  takenIP,
} from './broken-services.ts';
import { main } from './main.ts';
import { outputOf } from './output-of.ts';
import { inForce, listens, Place } from './program.ts';

let lab: Lab;

beforeAll(async () => {
  lab = await createLab();
  const { 'pod-a': a, 'pod-c': c } = lab.actors;
  await a.listen('TCP', POD_A_IP.IPv4, 8080);
  await a.listen('TCP', POD_A_IP.IPv4, guardedPort);
  await c.listen('TCP', POD_C_IP.IPv4, 8080);
  await c.listen('TCP', POD_C_IP.IPv4, narrowPort);
  await a.listen('UDP', POD_A_IP.IPv4, narrowPort);
  await loseLargePackets();
  await crowd();
});

/** On the way to pod-c, as a tunnel with a small MTU does; and datagrams to pod-b. */
async function loseLargePackets(): Promise<void> {
  const lossy = (rule: string) =>
    `table ip lossy { chain in { type filter hook prerouting priority -350; ${rule} drop; }; }`;
  const { node2, 'pod-b': b } = lab.actors;
  await node2.run(['nft', '-f', '-'], lossy(`tcp dport ${narrowPort} meta length > 1000`));
  await b.run(['nft', '-f', '-'], lossy(`ip daddr ${POD_B_IP.IPv4} udp dport ${narrowPort}`));
}

/** A program of the node that listens and sleeps; connections fill its queue. */
async function crowd(): Promise<void> {
  const at = JSON.stringify({ host: NODE_IP.IPv4, port: crowdedPort, backlog: 1 });
  const sleeps = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)';
  const code = `require('net').createServer().listen(${at}, () => { console.log(1); ${sleeps}; })`;
  const argv = ['netns', 'exec', lab.node.namespace, process.execPath, '-e', code];
  const child = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  const to = { address: NODE_IP.IPv4, port: crowdedPort };
  await lab.actors.node.connect({ protocol: 'TCP', to, timeoutMs: paced(300) }, 4);
}

afterAll(() => lab.close());

/** What a command says, run as `kubectl exec` runs it. */
async function said(args: readonly string[]) {
  const argv = ['netns', 'exec', lab.node.namespace, 'env', '-i', process.execPath, main, ...args];
  const child = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'pipe'] });
  return outputOf(child);
}

function wordsOf({ ask = ['service', 'show', 'default/S'], number }: Situation): string[] {
  const address = clusterIp(number).IPv4;
  return ask.map((word) => word.replace(/\bS\b/, `s-${number}`).replace(/\bIP\b/, address));
}

async function met({ from = 'pod-b', meets, number, protocol = 'TCP', to }: Situation) {
  const target = to ?? { address: clusterIp(number).IPv4, port: 80 };
  const timeoutMs = meets.includes('timeout') ? paced(700) : answerMs;
  const tally = await lab.actors[from].connect({ protocol, to: target, timeoutMs }, 4);
  return tally.map(({ outcome }) => outcome.kind);
}

/** What differs from what it should be; nothing, if it is so. */
async function judge(situation: Situation): Promise<object[]> {
  const { cause, code = 1, meets, name } = situation;
  const words = wordsOf(situation);
  const answer = await said(words);
  const isNamed =
    typeof cause === 'string' ? answer.stdout.includes(cause) : cause.test(answer.stdout);
  const kinds = await met(situation);
  const areExpected = kinds.length > 0 && kinds.every((kind) => meets.includes(kind));
  if (isNamed && answer.code === code && areExpected) return [];
  return [{ name, words: words.join(' '), ...answer, kinds }];
}

test('a command names the problem of each broken Service', async () => {
  const { namespace: name, namespacePath: path } = lab.node;
  const run = (program: string, args: readonly string[], input?: string) =>
    lab.node.run([program, ...args], input);
  const place = new Place({ name, path, run });
  place.configure({ clusterCIDR: DEFAULT_CLUSTER_CIDR, detectLocalMode: 'ClusterCIDR' });
  place.apply(['pod-a'], ...situations.flatMap(({ objects }) => objects));
  const program = place.start();
  await program.logged(inForce, 2);
  await listens(place.namespace, 10_249);
  await run('ip', ['route', 'add', 'blackhole', blackhole.IPv4]);
  await run('ip', ['route', 'add', 'prohibit', prohibited.IPv4]);
  await run('ip', ['route', 'add', behindNobody.IPv4, 'via', nobody]);
  const drop = `ip daddr ${POD_A_IP.IPv4} tcp dport ${guardedPort} drop`;
  const hooks = [
    `chain out { type filter hook output priority 10; ${drop}; }`,
    `chain through { type filter hook forward priority 10; ${drop}; }`,
    `chain early { type filter hook prerouting priority -300; ip daddr ${guardedIP} tcp dport { 80, 90-99 } drop; }`,
    `chain taken { type nat hook prerouting priority -105; ip daddr ${takenIP} tcp dport 80 redirect to :9; }`,
  ];
  await run('nft', ['-f', '-'], `table inet guard {\n${hooks.join('\n')}\n}`);

  const wrong: unknown[] = [];
  const left = [...situations];
  const work = async (): Promise<void> => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      wrong.push(...(await judge(one)));
      if (program.ended !== undefined) return;
    }
  };
  // Processes start slowly, and one waits for another's answers.
  await Promise.all([work(), work(), work(), work()]);
  const { ended, lines, words } = program;
  expect({ ended, words }, JSON.stringify(lines.slice(-5))).toEqual({
    ended: undefined,
    words: '',
  });
  expect(wrong).toEqual([]);
  expect(situations.length).toBeGreaterThanOrEqual(20);
  program.kill('SIGTERM');
  await program.exitCode;
}, 300_000);
