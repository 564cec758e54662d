/**
 * `fairlead shadow` together with upstream's kube-proxy, in each of its modes, on 2,000 mixed Services of a
 * fake API server in a network namespace. Needs root, and `KUBE_PROXY`, the path of its binary.
 * Exits with 1 if a false difference is reported, or one of 50 planted ones is not reported.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { FakeApi } from '../fake/api-server-process.ts';
import { runKubeProxy } from '../worlds/kube-proxy.ts';
import { misjudged, type Said } from './findings.ts';
import {
  clusterCIDR,
  mixedObjects,
  nodeName,
  type Raw,
  recordedServices,
  slicesOf,
  surroundings,
} from './mixed.ts';
import { type Plant, plants } from './plants.ts';

const { RECORD: directory, SERVICES: count = '2000' } = process.env;
const services =
  directory === undefined ? Array.from({ length: Number(count) }, (_, i) => i) : recordedServices;
const plantsWanted = Math.min(50, Math.floor(services.length / 3));
const main = resolve(import.meta.dirname, '..', '..', 'src', 'main.ts');
const namespace = { name: `fairlead-shadow-${process.pid}` };

interface Answer extends Said {
  readonly seconds: number;
  readonly exitCode: number | null;
}

async function shadow(kubeconfig: string, settle: string): Promise<Answer> {
  const argv = [
    `--kubeconfig=${kubeconfig}`,
    `--hostname-override=${nodeName}`,
    `--cluster-cidr=${clusterCIDR}`,
    `--settle=${settle}`,
  ];
  const words = ['netns', 'exec', namespace.name, process.execPath, main, 'shadow', ...argv];
  const startMs = performance.now();
  const child = spawn('ip', [...words, '-o', 'json'], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (part) => {
    text += String(part);
  });
  const [exitCode] = (await once(child, 'close')) as [number | null];
  if (text === '') throw new Error(`shadow said nothing, and ended with ${exitCode}`);
  const seconds = (performance.now() - startMs) / 1000;
  return { ...(JSON.parse(text) as Said), seconds, exitCode };
}

function say(what: string, { frontends, differences, unread, unsettled, seconds }: Answer): void {
  const counts = `${differences.length} differences, ${unsettled} unsettled, ${unread.length} unread`;
  console.log(`${what}: ${frontends} frontends, ${counts}, ${seconds.toFixed(1)} s`);
}

const listings = {
  nftables: [['nft', 'list', 'ruleset']],
  iptables: [['iptables-nft-save'], ['ip6tables-nft-save']],
} as const;
type Mode = keyof typeof listings;

/** Writes down what kube-proxy has programmed, where `RECORD` names a directory for it. */
function record(mode: Mode): void {
  if (directory === undefined) return;
  for (const [program, ...args] of listings[mode]) {
    const words = ['netns', 'exec', namespace.name, program, ...args];
    const text = execFileSync('ip', words, { encoding: 'utf8', maxBuffer: 1 << 30 });
    // Comments contain the time.
    writeFileSync(join(directory, `${program}.txt`), text.replace(/^(#.*)?\n/gm, ''));
  }
}

/** Replaces an endpoint twenty times a second. */
async function churn(api: FakeApi, durationMs: number): Promise<void> {
  const untilMs = performance.now() + durationMs;
  for (let i = 0; performance.now() < untilMs; i += 1) {
    const [slice] = slicesOf(services[i % services.length]!);
    const [first, ...rest] = slice!.endpoints as Raw[];
    if (slice!.addressType !== 'IPv4' || first === undefined) continue;
    const moved = { ...first, addresses: [`10.250.${(i >> 8) & 255}.${i & 255}`] };
    await api.ask({ do: 'apply', object: { ...slice, endpoints: [moved, ...rest] } });
    await sleep(50);
  }
}

async function put(api: FakeApi, { apply, isDeleted, service: key }: Plant): Promise<void> {
  for (const object of apply) await api.ask({ do: 'apply', object });
  if (isDeleted) await api.ask({ do: 'delete', resource: 'services', key });
}

async function beside(mode: Mode, binary: string): Promise<string[]> {
  execFileSync('ip', ['netns', 'add', namespace.name]);
  execFileSync('ip', ['-n', namespace.name, 'link', 'set', 'lo', 'up']);
  const api = await FakeApi.start(namespace);
  let proxy: ChildProcess | undefined;
  try {
    for (const object of surroundings) await api.ask({ do: 'apply', object });
    for (const object of mixedObjects(services)) await api.ask({ do: 'apply', object });
    const of = [`--kubeconfig=${api.kubeconfig}`, `--hostname-override=${nodeName}`];
    const flags = [...of, `--cluster-cidr=${clusterCIDR}`, `--proxy-mode=${mode}`];
    proxy = runKubeProxy(binary, namespace.name, flags);
    const quiet = await shadow(api.kubeconfig, '60s');
    say(`${mode}, nothing changes`, quiet);
    record(mode);
    const churning = churn(api, 15_000);
    const busy = await shadow(api.kubeconfig, '10s');
    say(`${mode}, 20 changes a second`, busy);
    await churning;
    for (const object of mixedObjects(services)) await api.ask({ do: 'apply', object });
    const after = await shadow(api.kubeconfig, '60s');
    say(`${mode}, after that`, after);
    // From now on no program's rules follow the cluster.
    const stopped = once(proxy, 'exit');
    proxy.kill('SIGKILL');
    await stopped;
    const planted = plants(services, plantsWanted);
    for (const plant of planted) await put(api, plant);
    const stale = await shadow(api.kubeconfig, '2s');
    say(`${mode}, ${planted.length} Services are stale`, stale);
    return [
      ...[quiet, busy, after].flatMap((said) => misjudged(said, [])),
      ...misjudged(stale, planted),
      ...(planted.length === plantsWanted ? [] : [`only ${planted.length} could be planted`]),
      ...(stale.exitCode === 1 ? [] : [`ended with ${stale.exitCode}, in spite of differences`]),
    ].map((line) => `${mode}: ${line}`);
  } finally {
    proxy?.kill('SIGKILL');
    await api.close();
    execFileSync('ip', ['netns', 'del', namespace.name]);
  }
}

const { KUBE_PROXY: binary } = process.env;
if (binary === undefined) throw new Error('KUBE_PROXY is not the path of a kube-proxy');
const wrong: string[] = [];
for (const mode of ['nftables', 'iptables'] as const) wrong.push(...(await beside(mode, binary)));
for (const line of wrong) console.error(line);
process.exitCode = wrong.length === 0 ? 0 : 1;
