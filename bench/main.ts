/**
 * `npm run bench` runs all benchmarks, `npm run bench -- boundary load` some. One question a file.
 * With `--whole`, those that would take long measure all of their cases; `--minutes` says how long
 * the chaos of `failures` takes, `--services` gives the one size that `path` measures, and `--rate`
 * how many changes a second `change` makes.
 * `--record` writes what was measured to `results/NAME.json`.
 */
import { parseArgs } from 'node:util';
import { affinity } from './affinity.ts';
import { apiChange } from './api-change.ts';
import { apiChurn } from './api-churn.ts';
import { apiClient } from './api-client.ts';
import { apiServer } from './api-server.ts';
import { apiStart } from './api-start.ts';
import { apiStorm } from './api-storm.ts';
import { askQuestion } from './ask.ts';
import { boundary } from './boundary.ts';
import { bytes } from './bytes.ts';
import { change } from './change.ts';
import { cl2Load } from './cl2-load.ts';
import { connect } from './connect.ts';
import { connectTime } from './connect-time.ts';
import { cost } from './cost.ts';
import { counters } from './counters.ts';
import { failures } from './failures.ts';
import { heap } from './heap.ts';
import { hostile } from './hostile.ts';
import { idle } from './idle.ts';
import { iptables } from './iptables.ts';
import { ipvs } from './ipvs.ts';
import { ipvsLoad } from './ipvs-load.ts';
import { ipvsResets } from './ipvs-resets.ts';
import type { Extent } from './lib/extent.ts';
import { record } from './lib/results.ts';
import { limits } from './limits.ts';
import { load } from './load.ts';
import { loading } from './loading.ts';
import { manifests } from './manifests.ts';
import { memory } from './memory.ts';
import { path } from './path.ts';
import { portRanges } from './port-ranges.ts';
import { probes } from './probes.ts';
import { reading } from './reading.ts';
import { repair } from './repair.ts';
import { rollout } from './rollout.ts';
import { scaleOut } from './scale-out.ts';
import { scrape } from './scrape.ts';
import { servicechurn } from './servicechurn.ts';
import { sockets } from './sockets.ts';
import { sourceRanges } from './source-ranges.ts';
import { tenant } from './tenant.ts';
import { turns } from './turns.ts';
import { versions } from './versions.ts';
import { waits } from './waits.ts';

const { values, positionals: asked } = parseArgs({
  options: {
    whole: { type: 'boolean', default: false },
    record: { type: 'boolean', default: false },
    minutes: { type: 'string', default: '1' },
    services: { type: 'string' },
    rate: { type: 'string', default: '50' },
  },
  allowPositionals: true,
});

/** The number that follows the flag. Anything else ends the program before it measures. */
function numberOf(flag: 'minutes' | 'services' | 'rate', text: string): number {
  const number = Number(text);
  if (/^[0-9.]{1,9}$/.test(text) && number > 0) return number;
  console.error(`bench: --${flag} must be a number above 0, not '${text}'`);
  process.exit(2);
}

const minutes = numberOf('minutes', values.minutes);
const rate = numberOf('rate', values.rate);
const services = values.services === undefined ? undefined : numberOf('services', values.services);

const questions: Readonly<Record<string, (extent: Extent) => Promise<string>>> = {
  boundary,
  bytes,
  limits,
  load,
  affinity,
  loading,
  connect,
  'connect-time': connectTime,
  path: (extent) => path(extent, services),
  sockets,
  counters,
  iptables,
  ipvs,
  'ipvs-load': ipvsLoad,
  'ipvs-resets': ipvsResets,
  repair,
  'source-ranges': sourceRanges,
  'port-ranges': portRanges,
  reading,
  'api-start': apiStart,
  'api-change': apiChange,
  'api-churn': apiChurn,
  change: () => change(rate),
  rollout,
  servicechurn,
  'cl2-load': cl2Load,
  scrape,
  manifests,
  memory,
  heap,
  cost,
  idle,
  'api-server': apiServer,
  'api-client': apiClient,
  'api-storm': apiStorm,
  tenant,
  turns,
  versions,
  waits,
  hostile,
  failures: () => failures(minutes),
  'scale-out': scaleOut,
  probes,
  ask: askQuestion,
};

for (const name of asked.length > 0 ? asked : Object.keys(questions)) {
  const question = questions[name];
  if (question === undefined) {
    console.error(`bench: no question ${name}; there are: ${Object.keys(questions).join(', ')}`);
    process.exit(1);
  }
  const text = await question(values.whole ? 'whole' : 'usual');
  console.log(`\n${text}`);
  if (values.record) record(name, text);
}
