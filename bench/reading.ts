/**
 * What does it cost to read an object of a list, from its bytes in protobuf to the state? Neither
 * TLS nor HTTP are part of it. The lower bound only cuts the bytes into events.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { populate } from '../test/fake/api-server-cluster.ts';
import { FakeStore } from '../test/fake/api-server-store.ts';
import { encodeEvent, encodeObject } from '../test/fake/protobuf.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import type { ReadingTimes } from './lib/reading-main.ts';
import { number, ratio, table } from './lib/stats.ts';

const sizes: readonly Size[] = [
  { services: 8000, endpoints: 30 },
  { services: 44_000, endpoints: 1 },
];
const runs = 5;

const lists = [
  { resource: 'services', kind: 'Service', apiVersion: 'v1' },
  { resource: 'endpointslices', kind: 'EndpointSlice', apiVersion: 'discovery.k8s.io/v1' },
] as const;

/** The launcher's, which has most influence on collections. */
const nursery = '--max-semi-space-size=4';

export async function reading(): Promise<string> {
  const rows: string[][] = [];
  for (const size of sizes) rows.push(await row(size));
  const head = ['cluster', 'cut', 'first', 'to cut', 'collections', 'next'];
  const title = `Reading an object of the first lists into the state; µs of the thread, best of ${runs}`;
  return [title, table(head, rows)].join('\n\n');
}

async function row(size: Size): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-reading-'));
  try {
    const files = write(size, folder);
    const all: ReadingTimes[] = [];
    for (let i = 0; i < runs; i += 1) all.push(await timesOf(files));
    const { collections, cut, first, next } = all.reduce((a, b) => (a.first < b.first ? a : b));
    const [cutUs, nextUs] = [number(cut), number(next)];
    return [sizeName(size), cutUs, number(first), ratio(first, cut), number(collections), nextUs];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The events of each list, one file each. */
function write(size: Size, folder: string): readonly string[] {
  const store = new FakeStore();
  populate(store, size);
  return lists.map(({ apiVersion, kind, resource }) => {
    const file = join(folder, resource);
    const events = Array.from(store.objects(resource).values(), ({ json }) =>
      encodeEvent('ADDED', apiVersion, kind, encodeObject(kind, JSON.parse(json))),
    );
    writeFileSync(file, Buffer.concat(events));
    return file;
  });
}

/** In a process of its own, whose code has not run before. */
async function timesOf(files: readonly string[]): Promise<ReadingTimes> {
  const program = join(import.meta.dirname, 'lib', 'reading-main.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [nursery, program, ...files]);
  return JSON.parse(stdout) as ReadingTimes;
}
