/**
 * What does a change cost at an ordinary rate, at which each is a batch of its own? Processor time
 * of the whole process.
 */
import { buildProduct, withCluster } from './lib/api-rig.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import { eachFollower, used } from './lib/followers.ts';
import { number, table } from './lib/stats.ts';

/** V8 compiles what runs often within these. */
const warmSeconds = 10;
const seconds = 20;
const sizes: readonly Size[] = [
  { services: 100, endpoints: 10 },
  { services: 8000, endpoints: 30 },
];

export async function change(perSecond: number): Promise<string> {
  buildProduct();
  const rows: string[][] = [];
  for (const size of sizes) {
    const found = await withCluster(size, (api, namespace) =>
      eachFollower(api.kubeconfig, namespace, size.services, async (pid) => {
        const churn = (seconds: number) => api.ask({ do: 'churn', perSecond, seconds });
        await churn(warmSeconds);
        return used(pid, () => churn(seconds));
      }),
    );
    for (const [name, { all, main, ofV8 }] of found) {
      const each = [all, main, ofV8].map((ms) => number(ms / (perSecond * seconds)));
      rows.push([sizeName(size), name, ...each, number(all / (10 * seconds))]);
    }
  }
  const title = `One endpoint replaced, ${perSecond} times a second; ms of processor time for each`;
  const head = ['cluster', '', 'process', 'main thread', 'threads of V8', '% of a core'];
  return `${title}\n\n${table(head, rows)}`;
}
