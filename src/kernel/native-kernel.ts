/** The kernel behind the addon. */
import { Pacer } from '../time/pacer.ts';
import { type Addon, loadAddon, type Socket, type SocketOptions, type Watch } from './addon.ts';
import { bpfOps } from './bpf-ops.ts';
import { describeRequest } from './describe-request.ts';
import { KernelError } from './errors.ts';
import type {
  ApplyResult,
  DumpResult,
  GoneRule,
  Kernel,
  KernelFailure,
  ReplyOf,
  TableWatcher,
  WatchedTable,
} from './kernel.ts';
import {
  kernelReplies,
  kernelRequests,
  type Reply,
  type Request,
  replies,
  unknownIndex,
} from './ops.ts';
import { RecordWriter, readRecords, recordStarts } from './records.ts';
import { errnoName, submit, systemCallError } from './submit.ts';

/** To ask for the time takes as long as to read a record. */
const recordsUntimed = 64;

/** Calls `take` with each, and gives the event loop its turns. */
async function inSlices<T>(all: Iterable<T>, take: (one: T) => void): Promise<void> {
  const pacer = new Pacer();
  let taken = 0;
  for (const one of all) {
    take(one);
    taken += 1;
    if (taken % recordsUntimed === 0 && pacer.due) await pacer.rest();
  }
}

/** How a dump ended: its last record. */
async function endOf(answer: Uint8Array): Promise<Reply | undefined> {
  let last = 0;
  await inSlices(recordStarts(answer), (start) => {
    last = start;
  });
  const [end] = readRecords(kernelReplies, answer.subarray(last));
  return end;
}

/** Reads the records of a dump without its end. */
function each(answer: Uint8Array, take: (record: Reply) => void): Promise<void> {
  return inSlices(readRecords(kernelReplies, answer), (reply) => {
    if (reply.kind !== 'dumped') take(reply);
  });
}

type OnChange = ConstructorParameters<Addon['Watch']>[1];
type Failed = ReplyOf<'failed'>;

/**
 * Opens the kernel of this process's network namespace, or of another (`netns`, a path such as
 * `/run/netns/a`). Nothing is sent yet: a namespace that cannot be entered makes the first
 * operation reject. Throws when the addon is not built.
 */
export function openKernel(options: SocketOptions = {}): Kernel {
  return new NativeKernel(loadAddon(), options);
}

class NativeKernel implements Kernel {
  /** Its own thread and socket, so that a long dump does not hold up a transaction. */
  readonly #writes: Socket;
  readonly #reads: Socket;
  /** The thread for batches of bpf(2), which wait for no transaction; made with the first. */
  #maps: Socket | undefined;
  readonly #openSocket: () => Socket;
  readonly #namespace: string;
  readonly #watch: (tables: readonly WatchedTable[] | undefined, onChange: OnChange) => Watch;
  readonly #watches = new Set<Watch>();
  commits = 0;
  /** Netlink port that the last transaction came from; 0 = none yet. */
  #port = 0;

  constructor(addon: Addon, options: SocketOptions) {
    const { netns } = options;
    this.#openSocket = () => new addon.Socket(options);
    this.#writes = this.#openSocket();
    this.#reads = this.#openSocket();
    this.#namespace = netns ?? 'this namespace';
    const within = netns === undefined ? {} : { netns };
    this.#watch = (tables, onChange) =>
      new addon.Watch({ ...within, ...(tables && { tables }) }, onChange);
  }

  async apply(ops: Uint8Array): Promise<ApplyResult> {
    if (ops.length === 0) return { kind: 'applied' };
    const answer = await submit(this.#socketFor(ops), ops, 'kernel.apply', this.#namespace);
    const failures: KernelFailure[] = [];
    let partly = false;
    const handles = new Map<number, number>();
    const gone = new Map<number, GoneRule>();
    for (const reply of readRecords(replies, answer)) {
      if (reply.kind === 'failed') failures.push(toFailure(reply));
      else if (reply.kind === 'committed') {
        partly = true;
        this.commits += 1;
        this.#sentFrom(reply.port);
      } else if (reply.kind === 'attempted') partly ||= reply.taken > 0;
      else if (reply.kind === 'ruleHandle') handles.set(reply.op, reply.handle);
      else if (reply.kind === 'ruleGone') gone.set(reply.op, reply);
    }
    if (failures.length > 0) return { kind: 'failed', failures, partly };
    return {
      kind: 'applied',
      ...(handles.size > 0 && { handles }),
      ...(gone.size > 0 && { gone }),
    };
  }

  dump(request: Request, take?: (record: Reply) => void): Promise<DumpResult> {
    return this.#dump(this.#reads, request, take);
  }

  async #dump(
    socket: Socket,
    request: Request,
    take?: (record: Reply) => void,
  ): Promise<DumpResult> {
    const { operation, subject } = describeRequest(request, this.#namespace);
    const writer = new RecordWriter(kernelRequests, 256);
    writer.write(request.kind, request);
    const answer = await submit(socket, writer.finish(), operation, subject);
    const end = await endOf(answer);
    if (end?.kind !== 'dumped') throw protocolError(operation, subject, 'the answer has no end');
    if (end.errno !== 0) {
      const code = errnoName(end.errno);
      if (code === 'ENOENT' || code === 'ENODEV') return { records: [], consistent: true };
      throw new KernelError({ operation, subject, code, words: end.message });
    }
    const consistent = end.interrupted === 0 && end.overrun === 0;
    const records: Reply[] = [];
    if (take === undefined) await each(answer, (record) => records.push(record));
    else if (consistent) await each(answer, take);
    return { records, consistent };
  }

  async generation(): Promise<number> {
    const { records } = await this.#dump(this.#writes, { kind: 'generationGet' });
    const reply = records.find((record) => record.kind === 'generation');
    if (reply !== undefined) return reply.generation;
    throw protocolError('nft.generationGet', this.#namespace, 'the answer has no generation');
  }

  isOwn(port: number): boolean {
    return port !== 0 && port === this.#port;
  }

  watch(tables: readonly WatchedTable[], watcher: TableWatcher): () => void {
    const subject = tables.map(({ table }) => `table ${table}`).join(', ') || this.#namespace;
    return this.#follow(tables, 'nft.watch', subject, watcher);
  }

  watchLinks(watcher: TableWatcher): () => void {
    return this.#follow(undefined, 'route.watch', this.#namespace, watcher);
  }

  #follow(
    tables: readonly WatchedTable[] | undefined,
    operation: string,
    subject: string,
    { changed, ended }: TableWatcher,
  ): () => void {
    const end = (error: unknown): void => ended(systemCallError(error, operation, subject));
    let watch: Watch;
    try {
      watch = this.#watch(tables, (error, program, pid) => {
        if (!this.#watches.has(watch)) return;
        if (error === undefined) changed(program === '' ? undefined : { program, pid });
        else if (this.#watches.delete(watch)) end(error);
      });
    } catch (error) {
      const soon = setTimeout(end, 0, error);
      return () => clearTimeout(soon);
    }
    this.#watches.add(watch);
    watch.ignore(this.#port);
    return () => {
      this.#watches.delete(watch);
      watch.close();
    };
  }

  close(): void {
    this.#writes.close();
    this.#reads.close();
    this.#maps?.close();
    for (const watch of this.#watches) watch.close();
    this.#watches.clear();
  }

  #socketFor(ops: Uint8Array): Socket {
    if (!isOfBpf(ops)) return this.#writes;
    this.#maps ??= this.#openSocket();
    return this.#maps;
  }

  #sentFrom(port: number): void {
    if (port === this.#port) return;
    this.#port = port;
    for (const watch of this.#watches) watch.ignore(port);
  }
}

const bpfCodes: ReadonlySet<number> = new Set(Object.values(bpfOps).map(({ code }) => code));

/** Batches of bpf(2) have no other ops. */
function isOfBpf(ops: Uint8Array): boolean {
  return bpfCodes.has(new DataView(ops.buffer, ops.byteOffset).getUint32(0, true));
}

function toFailure({ entry, errno, message, op }: Failed): KernelFailure {
  const failure = { op: known(op), entry: known(entry), code: errnoName(errno), message };
  // As `CollectAnswers` of native/nft/batch.cc says it.
  const isLost = failure.op === undefined && /^(ENOBUFS|ENOMSG)$/.test(failure.code);
  return isLost ? { ...failure, isLost } : failure;
}

function known(index: number): number | undefined {
  return index === unknownIndex ? undefined : index;
}

function protocolError(operation: string, subject: string, words: string): KernelError {
  return new KernelError({ operation, subject, code: 'EPROTO', words });
}
