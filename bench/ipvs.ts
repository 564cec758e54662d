/**
 * How long does mode ipvs take to program a cluster from nothing, and to replace one endpoint after
 * that? It is compared with `ipvsadm --restore` of the same virtual services, which neither binds
 * addresses nor fills a table of nf_tables. Needs a kernel with IPVS:
 * `npm run test:vm -- --only 6.12 -- node bench/main.ts ipvs`.
 */
import { ipvsMode } from '../src/modes/ipvs/mode.ts';
import { objects, type Size, sizeName, slice } from './lib/cluster.ts';
import { inNamespace } from './lib/namespace.ts';
import { withRig } from './lib/rig.ts';
import { number, ratio, type Summary, summarise, table } from './lib/stats.ts';

const sizes: readonly Size[] = [
  { services: 1000, endpoints: 10 },
  { services: 5000, endpoints: 10 },
];
const warmUp: Size = { services: 300, endpoints: 10 };
const replacements = 100;

export async function ipvs(): Promise<string> {
  const rows: string[][] = [];
  try {
    // The first load of a process takes longer: nothing is compiled yet.
    await measure(warmUp);
    for (const size of sizes) rows.push(await measure(size));
  } catch (error) {
    if (!(error as Error).message.includes('EPROTONOSUPPORT')) throw error;
    return 'Mode ipvs: not measured, this kernel has no IPVS';
  }
  const head = ['cluster', 'Fairlead', 'ipvsadm --restore', 'ratio', 'change p50', 'change p99'];
  const title = 'Mode ipvs: full load into an empty kernel, and one endpoint replaced; ms';
  return [title, table(head, rows)].join('\n\n');
}

function measure(size: Size): Promise<string[]> {
  return inNamespace('ipvs', async (namespace) => {
    namespace.run('ip', ['link', 'set', 'lo', 'up']);
    const changes = [...objects(size)];
    const { load, change } = await withRig(
      namespace,
      async (rig) => ({
        load: await timed(() => rig.load(changes)),
        change: await replaced(size, (next) => rig.change({ kind: 'slice', slice: next })),
      }),
      ipvsMode,
    );
    const saved = namespace.run('ipvsadm', ['-Sn']);
    namespace.run('ipvsadm', ['-C']);
    const restore = await timed(() => namespace.run('ipvsadm', ['--restore'], saved));
    const figures = [number(load), number(restore), ratio(load, restore)];
    return [sizeName(size), ...figures, number(change.p50), number(change.p99)];
  });
}

async function replaced(
  size: Size,
  change: (next: ReturnType<typeof slice>) => Promise<void>,
): Promise<Summary> {
  const taken: number[] = [];
  for (let i = 0; i < replacements; i += 1) {
    const next = slice((i * 37) % size.services, size.endpoints, i + 1);
    taken.push(await timed(() => change(next)));
  }
  return summarise(taken);
}

async function timed(work: () => Promise<unknown> | unknown): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}
