/**
 * Doubles for the sync loop: a kernel that holds text by key and rejects what the real one would,
 * a planner for it, and a clock that tests own. Each Forwarding is one object `f KEY`, and one
 * object `o KEY` that may only be deleted later.
 */
import { KernelError } from '../../../src/kernel/errors.ts';
import type {
  ApplyResult,
  DumpResult,
  Kernel,
  KernelFailure,
  TableName,
  TableWatcher,
} from '../../../src/kernel/kernel.ts';
import type {
  Batch,
  Drift,
  Environment,
  Observation,
  Repair,
  WrittenBatch,
} from '../../../src/modes/mode.ts';
import type { Planner } from '../../../src/modes/planner.ts';
import { EndpointList } from '../../../src/net/endpoint-list.ts';
import { keepOrder } from '../../../src/state/pool.ts';
import { type Forwarding, forwardingKey } from '../../../src/state/types.ts';
import type { Clock } from '../../../src/time/clock.ts';

export interface ToyOp {
  readonly object: string;
  /** What the kernel is believed to hold; undefined = nothing. */
  readonly was: string | undefined;
  /** undefined = delete. */
  readonly is: string | undefined;
}

export class ToyClock implements Clock {
  readonly #quiet: () => Promise<void>;
  #nowMs = 0;
  #timers = new Set<{ atMs: number; call: () => void }>();

  /** `whenQuiet` resolves when all that can happen without waiting has happened. */
  constructor(whenQuiet = quiet) {
    this.#quiet = whenQuiet;
  }

  now(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return 1_000_000 + this.#nowMs;
  }

  random(): number {
    return 0.5;
  }

  after(delayMs: number, call: () => void): () => void {
    const timer = { atMs: this.#nowMs + delayMs, call };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  turn(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }

  /** Lets everything happen that happens in `ms`, timers in their order. */
  async pass(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    for (;;) {
      await this.#quiet();
      const next = [...this.#timers].sort((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined || next.atMs > endMs) break;
      this.#timers.delete(next);
      this.#nowMs = next.atMs;
      next.call();
    }
    this.#nowMs = endMs;
    await this.#quiet();
  }
}

/** Time passes only where it is added to. */
export class SteppedClock extends ToyClock {
  ms = 0;

  override now(): number {
    return this.ms;
  }
}

/** Lets promises and immediates that wait for nothing else run out. */
export async function quiet(): Promise<void> {
  for (let i = 0; i < 30; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

interface Watch extends TableWatcher {
  readonly tables: readonly TableName[];
}

export class ToyKernel implements Kernel {
  objects = new Map<string, string>();
  generationNow = 1000;
  /** Objects written or deleted so far. */
  writes = 0;
  commits = 0;
  reads = 0;
  /** Objects that packets wrote and that a sweep deletes, and the Service of each. */
  readonly bindings = new Map<string, string>();
  /** Fails a batch for a reason of the test's; undefined = do not. */
  refuse: (ops: readonly ToyOp[]) => KernelFailure | undefined = () => undefined;
  unreadable = false;
  /** What the planner notes changes in. */
  observed: ToyObservation | undefined;
  readonly watches = new Set<Watch>();
  /** Whether a watch begins. */
  watching = true;
  /** Each apply, and each observation, waits for its gate. */
  #gates = { writes: Promise.resolve(), reads: Promise.resolve() };

  /** Holds every batch, or every observation, until the result is called. */
  hold(what: 'writes' | 'reads' = 'writes'): () => void {
    let release = (): void => {};
    this.#gates[what] = new Promise((resolve) => {
      release = resolve;
    });
    return release;
  }

  /** Makes the next observation take this time. */
  slowRead(clock: Clock, ms: number): void {
    clock.after(ms, this.hold('reads'));
  }

  async readable(): Promise<void> {
    await this.#gates.reads;
    if (!this.unreadable) return;
    const detail = { operation: 'toy.dump', subject: 'all', code: 'ENOBUFS', words: 'no room' };
    throw new KernelError(detail);
  }

  /** A change by another program. */
  meddle(change: (objects: Map<string, string>) => void): void {
    change(this.objects);
    this.generationNow += 1;
  }

  async apply(bytes: Uint8Array): Promise<ApplyResult> {
    await this.#gates.writes;
    const ops = decode(bytes);
    const refused = this.refuse(ops);
    if (refused !== undefined) return { kind: 'failed', failures: [refused], partly: false };
    const next = new Map(this.objects);
    for (const [index, { object, was, is }] of ops.entries()) {
      const held = next.get(object);
      const code =
        was !== undefined && held === undefined
          ? 'ENOENT'
          : was === undefined && held !== undefined && held !== is
            ? 'EEXIST'
            : undefined;
      if (code !== undefined) {
        const failure = { op: index, entry: undefined, code, message: `${code} ${object}` };
        return { kind: 'failed', failures: [failure], partly: false };
      }
      if (is === undefined) next.delete(object);
      else next.set(object, is);
    }
    this.objects = next;
    this.writes += ops.length;
    this.commits += 1;
    this.generationNow += 1;
    return { kind: 'applied' };
  }

  dump(): Promise<DumpResult> {
    throw new Error('the toy planner reads objects');
  }

  async generation(): Promise<number> {
    return this.generationNow;
  }

  isOwn(): boolean {
    return false;
  }

  watch(tables: readonly TableName[], watcher: TableWatcher): () => void {
    const watch = { tables, ...watcher };
    this.watches.add(watch);
    queueMicrotask(() => this.watches.has(watch) && this.watching && watch.changed());
    return () => this.watches.delete(watch);
  }

  close(): void {}
}

function decode(bytes: Uint8Array): ToyOp[] {
  const [, ...ops] = JSON.parse(new TextDecoder().decode(bytes)) as ToyOp[];
  return ops;
}

export function refusal(code: string, op?: number): KernelFailure {
  return { op, entry: undefined, code, message: code };
}

const fixedObject = 'fixed';
/** A ClusterIP on this port can be planned, but not written. */
const unwritable = 'clusterIP:6666';

class ToyObservation {
  readonly generation: number;
  readonly objects: ReadonlyMap<string, string>;
  readonly touched = new Set<string>();

  constructor(kernel: ToyKernel) {
    this.generation = kernel.generationNow - kernel.commits;
    this.objects = new Map(kernel.objects);
  }

  adopt(next: Forwarding): Forwarding {
    const text = this.objects.get(`f ${forwardingKey(next.servicePort)}`);
    if (text === undefined) return next;
    const held = Buffer.from(text.split(' ')[0]!, 'hex');
    return { ...next, cluster: keepOrder(EndpointList.from(next.family, held), next.cluster) };
  }

  leave({ servicePort }: Forwarding): boolean {
    const key = forwardingKey(servicePort);
    const isThere = this.objects.has(`f ${key}`);
    if (isThere) this.touched.add(key);
    return isThere;
  }
}

function textOf(forwarding: Forwarding): string {
  const frontends = forwarding.frontends.map(({ kind, port }) => `${kind}:${port}`);
  return `${forwarding.cluster.bytes().toString('hex')} ${frontends.join()}`;
}

export class ToyPlanner implements Planner {
  cloneEmpty(): Planner {
    throw new Error('nobody compares');
  }

  describe(): string[] {
    return [];
  }

  readonly family = 'IPv4';
  exposed: Planner['exposed'] = [{ family: 2, table: 'toy' }];
  batchBytesMax: Planner['batchBytesMax'] = undefined;
  readonly indivisible = false;
  readonly #toy: ToyKernel;
  #ops: ToyOp[] = [];
  #bytes = 0;
  #retired = new Map<string, 'young' | 'old' | 'taken'>();
  environment: Environment;
  #environmentInForce: Environment;
  #observation: ToyObservation | undefined;
  #batches = 0;
  #isInFlight = false;
  /** Services of the bindings that the batch in flight deletes. */
  #sweeping: readonly string[] = [];
  #isRefused = false;

  constructor(kernel: ToyKernel, environment: Environment) {
    this.#toy = kernel;
    this.environment = environment;
    this.#environmentInForce = environment;
  }

  get pendingBytes(): number {
    return this.#bytes;
  }

  get takeDeferred(): (() => Batch | undefined) | undefined {
    const isAny = [...this.#retired.values()].some((age) => age !== 'taken');
    return isAny ? () => this.#takeDeferred() : undefined;
  }

  change(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    if (this.#isRefused) throw new Error('change planned upon a refused batch');
    const key = forwardingKey((previous ?? next)!.servicePort);
    this.#observation?.touched.add(key);
    if (next?.healthCheckNodePort === 666) throw new RangeError('a port of the beast');
    const [was, is] = [previous && textOf(previous), next && textOf(next)];
    if (was !== is) this.#write(`f ${key}`, was, is);
    if (is === undefined) this.#retired.set(`o ${key}`, 'young');
    else if (was === undefined && !this.#retired.delete(`o ${key}`)) {
      this.#write(`o ${key}`, undefined, 'o');
    }
  }

  changeEnvironment(next: Environment): void {
    if (next === this.environment) return;
    this.#write(fixedObject, describe(this.environment), describe(next));
    this.environment = next;
  }

  #write(object: string, was: string | undefined, is: string | undefined): void {
    this.#ops.push({ object, was, is });
    this.#bytes += 100;
  }

  take(): Batch | undefined {
    if (this.#isInFlight || this.#isRefused) throw new Error('the batch before is not settled');
    if (this.#ops.some(({ is }) => is?.includes(unwritable))) throw new RangeError('no such port');
    const ops = this.#ops;
    this.#ops = [];
    this.#bytes = 0;
    return this.#batchOf(ops);
  }

  #takeDeferred(): Batch | undefined {
    const ops: ToyOp[] = [];
    for (const [object, age] of this.#retired) {
      this.#retired.set(object, age === 'young' ? 'old' : 'taken');
      if (age === 'old') ops.push({ object, was: 'o', is: undefined });
    }
    return this.#batchOf(ops);
  }

  get takeSweep(): (() => Promise<Batch | undefined>) | undefined {
    return this.#toy.bindings.size > 0 ? () => this.#takeSweep() : undefined;
  }

  async #takeSweep(): Promise<Batch | undefined> {
    const { bindings } = this.#toy;
    const ops = [...bindings.keys()].map((object) => ({ object, was: 'b', is: undefined }));
    this.#sweeping = [...bindings.values()];
    bindings.clear();
    return this.#batchOf(ops);
  }

  get unswept(): Planner['unswept'] {
    const services = new Set([...this.#toy.bindings.values(), ...this.#sweeping]);
    return services.size === 0 ? undefined : ({ servicePort }) => services.has(servicePort.name);
  }

  /** As of a mode whose readings batches spoil. */
  #batchOf(ops: readonly ToyOp[]): Batch | undefined {
    if (ops.length === 0) return undefined;
    this.#batches += 1;
    this.#isInFlight = true;
    const { environment } = this;
    const refused = (): void => {
      this.#isInFlight = false;
      this.#isRefused = true;
    };
    const committed = (): void => {
      this.#isInFlight = false;
      this.#sweeping = [];
      this.#environmentInForce = environment;
    };
    return { ...batchOf(ops), committed, refused };
  }

  async resume(): Promise<void> {
    this.#isRefused = false;
    this.#sweeping = [];
    this.#ops = [];
    this.#bytes = 0;
    this.environment = this.#environmentInForce;
    for (const [object, age] of this.#retired)
      if (age === 'taken') this.#retired.set(object, 'old');
  }

  /** What is committed while it reads, it does not see. */
  async observe(): Promise<Observation> {
    const batches = this.#batches;
    const found = new ToyObservation(this.#toy);
    await this.#toy.readable();
    this.#toy.reads += 1;
    this.#observation = found;
    this.#toy.observed = found;
    return {
      generation: found.generation,
      isStale: this.#batches !== batches || this.#isInFlight || this.#bytes > 0,
      allowsBatches: false,
      adopt: (next) => found.adopt(next),
      leave: (forwarding) => found.leave(forwarding),
      stage: () => undefined,
      restore: async () => {
        this.#environmentInForce = this.environment;
        await this.resume();
        return this.#begin(found);
      },
      repair: async () => this.#begin(found),
      drop: () => this.#drop(found),
    };
  }

  async miscounts(): Promise<undefined> {
    return undefined;
  }

  takeReport() {
    return { refused: [], rules: [] };
  }

  async prepare() {
    return { observe: () => this.observe() };
  }

  #begin(found: ToyObservation): Repair {
    return {
      drift: this.#repairObject(found, fixedObject, describe(this.environment)),
      compare: (desired) => this.#compare(found, desired),
      finish: async () => this.#finish(found),
    };
  }

  #compare(found: ToyObservation, wanted: Forwarding): Drift {
    const key = forwardingKey(wanted.servicePort);
    if (found.touched.has(key)) return { missing: 0, wrong: 0, unwanted: 0 };
    found.touched.add(key);
    const [f, o] = [`f ${key}`, `o ${key}`];
    this.#retired.delete(o);
    const drift = this.#repairObject(found, f, textOf(wanted));
    const other = this.#repairObject(found, o, 'o');
    return { missing: drift.missing + other.missing, wrong: drift.wrong, unwanted: 0 };
  }

  #repairObject(found: ToyObservation, object: string, is: string): Drift {
    const was = found.objects.get(object);
    if (was !== is) this.#write(object, was, is);
    const missing = was === undefined ? 1 : 0;
    return { missing, wrong: was !== is ? 1 - missing : 0, unwanted: 0 };
  }

  #finish(found: ToyObservation): Drift {
    let unwanted = 0;
    for (const [object, was] of found.objects) {
      const key = object.slice(2);
      const waits = this.#retired.has(object);
      if (object === fixedObject || found.touched.has(key) || waits) continue;
      this.#write(object, was, undefined);
      unwanted += 1;
    }
    this.#drop(found);
    return { missing: 0, wrong: 0, unwanted };
  }

  #drop(found: ToyObservation): void {
    if (this.#observation !== found) return;
    this.#observation = undefined;
    this.#toy.observed = undefined;
  }
}

function describe(environment: Environment): string {
  return `cidrs ${environment.serviceCIDRs.length}`;
}

function batchOf(ops: readonly ToyOp[]): WrittenBatch {
  // One byte-carrying element before the ops keeps even one op a JSON array of objects.
  const bytes = new TextEncoder().encode(JSON.stringify([{}, ...ops]));
  return {
    ops: bytes,
    writes: ops.length,
    culprits: ({ op }) => (op === undefined ? [] : [ops[op]!.object.slice(2)]),
  };
}
