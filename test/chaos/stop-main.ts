/** `npm run stop -- --mode iptables --seconds 180`: see `usage`. */
import { parseArgs } from 'node:util';
import { freshSeed } from './random.ts';
import { type Mode, modes } from './readers.ts';
import { stop } from './stop.ts';

const usage = `usage: npm run stop -- [options]
  --mode MODE      ${modes.join(', ')} (nftables)
  --seconds N      how long the program is stopped (180)
  --rate N         changes of objects a second meanwhile (200)
  --services N     Services of the cluster (200)
  --seed N         repeats the changes of a run (a new one each time)`;

const { values } = parseArgs({
  options: {
    mode: { type: 'string', default: 'nftables' },
    seconds: { type: 'string', default: '180' },
    rate: { type: 'string', default: '200' },
    services: { type: 'string', default: '200' },
    seed: { type: 'string', default: String(freshSeed()) },
    help: { type: 'boolean', default: false },
  },
});
if (values.help || !modes.includes(values.mode as Mode)) {
  console.log(usage);
  process.exit(values.help ? 0 : 2);
}
const { mode, seconds, rate, services, seed } = values;
const { changes, settledMs } = await stop({
  mode: mode as Mode,
  seconds: Number(seconds),
  seed: Number(seed),
  services: Number(services),
  changesPerSecond: Number(rate),
  form: 'built',
});
console.log(
  `stop: mode ${mode}, seed ${seed}: stopped for ${seconds} s and ${changes} changes,`,
  `as wanted ${settledMs.toFixed(0)} ms after it went on, nothing lost`,
);
