/**
 * How long does damage by others last? The time runs from their transaction to ours that repairs
 * it after the kernel's notification. It is compared with a tool that reads the same table from a
 * file: `nft -f`, `iptables-nft-restore`. Of a large cluster, the first Services are repaired long
 * before the last one, which the kernel bounds: the raw loop writes the same elements and no more.
 */
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Kernel } from '../src/kernel/kernel.ts';
import { openKernel } from '../src/kernel/native-kernel.ts';
import { NFPROTO } from '../src/kernel/nft/constants.ts';
import { type NftOp, nftOps } from '../src/kernel/ops.ts';
import { RecordWriter } from '../src/kernel/records.ts';
import { iptablesMode } from '../src/modes/iptables/mode.ts';
import { tableName } from '../src/modes/nftables/layout.ts';
import { nftablesMode } from '../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../src/modes/proxy-mode.ts';
import { objects, type Size, sizeName } from './lib/cluster.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { rawLoad } from './lib/raw-load.ts';
import { type Rig, withRig } from './lib/rig.ts';
import { number, ratio, summarise, table } from './lib/stats.ts';

const size: Size = { services: 1000, endpoints: 10 };
const large: Size = { services: 8000, endpoints: 30 };
const runs = 3;
const family = NFPROTO.IPv4;

/** The damage that another program does to a table. */
interface Damage {
  readonly name: string;
  ops(kernel: Kernel): Promise<readonly NftOp[]>;
}

interface Case {
  readonly mode: ProxyMode;
  readonly size: Size;
  readonly damages: readonly Damage[];
  /** How the tool prints the table, and how it reads that again. */
  readonly save: (namespace: Namespace) => string;
  readonly restore: readonly [program: string, ...args: string[]];
}

const wholeTable: Damage = {
  name: 'table deleted',
  ops: async () => [{ kind: 'tableDelete', family, table: tableName }],
};
const oneChain: Damage = {
  name: 'chain flushed',
  ops: async () => [{ kind: 'chainFlush', family, table: tableName, chain: 'services' }],
};
const oneSet: Damage = {
  name: 'map flushed',
  ops: async () => [{ kind: 'setFlush', family, table: tableName, set: 'services' }],
};
const allNat: Damage = {
  name: 'nat flushed',
  ops: async (kernel) => {
    const { records } = await kernel.dump({ kind: 'chainsDump', family, table: 'nat' });
    return records.flatMap((one): NftOp[] => {
      if (one.kind !== 'chain') return [];
      return [{ kind: 'chainFlush', family, table: 'nat', chain: one.chain }];
    });
  },
};

const ofNFTables = {
  mode: nftablesMode,
  damages: [wholeTable, oneChain, oneSet],
  save: (namespace: Namespace) => namespace.run('nft', ['list', 'table', 'ip', tableName]),
  restore: ['nft', '-f'],
} as const;
const cases: readonly Case[] = [
  { ...ofNFTables, size },
  { ...ofNFTables, size: large, damages: [wholeTable] },
  {
    mode: iptablesMode(),
    size,
    damages: [allNat],
    save: (namespace) => namespace.run('iptables-nft-save', ['-t', 'nat']),
    restore: ['iptables-nft-restore', '--noflush'],
  },
];

export async function repair(): Promise<string> {
  const rows: string[][] = [];
  for (const one of cases) rows.push(...(await measure(one)));
  const head = [
    'mode, cluster',
    'damage',
    'first Services p50',
    'repaired p50',
    'worst',
    'commit p50',
    'its tool reads it',
    'ratio',
    'raw loop',
  ];
  const title = `From the begin of a transaction of others to the first and the last one of ours that repair it, ${runs} times, and
what of it was the kernel's commits; ms`;
  return [title, table(head, rows)].join('\n\n');
}

function measure({ mode, size, damages, save, restore }: Case): Promise<string[][]> {
  return inNamespace('repair', (namespace) =>
    withRig(
      namespace,
      async (rig) => {
        await rig.load(objects(size));
        const others = openKernel({ netns: namespace.path });
        const before = save(namespace);
        const rows: { damage: Damage; taken: number[]; commits: number[]; firsts: number[] }[] = [];
        for (const damage of damages) {
          const [taken, commits, firsts]: [number[], number[], number[]] = [[], [], []];
          for (let i = 0; i < runs; i += 1) {
            rig.commitsMs = 0;
            const { firstMs, tookMs } = await repaired(rig, others, damage);
            firsts.push(firstMs);
            taken.push(tookMs);
            commits.push(rig.commitsMs);
          }
          rows.push({ damage, taken, commits, firsts });
        }
        if (save(namespace).length !== before.length) throw new Error('not all was repaired');
        others.close();
        const toolMs = await readingMs(before, restore);
        const rawMs = mode === nftablesMode ? (await rawLoad(size, 1, runs)).loadMs : 0;
        return rows.map(({ damage, taken, commits, firsts }) => {
          const { p50, max } = summarise(taken);
          const firstMs = number(summarise(firsts).p50);
          const what = [`${mode.name}, ${sizeName(size)}`, damage.name];
          return [
            ...what,
            firstMs,
            ...[p50, max, summarise(commits).p50, toolMs].map(number),
            ratio(p50, toolMs),
            damage === wholeTable ? number(rawMs) : '–',
          ];
        });
      },
      mode,
    ),
  );
}

async function repaired(rig: Rig, others: Kernel, damage: Damage) {
  const writer = new RecordWriter(nftOps);
  for (const { kind, ...fields } of await damage.ops(others)) writer.write(kind, fields as never);
  const repair = rig.repaired();
  rig.firstCommitAtMs = undefined;
  const startedMs = performance.now();
  const result = await others.apply(writer.finish());
  if (result.kind === 'failed') throw new Error(JSON.stringify(result.failures));
  await repair;
  const tookMs = performance.now() - startedMs;
  const firstMs = rig.firstCommitAtMs! - startedMs;
  // The watch rests after a report.
  await sleep(100);
  return { firstMs, tookMs };
}

/** The time of the program from start to end, in an empty namespace. */
function readingMs(text: string, [program, ...args]: Case['restore']): Promise<number> {
  // nft can't read the look-up of an endpoint that it lists, because its index has the type mark.
  const readable = text.replace(/^.* numgen .*\n/gm, '');
  const file = join(tmpdir(), `fairlead-bench-repair-${process.pid}`);
  writeFileSync(file, readable);
  return inNamespace('repair-tool', (namespace) => {
    const startedMs = performance.now();
    namespace.run(program, [...args, file]);
    return performance.now() - startedMs;
  }).finally(() => rmSync(file));
}
