/**
 * How many bytes of live heap does a Service of one endpoint take, and how many are allocated for
 * it? What is live after a collection is counted, which does not depend on the machine's load or on
 * pages that are partly filled. The lower bound is the cluster as it was decoded, before anything
 * is planned or written. What is allocated is estimated from samples of a second load, in a process
 * whose code has run before.
 * Then the same of a tenant's largest Services, with and without the limit of a namespace, and
 * what the records of the largest objects take.
 * Run it alone: what another benchmark of the process leaves would be collected while it measures.
 */

import { type HeapProfiler, Session } from 'node:inspector/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { serviceLimitDefaults } from '../src/config/settings/traffic.ts';
import { modeTable } from '../src/modes/mode-table.ts';
import { nftablesMode } from '../src/modes/nftables/mode.ts';
import { decodeChange, decodeContext, kindOf } from '../src/source/decode.ts';
import type { Change } from '../src/state/change.ts';
import { bytesOfService, bytesOfSlice } from '../src/state/heap-guard.ts';
import { encodeObject } from '../test/fake/protobuf.ts';
import { usedBytes } from '../test/used-memory.ts';
import { objects, type Size, sizeName } from './lib/cluster.ts';
import { inNamespace } from './lib/namespace.ts';
import { largeObjects } from './lib/records.ts';
import { withRig } from './lib/rig.ts';
import { number, ratio, table } from './lib/stats.ts';

const size: Size = { services: 44_000, endpoints: 1 };
/** Timers of a load, and what they hold, are over by then. */
const restMs = 2000;
/** Each asks for all that a Service may have. */
const largeServices = 40;
const largePorts = 20_000;
const decoding = decodeContext('node');
/** The mean distance between two samples. */
const sampledBytes = 4096;

export async function heap(): Promise<string> {
  const [programmed, decoded] = await inNamespace('heap', (namespace) =>
    withRig(namespace, async (rig) => {
      const before = usedBytes();
      for (const change of objects(size)) rig.state.apply(change);
      const known = usedBytes();
      await rig.load([]);
      await sleep(restMs);
      return [usedBytes(), known].map((bytes) => (bytes - before) / size.services);
    }),
  );
  const allocated = await allocatedBytes();
  const tenant = await largest();
  const records = recordBytes();
  const row = [
    ...[sizeName(size), number(programmed!), number(decoded!), ratio(programmed!, decoded!)],
    ...[number(allocated), ratio(allocated, programmed!)],
  ];
  return [
    'Live heap of a Service of one endpoint, in mode nftables, and all that is allocated for it; bytes',
    table(['cluster', 'programmed', 'decoded', 'ratio', 'allocated', 'to live'], [row]),
    tenant,
    records,
  ].join('\n\n');
}

/** The records of the largest objects of each kind, compared with the same in etcd. */
function recordBytes(): string {
  const rows = largeObjects.map(({ count, make, name, resource }) => {
    const decode = (n: number): Change => decodeChange(resource, make(n), decoding).change!;
    const kept = [decode(0)];
    const before = usedBytes();
    for (let n = 1; n <= count; n += 1) kept.push(decode(n));
    const bytes = (usedBytes() - before) / count;
    const last = kept.pop()!;
    const estimated =
      last.kind === 'service'
        ? bytesOfService(last.service)
        : bytesOfSlice((last as Extract<Change, { kind: 'slice' }>).slice);
    const etcd = encodeObject(kindOf[resource], make(count)).length;
    return [
      name,
      number(bytes / 1000),
      number(etcd / 1000),
      ratio(bytes, etcd),
      number(estimated / 1000),
    ];
  });
  return [
    'Live heap of one object as it was read, and its bytes in etcd; kB',
    table(['object', 'heap', 'etcd', 'ratio', 'estimated with what is made of it'], rows),
  ].join('\n\n');
}

/** Services of 20,000 ports in one namespace, the most for which an object has room. */
async function largest(): Promise<string> {
  const limits = {
    ...serviceLimitDefaults,
    frontendEndpoints: modeTable.nftables.frontendEndpoints,
  };
  const bytesWithin = (factor: number): Promise<number[]> =>
    inNamespace('heap', (namespace) =>
      withRig(
        namespace,
        async (rig) => {
          const before = usedBytes();
          for (let n = 0; n < largeServices; n += 1) {
            for (const change of largeService(n)) rig.state.apply(change);
          }
          const known = usedBytes();
          await rig.load([]);
          await sleep(restMs);
          return [usedBytes() - before, known - before];
        },
        nftablesMode,
        undefined,
        undefined,
        { limits, factor },
      ),
    );
  const [shared, decoded] = await bytesWithin(serviceLimitDefaults.namespaceFactor);
  const [whole] = await bytesWithin(Number.POSITIVE_INFINITY);
  const megabytes = [shared, whole, decoded].map((bytes) => number(bytes! / 1e6));
  const row = [number(largeServices), ...megabytes, ratio(shared!, whole!)];
  return [
    'Live heap of Services of 20,000 ports in one namespace, in mode nftables; MB',
    table(['Services', 'limited', 'not limited', 'decoded', 'ratio'], [row]),
  ].join('\n\n');
}

function* largeService(n: number): Generator<Change> {
  const ports = Array.from({ length: largePorts }, (_, p) => ({ name: `p${p}`, port: 1000 + p }));
  const metadata = { name: `large-${n}`, namespace: 'tenant', uid: `uid-${n}` };
  const clusterIP = `10.96.${n >> 8}.${(n & 255) + 1}`;
  const service = {
    metadata,
    spec: { type: 'ClusterIP', clusterIP, clusterIPs: [clusterIP], ports },
  };
  const slice = {
    metadata: { ...metadata, labels: { 'kubernetes.io/service-name': metadata.name } },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['11.0.0.1'], conditions: { ready: true } }],
    ports,
  };
  for (const [resource, object] of [
    ['services', service],
    ['endpointslices', slice],
  ] as const) {
    const { change } = decodeChange(resource, object, decoding);
    if (change === undefined) throw new Error('it was not decoded');
    yield change;
  }
}

/** Of one Service: what lives and what is garbage, of decoded objects up to the commit. */
async function allocatedBytes(): Promise<number> {
  const session = new Session();
  session.connect();
  const options = {
    samplingInterval: sampledBytes,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  };
  const changes = [...objects(size)];
  const profile = await inNamespace('heap', (namespace) =>
    withRig(namespace, async (rig) => {
      await session.post('HeapProfiler.startSampling', options);
      for (const change of changes) rig.state.apply(change);
      await rig.load([]);
      return (await session.post('HeapProfiler.stopSampling')).profile;
    }),
  );
  session.disconnect();
  const bytesOf = ({ selfSize, children }: HeapProfiler.SamplingHeapProfileNode): number =>
    children.reduce((sum, child) => sum + bytesOf(child), selfSize);
  return bytesOf(profile.head) / size.services;
}
