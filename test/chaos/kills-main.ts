/** `npm run kills -- --mode ipvs --count 1000`: see `usage`. */
import { parseArgs } from 'node:util';
import { type KilledMode, killedModes, killMany, type Tally } from './kills.ts';
import { freshSeed } from './random.ts';

const usage = `usage: npm run kills -- [options]
  --mode MODE      nftables, ipvs or iptables (nftables)
  --count N        kills (1000)
  --seconds N      ends earlier, after so many seconds
  --seed N         repeats the moments and the changes of a run (a new one each time)
  --services N     Services of the cluster (60)
  --rate N         changes of objects a second (200), in each cluster
  --nodes N        nodes side by side, each with such a cluster (3)`;

const { values } = parseArgs({
  options: {
    mode: { type: 'string', default: 'nftables' },
    count: { type: 'string', default: '1000' },
    seconds: { type: 'string', default: '86400' },
    seed: { type: 'string', default: String(freshSeed()) },
    services: { type: 'string', default: '60' },
    rate: { type: 'string', default: '200' },
    nodes: { type: 'string', default: '3' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help || !killedModes.includes(values.mode as KilledMode)) {
  console.log(usage);
  process.exit(values.help ? 0 : 2);
}
const { mode, count, seconds, seed, services, rate, nodes } = values;
console.log(
  `kills: mode ${mode}, seed ${seed}, ${nodes} nodes of ${services} Services, ${rate} changes a second each`,
);
const startMs = performance.now();
const tally = await killMany({
  mode: mode as KilledMode,
  count: Number(count),
  seed: Number(seed),
  services: Number(services),
  changesPerSecond: Number(rate),
  form: 'built',
  nodes: Number(nodes),
  signal: AbortSignal.timeout(Number(seconds) * 1000),
  progress: (so) => {
    if (so.rounds % 5 === 0 || mode === 'ipvs') console.log(summary(so));
  },
});
console.log(summary(tally));

function summary(tally: Tally): string {
  const sorted = [...tally.repairMs].sort((a, b) => a - b);
  const at = (part: number) => Math.round(sorted[Math.floor((sorted.length - 1) * part)] ?? 0);
  return [
    `${Math.round((performance.now() - startMs) / 1000)} s:`,
    `${tally.kills} kills (${tally.killsInStart} in a start, ${tally.killsAtRest} at rest),`,
    `${tally.rounds} times converged, p50 ${at(0.5)} ms, max ${at(1)} ms after the restart;`,
    `${tally.changes} changes; ${tally.linesChanged} lines changed by ${tally.writes} writes`,
    `(${tally.writesNeeded} needed),`,
    `0 after a kill at rest; ${tally.connectionsAlive} connections alive, 0 lost`,
  ].join(' ');
}
