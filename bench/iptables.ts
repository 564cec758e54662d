/**
 * How long does mode iptables take to program a cluster from nothing, to restart, and to make one
 * change? It is compared with `iptables-restore --noflush` of the same rules.
 */
import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { iptablesMode } from '../src/modes/iptables/mode.ts';
import { objects, type Size, sizeName, slice } from './lib/cluster.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { type Rig, withRig } from './lib/rig.ts';
import { number, ratio, type Summary, summarise, table } from './lib/stats.ts';
import { timed } from './lib/timed.ts';

const sizes: readonly Size[] = [
  { services: 1000, endpoints: 10 },
  { services: 5000, endpoints: 10 },
  { services: 8000, endpoints: 30 },
  { services: 500, endpoints: 10, sticky: true },
  { services: 1000, endpoints: 10, sticky: true },
];
const replacements = 50;
/**
 * The pause between changes. Before the kernel adds a rule with a match or target of iptables, it
 * waits until it has destroyed what earlier transactions deleted (nft_compat_wait_for_destructors).
 * Without a pause, a change would also measure that wait.
 */
const pauseMs = 100;
const restoreLongestMs = 240_000;
const restoreRuns = 5;

/** Milliseconds. */
interface Ours {
  readonly load: number;
  readonly restart: number;
  readonly change: Summary;
  readonly changeAtOnce: Summary;
}

interface Restore {
  readonly load: number;
  readonly change: Summary;
}

export async function iptables(): Promise<string> {
  const rows: string[][] = [];
  for (const size of sizes) {
    const { ours, rules } = await measureOurs(size);
    rows.push(row(size, ours, await measureRestore(rules)));
  }
  const head = ['cluster', 'load', 'restore', 'ratio', 'restart', 'change p50', 'p99', 'at once'];
  return [
    'Mode iptables: full load, restart, and one endpoint replaced; beside iptables-restore; ms',
    table([...head, 'restore p50', 'ratio'], rows),
  ].join('\n\n');
}

function row(size: Size, ours: Ours, restore: Restore): string[] {
  return [
    sizeName(size),
    number(ours.load),
    number(restore.load),
    ratio(ours.load, restore.load),
    number(ours.restart),
    number(ours.change.p50),
    number(ours.change.p99),
    number(ours.changeAtOnce.p50),
    number(restore.change.p50),
    ratio(ours.change.p50, restore.change.p50),
  ];
}

async function measureOurs(size: Size): Promise<{ ours: Ours; rules: string }> {
  const changes = [...objects(size)];
  return inNamespace('load', async (namespace) => {
    const load = await withRig(namespace, (rig) => timed(() => rig.load(changes)), iptablesMode());
    const rules = namespace.run('iptables-nft-save', ['-t', 'nat']);
    const measured = await withRig(
      namespace,
      async (rig) => {
        const restart = await timed(() => rig.load(changes));
        const change = await replace(rig, size, pauseMs);
        return { restart, change, changeAtOnce: await replace(rig, size, 0) };
      },
      iptablesMode(),
    );
    return { ours: { load, ...measured }, rules };
  });
}

async function replace(rig: Rig, size: Size, restMs: number): Promise<Summary> {
  const tookMs: number[] = [];
  for (let i = 1; i <= replacements; i += 1) {
    const replaced = restMs + i;
    const changed = slice((i * 37) % size.services, size.endpoints, replaced);
    tookMs.push(await timed(() => rig.change({ kind: 'slice', slice: changed })));
    await sleep(restMs);
  }
  return summarise(tookMs);
}

/** `rules`: as iptables-save prints them. NaN = it did not end within `restoreLongestMs`. */
function measureRestore(rules: string): Promise<Restore> {
  return inNamespace('restore', async (namespace) => {
    const load = await timedRestore(namespace, rules);
    if (Number.isNaN(load)) return { load, change: summarise([]) };
    const chain = /^-A (KUBE-SVC-\S+) /m.exec(rules)![1]!;
    const own = rules.split('\n').filter((line) => line.startsWith(`-A ${chain} `));
    const change: number[] = [];
    for (let i = 1; i <= restoreRuns; i += 1) {
      const last = own.at(-1)!.replace(/--to-destination \S+/, `--to-destination 100.0.0.${i}:80`);
      const text = ['*nat', `:${chain} - [0:0]`, ...own.slice(0, -1), last, 'COMMIT', ''];
      change.push(await timedRestore(namespace, text.join('\n')));
      await sleep(pauseMs);
    }
    return { load, change: summarise(change) };
  });
}

async function timedRestore(namespace: Namespace, input: string): Promise<number> {
  const words = ['netns', 'exec', namespace.name, 'iptables-nft-restore', '--noflush'];
  try {
    return await timed(() =>
      execFileSync('ip', words, { input, timeout: restoreLongestMs, maxBuffer: 1 << 30 }),
    );
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ETIMEDOUT') return Number.NaN;
    throw error;
  }
}
