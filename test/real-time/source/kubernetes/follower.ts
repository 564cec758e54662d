/**
 * `node follower.ts URL`: prints the first endpoint of slice shop/s1-1 whenever it changes; a
 * process of its own, for tests that stop it.
 */
import { KubernetesSource } from '../../../../src/source/kubernetes/source.ts';
import type { Change, Taken } from '../../../../src/state/change.ts';
import { impatient } from './timing.ts';

function print(change: Change): Taken {
  if (change.kind !== 'slice' || change.slice.key !== 'shop/s1-1') return 'changed';
  const first = change.slice.addresses.slice(0, 4);
  console.log([...first].map((byte) => byte.charCodeAt(0)).join('.'));
  return 'changed';
}

const source = new KubernetesSource({
  nodeName: 'here',
  kubeconfigPath: '',
  masterUrl: process.argv[2] ?? '',
  qps: -1,
  burst: 10,
  userAgent: 'fairlead/test',
  timing: impatient,
});
const ignore = (): void => {};
const sink = { change: print, synced: ignore, problem: ignore, listed: ignore };
await source.run(sink, new AbortController().signal);
