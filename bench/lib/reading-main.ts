/**
 * Reads lists from bytes, as the watch of an API server delivers them, into the state, and prints
 * the processor time of the thread (`ReadingTimes`, as JSON).
 *
 *     node reading-main.ts SERVICES-FILE SLICES-FILE
 */
import { readFileSync } from 'node:fs';
import { PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { decodeContext } from '../../src/source/decode.ts';
import { Delivery } from '../../src/source/kubernetes/delivery.ts';
import { protobuf } from '../../src/source/kubernetes/protobuf/encoding.ts';
import { StringCache } from '../../src/source/kubernetes/protobuf/string-cache.ts';
import { UnfinishedList } from '../../src/source/kubernetes/unfinished-list.ts';
import type { SourceSink } from '../../src/source/source.ts';
import type { Resource } from '../../src/state/change.ts';
import { finish } from '../../src/state/steps.ts';
import { ClusterState } from '../../src/state/store.ts';

/** Microseconds of an object. */
export interface ReadingTimes {
  /** Only cut into events: the lower bound. */
  readonly cut: number;
  /** By a process that has read nothing before. */
  readonly first: number;
  /** The time that collections of the heap took of it. */
  readonly collections: number;
  /** Once more, into another state. */
  readonly next: number;
}

/** As much as TLS gives at a time. */
const chunkBytes = 16 * 1024;
const objectBytesMax = 16 * 1024 * 1024;
/** The kernel may count processor time in units of 4 ms. */
const cuts = 20;
/** Node reports collections some turns of the event loop later. */
const observedMs = 100;

const resources: readonly Resource[] = ['services', 'endpointslices'];
const lists = process.argv.slice(2).map((file) => chunksOf(readFileSync(file)));
let collectedMs = 0;
const collections = new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) collectedMs += duration;
});
collections.observe({ entryTypes: ['gc'] });

const objects = cut();
const cutAll = (): void => {
  for (let i = 0; i < cuts; i += 1) cut();
};
const cutUs = cpuUs(cutAll) / (cuts * objects);
await sleep(observedMs);
collectedMs = 0;
const first = cpuUs(read) / objects;
await sleep(observedMs);
const collectedUs = (1000 * collectedMs) / objects;
const next = cpuUs(read) / objects;
const times = { cut: cutUs, first, collections: collectedUs, next };
console.log(JSON.stringify(times satisfies ReadingTimes));

function chunksOf(bytes: Buffer): readonly Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    const chunk = Buffer.allocUnsafeSlow(Math.min(chunkBytes, bytes.length - at));
    bytes.copy(chunk, 0, at);
    chunks.push(chunk);
  }
  return chunks;
}

function cpuUs(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return user + system;
}

/** Returns the number of events. */
function cut(): number {
  let events = 0;
  const context = decodeContext('node-1');
  resources.forEach((resource, i) => {
    const encoding = protobuf(resource, context, new StringCache());
    const cutter = encoding.events(objectBytesMax);
    for (const chunk of lists[i]!) for (const _ of cutter.push(chunk)) events += 1;
  });
  return events;
}

/** Chunks of both lists take turns, as they do at the start of the program. */
function read(): void {
  const state = new ClusterState();
  const sink: SourceSink = {
    change: (change) => state.apply(change),
    problem: ({ reason }) => {
      throw new Error(reason);
    },
    synced: () => {},
    listed: () => {},
  };
  const context = decodeContext('node-1');
  const strings = new StringCache();
  const readers = resources.map((resource) => {
    const list = new UnfinishedList('streaming', new Delivery(resource, context, sink));
    const encoding = protobuf(resource, context, strings);
    return { list, encoding, cutter: encoding.events(objectBytesMax) };
  });
  const most = Math.max(...lists.map(({ length }) => length));
  for (let i = 0; i < most; i += 1) {
    readers.forEach(({ cutter, encoding, list }, of) => {
      const chunk = lists[of]![i];
      if (chunk === undefined) return;
      for (const bytes of cutter.push(chunk)) {
        if (bytes === 'oversized') throw new Error('an object is too large');
        finish(list.put(finish(encoding.event(bytes)).object));
      }
    });
  }
}
