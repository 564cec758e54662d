/**
 * A client of a real API server, as a process inside its namespace:
 *
 *     node real-api-client.ts URL TOKEN
 *
 * Commands are lines of JSON on standard input (see `answerCommands`).
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Resource } from '../../src/state/change.ts';
import { populate } from '../../test/fake/api-server-cluster.ts';
import { FakeStore, kinds, type Raw, type StoredObject } from '../../test/fake/api-server-store.ts';
import { answerCommands } from '../../test/lab/asked-process.ts';
import { type Protocol, WatchingNode } from './watching-node.ts';

const [server = '', token = ''] = process.argv.slice(2);
/** Concurrent requests while a cluster is created. */
const writers = 16;
const agent = new Agent({ keepAlive: true, rejectUnauthorized: false });

type Command =
  | { readonly do: 'load'; readonly services: number; readonly endpoints: number }
  /** Reads all EndpointSlices. Answers the number of bytes. */
  | { readonly do: 'list'; readonly way: Way; readonly accept: string; readonly gzip: boolean }
  /** Asks for the versions of Services and EndpointSlices, one request after the other. */
  | {
      readonly do: 'versions';
      readonly of: VersionOf;
      readonly count: number;
      readonly accept: string;
    }
  /** Closes all watches, and opens `count` watches of EndpointSlices. */
  | { readonly do: 'watch'; readonly count: number; readonly accept: string }
  /**
   * Replaces an endpoint in `count` slices, one after the other. Answers the bytes that all watches
   * received.
   */
  | { readonly do: 'change'; readonly count: number; readonly perSecond?: number }
  /** Closes all nodes, and starts others. Answers a `Storm` when all have their lists. */
  | ({ readonly do: 'storm' } & StormOptions);

interface StormOptions {
  readonly count: number;
  /** Nodes start at random moments within this time. */
  readonly spreadMs: number;
  readonly accept: string;
  readonly protocol: Protocol;
}

export interface Changed {
  readonly bytes: number;
  /** Processor time of watches and nodes, and of making the changes. */
  readonly cpuMs: number;
}

export interface Storm {
  /** How long each node's lists took, from its start. */
  readonly tookMs: readonly number[];
  /** From the first start to the last list. */
  readonly ms: number;
  readonly refused: number;
  readonly broken: number;
  readonly bytes: number;
  /** Processor time of the nodes. */
  readonly cpuMs: number;
}

type Way = 'streaming' | 'paged';
/** What a list has whose version is asked for. */
export type VersionOf = 'one of all' | 'one name';

const node = {
  kind: 'Node',
  metadata: { name: 'node-1' },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
};
/** In the last event of a streaming list. */
const endOfList = 'initial-events-end';
const slices = kinds.endpointslices.path;
const triggerPath = '/metadata/annotations/endpoints.kubernetes.io~1last-change-trigger-time';
const store = new FakeStore();
let watches: ClientRequest[] = [];
let received = 0;
let nodes: WatchingNode[] = [];

function open(
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body?: string,
): Promise<{ response: IncomingMessage; sent: ClientRequest }> {
  return new Promise((resolve, reject) => {
    const options = { method, agent, headers: { authorization: `Bearer ${token}`, ...headers } };
    const sent = request(`${server}${path}`, options, (response) => resolve({ response, sent }));
    sent.on('error', reject);
    sent.end(body);
  });
}

async function write(method: 'POST' | 'PUT', path: string, object: unknown): Promise<Raw> {
  const headers = { 'content-type': 'application/json' };
  const { response } = await open(method, path, headers, JSON.stringify(object));
  let text = '';
  for await (const part of response) text += part;
  if (response.statusCode! >= 300) throw new Error(`${method} ${path}: ${text.slice(0, 300)}`);
  return JSON.parse(text) as Raw;
}

/** Runs `work` for each item of a list, several concurrently. */
async function each<T>(list: readonly T[], work: (one: T) => Promise<unknown>): Promise<void> {
  const left = list.values();
  await Promise.all(
    Array.from({ length: writers }, async () => {
      for (const one of left) await work(one);
    }),
  );
}

async function load(services: number, endpoints: number): Promise<void> {
  populate(store, { services, endpoints });
  const namespaces = Array.from({ length: 50 }, (_, i) => `ns-${i}`);
  await each(namespaces, (name) =>
    write('POST', '/api/v1/namespaces', { kind: 'Namespace', metadata: { name } }),
  );
  await write('POST', kinds.nodes.path, node);
  for (const resource of ['services', 'endpointslices'] as const) {
    await each([...store.objects(resource).values()], (object) => create(resource, object));
  }
}

/** `/api/v1/namespaces/NAMESPACE/services` */
function collection(resource: Resource, namespace: string): string {
  const { path } = kinds[resource];
  const at = path.lastIndexOf('/');
  return `${path.slice(0, at)}/namespaces/${namespace}${path.slice(at)}`;
}

async function create(resource: Resource, { key, json }: StoredObject): Promise<void> {
  const raw = JSON.parse(json) as { metadata: Raw; spec?: Raw };
  const { resourceVersion, uid, creationTimestamp, generateName, ...metadata } = raw.metadata;
  // The server allocates the addresses of Services, because it keeps some for itself.
  const { clusterIP, clusterIPs, ...spec } = raw.spec ?? {};
  const object = { ...raw, metadata, ...(raw.spec === undefined ? {} : { spec }) };
  await write('POST', collection(resource, key.split('/')[0]!), object);
}

async function list(way: Way, accept: string, gzip: boolean): Promise<object> {
  const query =
    way === 'streaming'
      ? 'watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true'
      : 'resourceVersion=0';
  const startedMs = performance.now();
  const headers = { accept, ...(gzip ? { 'accept-encoding': 'gzip' } : {}) };
  const { response, sent } = await open('GET', `${slices}?${query}`, headers);
  let bytes = 0;
  // The mark may come in two parts.
  let tail: Buffer = Buffer.alloc(0);
  for await (const part of response as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (Buffer.concat([tail, part]).includes(endOfList)) break;
    tail = part.subarray(-endOfList.length);
  }
  sent.destroy();
  return { bytes, ms: performance.now() - startedMs, type: response.headers['content-type'] };
}

async function versions(of: VersionOf, count: number, accept: string): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    for (const resource of ['services', 'endpointslices'] as const) {
      const path =
        of === 'one of all'
          ? `${kinds[resource].path}?limit=1`
          : `${collection(resource, 'default')}?limit=1&fieldSelector=metadata.name=none`;
      const { response } = await open('GET', path, { accept });
      for await (const _ of response);
      if (response.statusCode !== 200) throw new Error(`GET ${path}: ${response.statusCode}`);
    }
  }
}

async function watch(count: number, accept: string): Promise<void> {
  for (const sent of watches) sent.destroy();
  const { response } = await open('GET', `${slices}?limit=1`);
  let text = '';
  for await (const part of response) text += part;
  const { resourceVersion } = JSON.parse(text).metadata;
  watches = await Promise.all(
    Array.from({ length: count }, async () => {
      const path = `${slices}?watch=true&resourceVersion=${resourceVersion}`;
      const { response, sent } = await open('GET', path, { accept });
      sent.on('error', () => {});
      response.on('error', () => {});
      response.on('data', (part: Buffer) => {
        received += part.length;
      });
      return sent;
    }),
  );
}

async function storm({ count, spreadMs, accept, protocol }: StormOptions): Promise<Storm> {
  for (const one of nodes) one.close();
  nodes = [];
  const headers = { authorization: `Bearer ${token}`, accept };
  const startedMs = performance.now();
  const before = process.cpuUsage();
  const tookMs = await Promise.all(
    Array.from({ length: count }, async () => {
      await sleep(Math.random() * spreadMs);
      const one = new WatchingNode(protocol, { server, headers });
      nodes.push(one);
      const beganMs = performance.now();
      await one.list();
      return performance.now() - beganMs;
    }),
  );
  const { user, system } = process.cpuUsage(before);
  return {
    tookMs,
    ms: performance.now() - startedMs,
    refused: sum(nodes.map((one) => one.refused)),
    broken: sum(nodes.map((one) => one.broken)),
    bytes: sum(nodes.map((one) => one.received)),
    cpuMs: (user + system) / 1000,
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0);
}

/** What watches and nodes have received so far. */
function receivedBytes(): number {
  return received + sum(nodes.map((one) => one.received));
}

async function change(count: number, perSecond = Number.POSITIVE_INFINITY): Promise<Changed> {
  const beforeBytes = receivedBytes();
  const cpuBefore = process.cpuUsage();
  const keys = [...store.objects('endpointslices').keys()];
  const startedMs = performance.now();
  await each(
    Array.from({ length: count }, (_, i) => i),
    async (i) => {
      const waitMs = startedMs + (i * 1000) / perSecond - performance.now();
      if (waitMs > 0) await sleep(waitMs);
      const key = keys[i % keys.length]!;
      const [namespace = '', name] = key.split('/');
      const path = `${collection('endpointslices', namespace)}/${name}`;
      const headers = { 'content-type': 'application/json-patch+json' };
      const address = `10.${Math.floor(Math.random() * 250)}.${Math.floor(Math.random() * 250)}.7`;
      const patch = [
        { op: 'replace', path: '/endpoints/0/addresses/0', value: address },
        { op: 'replace', path: triggerPath, value: new Date().toISOString() },
      ];
      const { response } = await open('PATCH', path, headers, JSON.stringify(patch));
      response.resume();
      if (response.statusCode !== 200) throw new Error(`PATCH ${path}: ${response.statusCode}`);
    },
  );
  for (let before = -1; before !== receivedBytes(); ) {
    before = receivedBytes();
    await sleep(1000);
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  return { bytes: receivedBytes() - beforeBytes, cpuMs: (user + system) / 1000 };
}

async function run(command: Command): Promise<unknown> {
  switch (command.do) {
    case 'load':
      return load(command.services, command.endpoints);
    case 'list':
      return list(command.way, command.accept, command.gzip);
    case 'versions':
      return versions(command.of, command.count, command.accept);
    case 'watch':
      return watch(command.count, command.accept);
    case 'change':
      return change(command.count, command.perSecond);
    case 'storm':
      return storm(command);
  }
}

await answerCommands(run);
process.exit(0);
