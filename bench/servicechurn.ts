/**
 * What does a node need while all Services of a cluster are made, rolled and deleted? As in Cilium's
 * module of this name for ClusterLoader2: 2,380 Services, 39,900 endpoints, 20 minutes (`--whole`);
 * else a tenth of it in two, which is the same rate.
 */
import { processStatus } from '../test/lab/process-status.ts';
import { buildProduct, withCluster } from './lib/api-rig.ts';
import type { Size } from './lib/cluster.ts';
import type { Extent } from './lib/extent.ts';
import { eachFollower } from './lib/followers.ts';
import { withChildrenMs } from './lib/processor-time.ts';
import { RollingService } from './lib/rolling-service.ts';
import { spread } from './lib/spread.ts';
import { number, ratio, table } from './lib/stats.ts';

/** How many Services have how many endpoints. */
const groups = [
  [2000, 5],
  [330, 30],
  [40, 250],
  [10, 1000],
] as const;
/** Services that stay. */
const others: Size = { services: 10, endpoints: 5 };
const wholeMinutes = 20;
/** Parts of the time. Rolling takes 24 times as many requests as each of the others. */
const parts = { create: 0.2, roll: 0.6, remove: 0.2 };

export async function servicechurn(extent: Extent): Promise<string> {
  buildProduct();
  const part = extent === 'whole' ? 1 : 0.1;
  const seconds = 60 * wholeMinutes * part;
  const counted = groups.map(([count, endpoints]) => [Math.ceil(count * part), endpoints] as const);
  const services = counted.reduce((sum, [count]) => sum + count, 0);
  const endpoints = counted.reduce((sum, [count, each]) => sum + count * each, 0);
  const found = await withCluster(others, (api, namespace) =>
    eachFollower(api.kubeconfig, namespace, others.services, async (pid) => {
      const sizes = counted.flatMap(([count, each]) => Array.from({ length: count }, () => each));
      const rolling = sizes.map((size, i) => {
        const clusterIP = `10.${100 + (i >> 8)}.${i & 255}.1`;
        return new RollingService(api, `rolling-${i}`, clusterIP, size);
      });
      const beforeMs = withChildrenMs(pid);
      await spread(services, seconds * parts.create, (i) => rolling[i]!.create());
      const updates = rolling.flatMap((one) => Array.from({ length: one.updates }, () => one));
      await spread(updates.length, seconds * parts.roll, (i) => updates[i]!.update());
      await spread(services, seconds * parts.remove, (i) => rolling[i]!.remove());
      const status = processStatus(pid);
      const megabytes = (name: string): number => status(name) / 1024;
      const cpuMs = withChildrenMs(pid) - beforeMs;
      return { cpuMs, peakMB: megabytes('VmHWM'), anonymousMB: megabytes('RssAnon') };
    }),
  );
  const own = found.get('Fairlead')!;
  const rows = [...found].map(([name, { cpuMs, peakMB, anonymousMB }]) => [
    name,
    number(cpuMs / (10 * seconds)),
    ratio(cpuMs, own.cpuMs),
    number(peakMB),
    number(anonymousMB),
  ]);
  const what =
    `${number(services)} Services, ${number(endpoints)} endpoints, made, rolled and deleted in ` +
    `${number(seconds / 60)} minutes`;
  const head = ['', '% of a core', 'ratio', 'most resident MB', 'anonymous MB at the end'];
  return `${what}\n\n${table(head, rows)}`;
}
