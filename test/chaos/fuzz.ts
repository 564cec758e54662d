/**
 * Fuzzes inputs from outside, as text, JSON or protobuf. Each boundary must accept an input, or
 * refuse it by the error that it documents.
 */
import { isUtf8 } from 'node:buffer';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/load.ts';
import { replies } from '../../src/kernel/ops.ts';
import { RecordError, readRecords } from '../../src/kernel/records.ts';
import { bodyBytesMax, headBytesMax, RequestReader } from '../../src/serve/http/request-reader.ts';
import type { Answers } from '../../src/serve/http/wire.ts';
import { debugRoutes } from '../../src/serve/servers.ts';
import { decodeContext, kindOf } from '../../src/source/decode.ts';
import { Delivery } from '../../src/source/kubernetes/delivery.ts';
import { StreamError } from '../../src/source/kubernetes/errors.ts';
import { readAccess } from '../../src/source/kubernetes/kubeconfig.ts';
import { decodeChosenPod } from '../../src/source/kubernetes/pods.ts';
import { protobuf } from '../../src/source/kubernetes/protobuf/encoding.ts';
import { FrameCutter } from '../../src/source/kubernetes/protobuf/frame-cutter.ts';
import { ListCutter } from '../../src/source/kubernetes/protobuf/list-cutter.ts';
import { StringCache } from '../../src/source/kubernetes/protobuf/string-cache.ts';
import { LineFramer, ListSplitter } from '../../src/source/kubernetes/stream.ts';
import { parseWatchEvent } from '../../src/source/kubernetes/watch-event.ts';
import { type Findings, flatten } from '../../src/source/manifests/flatten.ts';
import { decodeManifests } from '../../src/source/manifests/objects.ts';
import { parseManifest } from '../../src/source/manifests/parse.ts';
import type { SourceProblem, Watched } from '../../src/source/source.ts';
import { resources } from '../../src/state/change.ts';
import { ClusterState } from '../../src/state/store.ts';
import { Pacer } from '../../src/time/pacer.ts';
import { httpHere } from '../fake/http-here.ts';
import { corpora } from './corpus.ts';
import { Mutator } from './mutator.ts';
import { Random } from './random.ts';

const bytesMax = 4096;
const watched: readonly Watched[] = [...resources, 'pods'];

const inProtobuf = {
  services: protobuf('services', decodeContext('node'), new StringCache()),
  endpointslices: protobuf('endpointslices', decodeContext('node'), new StringCache()),
  nodes: protobuf('nodes', decodeContext('node'), new StringCache()),
  servicecidrs: protobuf('servicecidrs', decodeContext('node'), new StringCache()),
  pods: protobuf('pods', decodeContext('node'), new StringCache()),
};

/**
 * The boundaries where inputs come in. Each takes any bytes; an error that it throws is a finding.
 */
export const boundaries: Readonly<Record<string, (input: Buffer, random: Random) => unknown>> = {
  'watch lines': watchLines,
  'list bodies': listBodies,
  'protobuf watch frames': protobufFrames,
  'protobuf lists': protobufLists,
  'JSON objects': jsonObjects,
  manifests,
  'configuration files': configurationFile,
  kubeconfigs: kubeconfig,
  'answers of the addon': answers,
  'HTTP requests': httpRequests,
  'HTTP ports': httpPorts,
};

export interface FuzzResult {
  readonly boundary: string;
  readonly executions: number;
  readonly seconds: number;
}

/** Rejects with the input and the seed at the first finding. */
export async function fuzzText(
  boundary: string,
  seed: number,
  limits: { readonly executions?: number; readonly seconds?: number },
): Promise<FuzzResult> {
  const { executions: most = Number.POSITIVE_INFINITY, seconds = Number.POSITIVE_INFINITY } =
    limits;
  const random = new Random(seed);
  const mutator = new Mutator(corpora(boundary), random);
  const startMs = performance.now();
  const elapsed = (): number => (performance.now() - startMs) / 1000;
  let executions = 0;
  for (; executions < most && elapsed() < seconds; executions += 1) {
    const input = mutator.next();
    try {
      await boundaries[boundary]!(input, random);
    } catch (error) {
      const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
      const found = `${boundary}, seed ${seed}, execution ${executions}: ${what}`;
      throw new Error(`${found}\nthe input, in base64:\n${input.toString('base64')}`);
    }
  }
  return { boundary, executions, seconds: elapsed() };
}

function assert(condition: boolean, words: string): void {
  if (!condition) throw new Error(words);
}

/** Other pieces of the same bytes must give the same lines. Each is an event or is refused. */
function watchLines(input: Buffer, random: Random): void {
  const whole = [...new LineFramer(bytesMax).push(input)];
  const framer = new LineFramer(bytesMax);
  const cut = pieces(input, random).flatMap((piece) => [...framer.push(piece)]);
  assert(sameFrames(whole, cut), 'lines depend on how they were cut');
  for (const line of whole) {
    if (line === 'oversized') continue;
    tolerate(StreamError, () => {
      const { object } = parseWatchEvent(line);
      for (const resource of watched) deliver(resource, object);
    });
  }
}

function listBodies(input: Buffer, random: Random): void {
  const splitter = (): ListSplitter => new ListSplitter(bytesMax);
  const whole = split(splitter(), input, [input]);
  const cut = split(splitter(), input, pieces(input, random));
  assert(whole.refused === cut.refused, `refused whole: ${whole.refused}, cut: ${cut.refused}`);
  if (!whole.refused) assert(sameFrames(whole.items, cut.items), 'items depend on cuts');
  // A list that JSON can parse must not be refused, and must have these items.
  const list = tryParse(input);
  if (!Array.isArray((list as { items?: unknown } | undefined)?.items) || whole.refused) return;
  for (const item of whole.items) {
    if (item === 'oversized') continue;
    const raw = tryParse(item);
    if (raw !== undefined) for (const resource of watched) deliver(resource, raw);
  }
}

/**
 * Bytes of a connection to one of our ports. Other pieces of the same bytes must give the same
 * requests, and what is kept of an incomplete one is bounded.
 */
function httpRequests(input: Buffer, random: Random): void {
  const read = (parts: readonly Buffer[]): string[] => {
    const found: string[] = [];
    const reader = new RequestReader();
    for (const part of parts) {
      for (let rest = part; rest.length > 0; ) {
        const progress = reader.push(rest);
        assert(reader.heldBytes <= headBytesMax + bodyBytesMax, 'too much is kept of a request');
        if (progress.kind === 'refused') {
          assert(progress.status >= 400 && progress.status < 600, 'refused with an odd status');
          return [...found, `refused ${progress.status}`];
        }
        if (progress.kind === 'more') break;
        const { request, used } = progress;
        assert(used > 0 && used <= rest.length, 'a request took more bytes than there were');
        assert(request.body.length <= bodyBytesMax, 'the body is too long');
        found.push(JSON.stringify(request));
        rest = rest.subarray(used);
      }
    }
    return [...found, reader.begun ? 'begun' : 'between'];
  };
  const [whole, cut] = [read([input]), read(pieces(input, random))];
  assert(whole.join('\n') === cut.join('\n'), `whole: ${whole}\ncut: ${cut}`);
}

const portAnswers: readonly Answers[] = [
  { kind: 'probes' },
  { kind: 'service', namespace: 'ns', name: 'web', slot: 0 },
  {
    kind: 'paths',
    paths: { '/metrics': 'each', '/debug/flags': 'each', '/debug/flags/v': 'each' },
  },
];

/** A port of each kind must answer what it understands, and end the connection after the rest. */
async function httpPorts(input: Buffer, random: Random): Promise<void> {
  const http = httpHere();
  const path = `\0fairlead-fuzz-${process.pid}-${performance.now()}`;
  const routes = {
    ...debugRoutes(() => {}),
    '/metrics': () => ({ status: 200, headers: {}, body: 'metrics' }),
  };
  const answers = random.pick(portAnswers);
  try {
    // An abstract name instead of an address, so that no free port is needed.
    const place = { path } as unknown as { port: number };
    await new Promise<void>((opened, failed) => {
      http.listen({ place, group: 'metrics', answers, routes, opened, failed });
    });
    const text = await sentTo(path, pieces(input, random));
    assert(text === '' || text.startsWith('HTTP/1.1 '), `answers ${JSON.stringify(text)}`);
    assert(!text.includes('HTTP/1.1 500 '), `fails: ${text}`);
  } finally {
    http.close();
  }
}

/** Resolves to the answers, when the other side has closed the connection. */
function sentTo(path: string, parts: readonly Buffer[]): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect({ path });
    socket.setEncoding('latin1');
    socket.on('data', (part) => {
      text += String(part);
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(text));
    for (const part of parts) socket.write(part);
    socket.end();
  });
}

/** Other pieces of the same bytes must give the same frames. Each is an event or is refused. */
function protobufFrames(input: Buffer, random: Random): void {
  const read = (parts: readonly Buffer[]) => {
    const cutter = new FrameCutter(bytesMax);
    const frames: (Buffer | 'oversized')[] = [];
    const refused = tolerate(StreamError, () => {
      for (const part of parts) for (const frame of cutter.push(part)) frames.push(frame);
    });
    return { frames, refused };
  };
  const [whole, cut] = [read([input]), read(pieces(input, random))];
  assert(whole.refused === cut.refused, `refused whole: ${whole.refused}, cut: ${cut.refused}`);
  assert(sameFrames(whole.frames, cut.frames), 'frames depend on how they were cut');
  for (const frame of whole.frames) {
    if (frame === 'oversized') continue;
    for (const resource of watched) {
      tolerate(StreamError, () => deliver(resource, inProtobuf[resource].event(frame).object));
    }
  }
}

function protobufLists(input: Buffer, random: Random): void {
  const cutter = (): ListCutter => new ListCutter(bytesMax, new StringCache());
  const whole = split(cutter(), input, [input]);
  const cut = split(cutter(), input, pieces(input, random));
  assert(whole.refused === cut.refused, `refused whole: ${whole.refused}, cut: ${cut.refused}`);
  assert(sameFrames(whole.items, cut.items), 'items depend on cuts');
  for (const item of whole.items) {
    if (item === 'oversized') continue;
    for (const resource of watched) readProtobuf(resource, item);
  }
}

/** An object must be delivered, or refused in one line that names its kind. */
function readProtobuf(resource: Watched, bytes: Buffer): void {
  let raw: unknown;
  try {
    raw = inProtobuf[resource].item(bytes);
  } catch (error) {
    const words = error instanceof Error ? error.message : '';
    assert(words.startsWith(kindOf[resource]) && words.includes(': '), `refused by "${words}"`);
    return;
  }
  deliver(resource, raw);
}

interface Splitter {
  push(chunk: Buffer): Iterable<Buffer | 'oversized'>;
  envelope(): unknown;
}

function split(splitter: Splitter, input: Buffer, parts: readonly Buffer[]) {
  const items: (Buffer | 'oversized')[] = [];
  const refused = tolerate(StreamError, () => {
    for (const part of parts) for (const item of splitter.push(part)) items.push(item);
    splitter.envelope();
  });
  assert(items.length <= input.length, 'more items than bytes');
  return { items, refused };
}

function jsonObjects(input: Buffer): void {
  const raw = tryParse(input);
  if (raw !== undefined) for (const resource of watched) deliver(resource, raw);
}

function isTelling({ subject, reason }: SourceProblem): void {
  assert(subject !== '' && reason !== '', 'says nothing');
}

/** Decodes an object, and applies it to the state. */
function deliver(resource: Watched, raw: unknown): void {
  if (resource === 'pods') {
    decodeChosenPod(raw).problems.forEach(isTelling);
    return;
  }
  const state = new ClusterState(0);
  const delivery = new Delivery(resource, decodeContext('node'), {
    change: (change) => state.apply(change),
    problem: isTelling,
    synced: () => {},
    listed: () => {},
  });
  const key = delivery.put(raw);
  assert(delivery.put(raw) === key, 'the same object has another key');
  if (key !== undefined) delivery.remove(key);
  delivery.retain(new Set());
  assert(delivery.size === 0, 'something stays');
}

async function manifests(input: Buffer, random: Random): Promise<void> {
  const file = random.pick(['a.yaml', 'a.json']);
  const pacer = new Pacer();
  const findings: Findings = { problems: [], unreadable: [] };
  const found = [...flatten(file, parseManifest(file, input), findings)];
  const content = { file, found, previous: new Map(), extent: 'all' } as const;
  await decodeManifests(content, decodeContext('node'), pacer);
  for (const { line } of findings.unreadable) assert(line >= 1, `line ${line}`);
}

function configurationFile(input: Buffer): void {
  const result = loadConfig(['--config', 'config.yaml'], { readFile: () => input });
  assert(result.kind === 'run' || result.kind === 'error', result.kind);
  if (result.kind === 'error') assert(result.text !== '', 'refused without a word');
}

function kubeconfig(input: Buffer): void {
  const directory = mkdtempSync(join(tmpdir(), 'fairlead-fuzz-'));
  const kubeconfigPath = join(directory, 'kubeconfig');
  try {
    writeFileSync(kubeconfigPath, input);
    readAccess({ kubeconfigPath, masterUrl: '', environment: {} });
  } catch (error) {
    // It must be an Error of one line that names the file.
    const { name, message } = error as Error;
    assert(name === 'Error' && message.includes(kubeconfigPath), `${name}: ${message}`);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function answers(input: Buffer): void {
  tolerate(RecordError, () => {
    for (const record of readRecords(replies, input)) assert(record.kind !== undefined, 'no kind');
  });
}

/** Whether `act` threw an error of this class. Others are thrown again. */
function tolerate(kind: new (...args: never[]) => Error, act: () => void): boolean {
  try {
    act();
    return false;
  } catch (error) {
    if (error instanceof kind) return true;
    throw error;
  }
}

function tryParse(bytes: Buffer): unknown {
  try {
    return isUtf8(bytes) ? JSON.parse(bytes.toString('utf8')) : undefined;
  } catch {
    return undefined;
  }
}

function pieces(input: Buffer, random: Random): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0; at < input.length; ) {
    const end = at + 1 + random.below(random.pick([1, 4, 64, 1024]));
    parts.push(input.subarray(at, end));
    at = end;
  }
  return parts;
}

function sameFrames(
  a: readonly (Buffer | 'oversized')[],
  b: readonly (Buffer | 'oversized')[],
): boolean {
  return a.length === b.length && a.every((one, i) => String(one) === String(b[i]));
}
