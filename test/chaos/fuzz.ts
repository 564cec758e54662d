/**
 * Fuzzes inputs from outside, as text, JSON or protobuf. Each boundary must accept an input, or
 * refuse it by the error that it documents, and may keep no more memory than it says: some inputs
 * repeat a part of them millions of times.
 */
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
import { json } from '../../src/source/kubernetes/encoding.ts';
import { StreamError } from '../../src/source/kubernetes/errors.ts';
import { readAccess } from '../../src/source/kubernetes/kubeconfig.ts';
import { decodeChosenPod } from '../../src/source/kubernetes/pods.ts';
import { FrameCutter, protobuf } from '../../src/source/kubernetes/protobuf/encoding.ts';
import { ListCutter } from '../../src/source/kubernetes/protobuf/list-cutter.ts';
import { StringCache } from '../../src/source/kubernetes/protobuf/string-cache.ts';
import { LineFramer, ListSplitter } from '../../src/source/kubernetes/stream.ts';
import { defaultTiming } from '../../src/source/kubernetes/timing.ts';
import { parseWatchEvent } from '../../src/source/kubernetes/watch-event.ts';
import { type Findings, flatten } from '../../src/source/manifests/flatten.ts';
import { decodeManifests } from '../../src/source/manifests/objects.ts';
import { parseManifest } from '../../src/source/manifests/parse.ts';
import type { SourceProblem, Watched } from '../../src/source/source.ts';
import { resources } from '../../src/state/change.ts';
import { finish } from '../../src/state/steps.ts';
import { ClusterState } from '../../src/state/store.ts';
import { Pacer } from '../../src/time/pacer.ts';
import { httpHere } from '../fake/http-here.ts';
import { encodeObject } from '../fake/protobuf.ts';
import { usedMiB } from '../used-memory.ts';
import { corpora, repetitionsOf } from './corpus.ts';
import { inputBytesMax, Mutator, repeat } from './mutator.ts';
import { FirstChoices, Random } from './random.ts';

/** The most bytes of an object: short ones are refused often, long ones may have any values. */
const bytesMaxes = [defaultTiming.objectBytesMax, 4096] as const;
/** What may be kept of an incomplete object, in addition to its bytes: buffers of 256 pieces. */
const incompleteMiB = 4;
/** What may be kept of an object, parsed and decoded: a million values. */
const objectMiB = 128;
/** The most bytes of a grown input; YAML takes a second for each MiB. */
const grownBytesMax: Readonly<Record<string, number>> = {
  manifests: 256 * 1024,
  'configuration files': 256 * 1024,
  kubeconfigs: 256 * 1024,
  'HTTP ports': 256 * 1024,
};
const grownBytesMaxElse = defaultTiming.objectBytesMax - 2 * inputBytesMax;
const piecesMax = 1_000_000;
/** The most objects of an input that are kept, to be compared and delivered. */
const keptMax = 300;
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
  'protobuf objects': protobufObjects,
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

interface FuzzLimits {
  readonly executions?: number;
  readonly seconds?: number;
  /** An input that takes more CPU time is a finding. */
  readonly cpuSeconds?: number;
  /** Whether parts of inputs are repeated. */
  readonly grown?: boolean;
}

/**
 * Rejects with the input and its seed at the first finding. An input depends on nothing else: with
 * its seed it is the first one.
 */
export async function fuzzText(
  boundary: string,
  seed: number,
  limits: FuzzLimits,
): Promise<FuzzResult> {
  const never = Number.POSITIVE_INFINITY;
  const { executions: most = never, seconds = never, cpuSeconds = never, grown = true } = limits;
  const corpus = corpora(boundary);
  const startMs = performance.now();
  const elapsed = (): number => (performance.now() - startMs) / 1000;
  let executions = 0;
  for (; executions < most && elapsed() < seconds; executions += 1) {
    const random = new Random(seed + executions);
    const input = new Mutator(corpus, random, grown ? grownMost(boundary) : 0).next();
    await take(boundary, input, random, `seed ${seed + executions}`, cpuSeconds);
  }
  return { boundary, executions, seconds: elapsed() };
}

/**
 * Gives a boundary its known repetitions, in pieces of one byte where there are not too many. The
 * same inputs each time; rejects at the first finding.
 */
export async function fuzzRepetitions(boundary: string): Promise<void> {
  for (const repetition of repetitionsOf(boundary)) {
    const input = repeat(repetition, grownMost(boundary));
    const what = `repetition of ${JSON.stringify(repetition.map(String))}`;
    await take(boundary, input, new FirstChoices(), what, Number.POSITIVE_INFINITY);
  }
}

function grownMost(boundary: string): number {
  return grownBytesMax[boundary] ?? grownBytesMaxElse;
}

async function take(
  boundary: string,
  input: Buffer,
  random: Random,
  from: string,
  cpuSeconds: number,
): Promise<void> {
  const beforeCpu = process.cpuUsage();
  const warnings: Error[] = [];
  const warned = (warning: Error): void => void warnings.push(warning);
  process.on('warning', warned);
  try {
    await boundaries[boundary]!(input, random);
    const { user, system } = process.cpuUsage(beforeCpu);
    const tookS = (user + system) / 1e6;
    assert(tookS <= cpuSeconds, `takes ${tookS} s`);
    // Warnings are emitted in a later turn.
    await new Promise((resolve) => setImmediate(resolve));
    assert(warnings.length === 0, `writes to standard error: ${warnings[0]?.message}`);
  } catch (error) {
    const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
    const start = input.subarray(0, inputBytesMax).toString('base64');
    const found = `${boundary}, ${from}, ${input.length} bytes: ${what}`;
    throw new Error(`${found}\nthe input, in base64:\n${start}`);
  } finally {
    process.off('warning', warned);
  }
}

function assert(condition: boolean, words: string): void {
  if (!condition) throw new Error(words);
}

/** Keeps what is measured from being collected. */
const measured: unknown[] = [];

/** What is made of this number of bytes must not take more memory. Few bytes cannot. */
function bounded<T>(bytes: number, mostMiB: number, make: () => T): T {
  if (bytes <= inputBytesMax) return make();
  const beforeMiB = usedMiB();
  const made = make();
  measured.push(made);
  const grownMiB = usedMiB() - beforeMiB;
  measured.length = 0;
  assert(grownMiB <= mostMiB, `keeps ${grownMiB} MiB of ${bytes} bytes`);
  return made;
}

/** Other pieces of the same bytes must give the same lines. Each is an event or is refused. */
function watchLines(input: Buffer, random: Random): void {
  const bytesMax = random.pick(bytesMaxes);
  const lines = cutAnyhow(() => new LineFramer(bytesMax), input, random);
  for (const line of lines) {
    tolerate(StreamError, () => {
      const { object } = parseWatchEvent(line);
      for (const resource of watched) deliver(resource, object, line.length);
    });
  }
}

function listBodies(input: Buffer, random: Random): void {
  const bytesMax = random.pick(bytesMaxes);
  for (const item of cutAnyhow(() => new ListSplitter(bytesMax), input, random)) readItem(item);
}

/**
 * Bytes of a connection to one of our ports. Other pieces of the same bytes must give the same
 * requests, and what is kept of an incomplete one is bounded.
 */
function httpRequests(input: Buffer, random: Random): void {
  const read = (parts: Iterable<Buffer>): string[] => {
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
  const [whole, cut] = [read([input]), read(pieces(input, random)())];
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
    const text = await sentTo(path, pieces(input, random, 1000)());
    assert(text === '' || text.startsWith('HTTP/1.1 '), `answers ${JSON.stringify(text)}`);
    assert(!text.includes('HTTP/1.1 500 '), `fails: ${text}`);
  } finally {
    http.close();
  }
}

/** Resolves to the answers, when the other side has closed the connection. */
function sentTo(path: string, parts: Iterable<Buffer>): Promise<string> {
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
  const bytesMax = random.pick(bytesMaxes);
  for (const frame of cutAnyhow(() => new FrameCutter(bytesMax), input, random)) {
    for (const resource of watched) {
      tolerate(StreamError, () => {
        deliver(resource, finish(inProtobuf[resource].event(frame)).object, frame.length);
      });
    }
  }
}

function protobufLists(input: Buffer, random: Random): void {
  const bytesMax = random.pick(bytesMaxes);
  const cutter = (): ListCutter => new ListCutter(bytesMax, new StringCache());
  for (const item of cutAnyhow(cutter, input, random)) {
    for (const resource of watched) readProtobuf(resource, item);
  }
}

/** An object, and one that has the input as its spec, of any length. */
function protobufObjects(input: Buffer, random: Random): void {
  const resource = random.pick(watched);
  readProtobuf(resource, input);
  const metadata = { name: 'a', namespace: 'b', labels: { 'kubernetes.io/service-name': 'a' } };
  const spec = [Buffer.of(0x12), varint(input.length), input];
  const start = encodeObject(kindOf[resource], { metadata });
  readProtobuf(resource, Buffer.concat([start, ...spec]));
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; bytes.length === 0 || rest > 0; rest >>>= 7) {
    bytes.push((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
  }
  return Buffer.from(bytes);
}

/** An object must be delivered, or refused in one line that names its kind. */
function readProtobuf(resource: Watched, bytes: Buffer): void {
  let raw: unknown;
  try {
    raw = bounded(bytes.length, objectMiB, () => finish(inProtobuf[resource].item(bytes)));
  } catch (error) {
    const words = error instanceof Error ? error.message : '';
    assert(words.startsWith(kindOf[resource]) && words.includes(': '), `refused by "${words}"`);
    return;
  }
  deliver(resource, raw, bytes.length);
}

interface Cutter {
  push(chunk: Buffer): Iterable<Buffer | 'oversized'>;
  envelope?(): unknown;
}

/**
 * The first objects of an input. Pieces of it must give the same ones as the whole, and the cutter
 * must keep little of the last one, and nothing of those before.
 */
function cutAnyhow(make: () => Cutter, input: Buffer, random: Random): readonly Buffer[] {
  const parts = pieces(input, random);
  const inPieces = bounded(input.length, incompleteMiB, () => {
    const cutter = make();
    return { cutter, found: cut(cutter, parts()) };
  });
  const whole = cut(make(), [input]);
  const { found } = inPieces;
  assert(whole.refused === found.refused, `refused whole: ${whole.refused}, cut: ${found.refused}`);
  assert(whole.count === found.count, `${whole.count} objects, in pieces ${found.count}`);
  assert(whole.sizes === found.sizes, 'sizes of objects depend on how they were cut');
  const isSame = whole.first.every((one, i) => one.equals(found.first[i]!));
  assert(isSame, 'objects depend on how they were cut');
  return whole.first;
}

interface Cut {
  readonly refused: boolean;
  readonly count: number;
  /** A sum of all sizes, which depends on their order. */
  readonly sizes: number;
  /** The first objects that are not too large. */
  readonly first: readonly Buffer[];
}

function cut(cutter: Cutter, parts: Iterable<Buffer>): Cut {
  const first: Buffer[] = [];
  let [count, sizes] = [0, 0];
  const refused = tolerate(StreamError, () => {
    for (const part of parts) {
      for (const framed of cutter.push(part)) {
        count += 1;
        sizes = (Math.imul(sizes, 31) + (framed === 'oversized' ? -1 : framed.length)) | 0;
        if (framed !== 'oversized' && first.length < keptMax) first.push(framed);
      }
    }
    cutter.envelope?.();
  });
  return { refused, count, sizes, first };
}

function jsonObjects(input: Buffer, _random: Random): void {
  readItem(input);
}

/** An object must be delivered, or refused in one line. */
function readItem(bytes: Buffer): void {
  let raw: unknown;
  try {
    raw = bounded(bytes.length, objectMiB, () => finish(json.item(bytes)));
  } catch (error) {
    const words = error instanceof Error ? error.message : '';
    assert(words.startsWith('cannot read an object: '), `refused by "${words}"`);
    return;
  }
  for (const resource of watched) deliver(resource, raw, bytes.length);
}

function isTelling({ subject, reason }: SourceProblem): void {
  assert(subject !== '' && reason !== '', 'says nothing');
}

/** Decodes an object of this number of bytes, and applies it to the state. */
function deliver(resource: Watched, raw: unknown, bytes: number): void {
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
  const put = () => finish(delivery.decode(raw))();
  const [key] = bounded(bytes, objectMiB, () => [put(), state]);
  assert(put() === key, 'the same object has another key');
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

/** Pieces of one byte each, or of some length, or of any: the same at each call. */
function pieces(input: Buffer, random: Random, most = piecesMax): () => Generator<Buffer> {
  const sizes = random.pick([[1], [4], [1024], [1, 4, 64, 1024]]);
  const seed = random.below(2 ** 32);
  const shortest = Math.ceil(input.length / most);
  return function* () {
    const again = new Random(seed);
    for (let at = 0; at < input.length; ) {
      const end = at + Math.max(shortest, 1 + again.below(again.pick(sizes)));
      yield input.subarray(at, end);
      at = end;
    }
  };
}
