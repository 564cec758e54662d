/**
 * `npm run worlds -- [--seed N] [--count M]`: compares what the modes do with packets in M random
 * worlds, from seed N on; default: 500 from a new seed. It prints a world in which they differ, as
 * small as it becomes, and how often each rule of docs/differences.md was met. With `--kube-proxy
 * PATH [--mode iptables]` it compares mode nftables, or iptables, with upstream's program.
 */
import { parseArgs } from 'node:util';
import { freshSeed, Random } from '../chaos/random.ts';
import { type Counts, compare, differenceText, shrunk } from './comparison.ts';
import { KubeProxy } from './kube-proxy.ts';
import { WorldMaker } from './worlds.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    count: { type: 'string', default: '500' },
    /** Continues after a difference, and leaves its world as large as it is. */
    all: { type: 'boolean', default: false },
    'kube-proxy': { type: 'string' },
    mode: { type: 'string', default: 'nftables' },
  },
});
const { 'kube-proxy': binary } = values;
const mode = values.mode === 'iptables' ? 'iptables' : 'nftables';
const proxy = binary === undefined ? undefined : await KubeProxy.start(binary, mode);
const first = Number(values.seed ?? freshSeed());
console.log(`from seed ${first}`);
const counts: Counts = { worlds: 0, flows: 0, rules: new Map() };
const beganMs = performance.now();
for (let seed = first; counts.worlds < Number(values.count); seed += 1) {
  const world = new WorldMaker(new Random(seed), proxy !== undefined).world(12);
  const found = await compare(world, counts, seed, proxy);
  if (found === undefined) continue;
  process.exitCode = 1;
  console.log(
    `--seed ${seed}: ${values.all ? '' : differenceText(await shrunk(world, found, proxy), found)}`,
  );
  if (!values.all) break;
  console.log(differenceText({ ...world, rounds: [] }, found));
}
await proxy?.close();
const seconds = (performance.now() - beganMs) / 1000;
for (const [rule, count] of [...counts.rules].sort())
  console.log(`${String(count).padStart(7)} ${rule}`);
console.log(
  `${counts.worlds} worlds from seed ${first}, ${counts.flows} flows in ${seconds.toFixed(0)} s: ` +
    `${Math.round(counts.worlds / seconds)} worlds/s`,
);
