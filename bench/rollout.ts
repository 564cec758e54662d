/**
 * What does a rollout of a large Service cost? Its slices have 100 endpoints. Of each pod there are
 * three updates: its successor is ready, it terminates, it is gone.
 */
import { buildProduct, withCluster } from './lib/api-rig.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import { eachFollower, used } from './lib/followers.ts';
import { RollingService } from './lib/rolling-service.ts';
import { spread } from './lib/spread.ts';
import { number, table } from './lib/stats.ts';

const others: Size = { services: 2000, endpoints: 5 };
const endpointsOf = [100, 1000, 10_000] as const;
const perSecond = 50;
const warmSeconds = 6;
const seconds = 20;

export async function rollout(): Promise<string> {
  buildProduct();
  const rows: string[][] = [];
  for (const endpoints of endpointsOf) {
    const found = await withCluster(others, async (api, namespace) => {
      const large = new RollingService(api, 'large', '10.111.0.1', endpoints);
      await large.create();
      const roll = (seconds: number) => spread(perSecond * seconds, seconds, () => large.update());
      return eachFollower(api.kubeconfig, namespace, others.services + 1, async (pid) => {
        await roll(warmSeconds);
        return used(pid, () => roll(seconds));
      });
    });
    for (const [name, { all, main, ofV8 }] of found) {
      const each = [all, main, ofV8].map((ms) => number(ms / (perSecond * seconds)));
      rows.push([number(endpoints), name, ...each, number(all / (10 * seconds))]);
    }
  }
  const title = `A rollout with ${perSecond} updates a second, beside ${sizeName(others)}; ms of processor time for each`;
  const head = ['endpoints', '', 'process', 'main thread', 'threads of V8', '% of a core'];
  return `${title}\n\n${table(head, rows)}`;
}
