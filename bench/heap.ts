/**
 * How many bytes of live heap does a Service of one endpoint take? What is live after a collection
 * is counted, which depends neither on the machine's load nor on pages that are partly filled. The
 * lower bound is the cluster as it was decoded, before anything is planned or written.
 * Run it alone: what another benchmark of the process leaves would be collected while it measures.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { objects, type Size, sizeName } from './lib/cluster.ts';
import { inNamespace } from './lib/namespace.ts';
import { withRig } from './lib/rig.ts';
import { number, ratio, table } from './lib/stats.ts';

const size: Size = { services: 44_000, endpoints: 1 };
/** Timers of a load, and what they hold, are over by then. */
const restMs = 2000;

export async function heap(): Promise<string> {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  const live = (): number => {
    collect();
    collect();
    return process.memoryUsage().heapUsed;
  };
  const [programmed, decoded] = await inNamespace('heap', (namespace) =>
    withRig(namespace, async (rig) => {
      const before = live();
      for (const change of objects(size)) rig.state.apply(change);
      const known = live();
      await rig.load([]);
      await sleep(restMs);
      return [live(), known].map((bytes) => (bytes - before) / size.services);
    }),
  );
  const row = [sizeName(size), number(programmed!), number(decoded!), ratio(programmed!, decoded!)];
  return [
    'Live heap of a Service of one endpoint, in mode nftables; bytes',
    table(['cluster', 'programmed', 'decoded', 'ratio'], [row]),
  ].join('\n\n');
}
