/**
 * `node small-heap.ts URL guarded|unguarded`: keeps the objects of a cluster, and prints a line
 * of JSON when all are listed, when a Service of namespace victim changes, when what was left out
 * is read again, and what is there on each line of its input. A process of its own, for tests that
 * give it a small heap.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ownHeapUse } from '../../../../src/host/heap-use.ts';
import { KubernetesSource } from '../../../../src/source/kubernetes/source.ts';
import type { SourceSink } from '../../../../src/source/source.ts';
import type { Change, Taken } from '../../../../src/state/change.ts';
import { HeapGuard } from '../../../../src/state/heap-guard.ts';
import { ClusterState } from '../../../../src/state/store.ts';

const [, , masterUrl = '', how] = process.argv;
const state = new ClusterState();
const guard = new HeapGuard({
  state,
  heapBytesMax: how === 'guarded' ? ownHeapUse.bytesMax : Number.POSITIVE_INFINITY,
  leftOut: () => {},
});
ownHeapUse.follow((liveBytes) => guard.measured(liveBytes, performance.now()));

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function facts(): object {
  const { count: leftOut } = guard.leftOut;
  return { services: state.serviceCount, leftOut, of: guard.leftOut.namespaces(9) };
}

function take(change: Change): Taken {
  const taken = guard.apply(change);
  if (change.kind !== 'service' || change.service.namespace !== 'victim') return taken;
  const { name, ports } = change.service;
  print({ victim: name, port: ports.at(0)?.port, taken });
  return taken;
}

const source = new KubernetesSource({
  ...{ nodeName: 'here', kubeconfigPath: '', masterUrl, qps: -1, burst: 10 },
  userAgent: 'fairlead/test',
});
const sink: SourceSink = {
  change: take,
  synced: (resource) => {
    if (resource === 'services') print({ synced: facts() });
  },
  problem: ({ reason }) => print({ problem: reason }),
  listed: () => {},
};
void source.run(sink, new AbortController().signal);
process.stdin.on('data', () => print(facts()));
for (;;) {
  await sleep(20);
  if (!guard.takeReading(performance.now())) continue;
  print({ reading: true });
  source.readAgain();
}
