/** `npm run soak -- --mode ipvs --seconds 3600`: see `usage`. */
import { parseArgs } from 'node:util';
import { freshSeed } from './random.ts';
import { type Mode, modes } from './readers.ts';
import { type Sample, soak } from './soak.ts';

const usage = `usage: npm run soak -- [options]
  --mode MODE      nftables, ipvs, iptables or userspace (nftables)
  --seconds N      how long (3600)
  --rate N         changes of objects a second (500)
  --services N     Services of the cluster (1000)
  --seed N         repeats the changes of a run (a new one each time)
Exits with 1 when something has grown.`;

const { values } = parseArgs({
  options: {
    mode: { type: 'string', default: 'nftables' },
    seconds: { type: 'string', default: '3600' },
    rate: { type: 'string', default: '500' },
    services: { type: 'string', default: '1000' },
    seed: { type: 'string', default: String(freshSeed()) },
    help: { type: 'boolean', default: false },
  },
});
if (values.help || !modes.includes(values.mode as Mode)) {
  console.log(usage);
  process.exit(values.help ? 0 : 2);
}
const { mode, rate, services, seed } = values;
const seconds = Number(values.seconds);
console.log(`soak: mode ${mode}, seed ${seed}, ${services} Services, ${rate} changes a second`);
const {
  changes,
  seconds: tookS,
  settledMs,
  grown,
} = await soak({
  mode: mode as Mode,
  seconds,
  seed: Number(seed),
  services: Number(services),
  changesPerSecond: Number(rate),
  form: 'built',
  // Sixty samples in all.
  sampleMs: Math.max(1000, (seconds * 1000) / 60),
  progress: (sample) => console.log(line(sample)),
});
console.log(
  `${changes} changes in ${tookS.toFixed(0)} s; as wanted ${settledMs.toFixed(0)} ms after the last`,
);
console.log(grown.length === 0 ? 'flat' : `has grown: ${grown.join('; ')}`);
process.exitCode = grown.length === 0 ? 0 : 1;

function line({ second, rssMB, threads, descriptors, kernelLines, wanted }: Sample): string {
  const own = `RSS ${rssMB.toFixed(0)} MB, ${threads} threads, ${descriptors} descriptors`;
  return `${second} s: ${own}; ${kernelLines} lines in the kernel for ${wanted} wanted`;
}
