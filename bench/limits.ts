/**
 * What does a client that opens 50,000 connections a second to Services cost others, and how much
 * of connection tracking does it fill? Without limits, with Fairlead's for each client, and with
 * `hashlimit` and `connlimit` of iptables at the same numbers. And what do limits cost a connection
 * that they let through?
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildPrograms, type Cost, connectLoop as program } from './connect.ts';
import { NodeStage, near } from './lib/node-stage.ts';
import { number, ratio, table } from './lib/stats.ts';

const flood = { perSecond: 50_000, seconds: 5 };
const rounds = 3;
const port = 8080;
/** The flood has more connections than one address has ports for. */
const services = 10;
const clusterIP = (i: number): string => `10.96.0.${i + 1}`;
const entriesMax = Number(readFileSync('/proc/sys/net/netfilter/nf_conntrack_max', 'utf8'));
const percent = 10;
/** Of the share, as Fairlead divides it. */
const [open, burst] = [2, 4].map((part) => Math.floor((entriesMax * percent) / 100 / part));

interface Way {
  readonly name: string;
  readonly flags?: readonly string[];
  /** Of iptables, in table mangle. */
  readonly rules?: readonly string[];
  readonly isFlooded: boolean;
}

const match = 'PREROUTING -d 10.96.0.0/16 -p tcp --syn -m';
const ways: readonly Way[] = [
  { name: 'no flood', isFlooded: false },
  { name: 'no limits', isFlooded: true },
  {
    name: `clientShare: ${percent}`,
    flags: [`--client-conntrack-share=${percent}`],
    isFlooded: true,
  },
  {
    name: 'hashlimit, connlimit',
    rules: [
      `-A ${match} hashlimit --hashlimit-name bench --hashlimit-mode srcip --hashlimit-above ${Math.floor(burst! / 2)}/minute --hashlimit-burst ${burst} -j DROP`,
      `-A ${match} connlimit --connlimit-above ${open} --connlimit-saddr -j DROP`,
    ],
    isFlooded: true,
  },
];

/** Of others, in milliseconds, and what the flood has come to. */
interface Run {
  readonly p50: number;
  readonly p99: number;
  readonly failed: number;
  readonly entries: number;
  readonly flooded: number;
}

export async function limits(): Promise<string> {
  buildPrograms();
  const stage = new NodeStage();
  try {
    await stage.open('veth', port);
    stage.say(
      ...Array.from({ length: services }, (_, i) => {
        return {
          name: `s${i}`,
          clusterIP: clusterIP(i),
          target: port,
          addresses: near.slice(0, 1),
        };
      }),
    );
    // Who floods takes no answer: entries stay as long as the kernel keeps them.
    const silent =
      'table ip silent { chain input { type filter hook input priority 0; tcp sport 80 drop; }; }';
    stage.sides.far.run('nft', ['-f', '-'], silent);
    inClient(stage, 'sysctl', '-qw', 'net.ipv4.tcp_syn_retries=1');
    return [await flooding(stage), await connecting(stage)].join('\n\n');
  } finally {
    await stage.close();
  }
}

async function flooding(stage: NodeStage): Promise<string> {
  const runs = new Map<Way, Run[]>(ways.map((way) => [way, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const [way, own] of runs) own.push(await started(stage, way, () => measured(stage, way)));
  }
  const rows = Array.from(runs, ([{ name }, own]) => {
    const median = (what: keyof Run): number => {
      return own.map((one) => one[what]).sort((a, b) => a - b)[Math.floor(rounds / 2)]!;
    };
    const share = `${number((100 * median('entries')) / entriesMax)} %`;
    const values = (['p50', 'p99', 'failed', 'flooded'] as const).map(median);
    return [name, ...values.map(number), share];
  });
  const title = `A client opens ${flood.perSecond} connections a second for ${flood.seconds} s to ${services} Services; another opens one each ms; medians of ${rounds}`;
  const head = ['limits', "other's connect p50 ms", 'p99', 'failed', 'SYNs a second', 'of entries'];
  return `${title}\n\n${table(head, rows)}`;
}

/** Runs the program and the rules in the meantime. */
async function started<T>(stage: NodeStage, way: Omit<Way, 'isFlooded'>, work: () => Promise<T>) {
  stage.start('--proxy-mode=nftables', ...(way.flags ?? []));
  inClient(stage, program, 'until', clusterIP(services - 1), '80', '50', '120000');
  // The table of limits follows the rules.
  await sleep(2000);
  const restore = (lines: readonly string[]): void => {
    const input = ['*mangle', ...lines, 'COMMIT', ''].join('\n');
    stage.node.run('iptables-restore', [], input);
  };
  restore(way.rules ?? []);
  try {
    return await work();
  } finally {
    restore([]);
    await stage.stop();
  }
}

async function measured(stage: NodeStage, { isFlooded }: Way): Promise<Run> {
  const argv = ['-t', `${stage.clientPid}`, '-n', program, 'pace', 'new', clusterIP(0), '80'];
  const others = spawn('nsenter', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
  const said = text(others.stdout);
  let flooded = 0;
  if (isFlooded) {
    const { perSecond, seconds } = flood;
    const of = [clusterIP(0), services, '80', perSecond, seconds].map(String);
    const argv = ['netns', 'exec', stage.sides.far.name, program, 'flood', ...of];
    const flooder = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
    flooded = (JSON.parse(await text(flooder.stdout)) as { perSecond: number }).perSecond;
  } else await sleep(flood.seconds * 1000);
  const entries = Number(stage.node.run('conntrack', ['-C']));
  others.stdin.end();
  await once(others, 'exit');
  const found = JSON.parse(await said) as { p50Us: number; p99Us: number; failed: number };
  return {
    p50: found.p50Us / 1000,
    p99: found.p99Us / 1000,
    failed: found.failed,
    entries,
    flooded,
  };
}

/** What a connection costs that limits let through. */
async function connecting(stage: NodeStage): Promise<string> {
  const costs = new Map<string, Cost[]>();
  const cases = { off: [], on: ['--client-conntrack-share=50', '--namespace-conntrack-share=90'] };
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, flags] of Object.entries(cases)) {
      const connect = async (): Promise<Cost> =>
        JSON.parse(inClient(stage, program, 'connect', clusterIP(0), '80', '4000')) as Cost;
      const cost = await started(stage, { name, flags }, connect);
      costs.set(name, [...(costs.get(name) ?? []), cost]);
    }
  }
  const best = (name: keyof typeof cases): number =>
    Math.min(...costs.get(name)!.map(({ p50Us }) => p50Us));
  const row = [number(best('off')), number(best('on')), ratio(best('on'), best('off'))];
  return `A connection without and with limits for clients and namespaces; p50 µs, best of ${rounds}

${table(['off', 'on', 'ratio'], [row])}`;
}

function inClient(stage: NodeStage, ...argv: readonly string[]): string {
  return execFileSync('nsenter', ['-t', `${stage.clientPid}`, '-n', ...argv], { encoding: 'utf8' });
}
