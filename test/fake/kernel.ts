/**
 * A kernel in memory for tests: nf_tables, IPVS, links, ipset, iptables-legacy and programs of bpf.
 * It applies a buffer of ops as the kernel does, run by run, refuses what it refuses, with the same
 * errno, op and entry (test/conformance proves it against a real one). It can be made to fail, to
 * lose its answer, to be slow, and to be edited by another program.
 */

import { bpfRequests } from '../../src/kernel/bpf-ops.ts';
import { KernelError } from '../../src/kernel/errors.ts';
import { ipsetRequests } from '../../src/kernel/ipset-ops.ts';
import { ipvsRequests } from '../../src/kernel/ipvs-ops.ts';
import type {
  ApplyResult,
  DumpResult,
  GoneRule,
  Kernel,
  KernelFailure,
  TableName,
  TableWatcher,
} from '../../src/kernel/kernel.ts';
import { NFT_TABLE } from '../../src/kernel/nft/constants.ts';
import {
  type KernelOp,
  kernelOps,
  type NftOp,
  type NftRequest,
  type Reply,
  type Request,
} from '../../src/kernel/ops.ts';
import { RecordError, readRecords } from '../../src/kernel/records.ts';
import { routeRequests } from '../../src/kernel/route-ops.ts';
import { FakeAccts } from './acct.ts';
import { type BpfRequest, FakeBpf } from './bpf.ts';
import { FakeIpsets, type IpsetRequest } from './ipsets.ts';
import { FakeIpvs, type IpvsRequest, ipvsText } from './ipvs.ts';
import { FakeLegacy } from './legacy.ts';
import { FakeLinks, type RouteRequest } from './links.ts';
import { answer } from './nft-dump.ts';
import { unpack } from './nft-entries.ts';
import { evaluate, type Outcome, type Packet } from './nft-packet.ts';
import { type NftSet, type Table, type Tables, tableId } from './nft-state.ts';
import { elementText, elementTexts, rulesetText } from './nft-text.ts';
import { Transaction } from './nft-transaction.ts';
import { validate } from './nft-validate.ts';
import { FakeNftrace } from './nftrace.ts';
import { Refusal } from './refusal.ts';
import { isAcct, isBpf, isIpset, isIpvs, type Run, runsOf, writesOf } from './runs.ts';

/** A refusal that a test asks for. */
export interface Fault {
  /** Symbolic errno. */
  readonly code: string;
  /** The index of the op that fails. Without this and the next three, the whole run fails. */
  readonly op?: number;
  /** Only a transaction with an op of this kind fails, at the first such op. */
  readonly forKind?: NftOp['kind'];
  /** Only a batch that adds or deletes elements of this set fails, at the first such op. */
  readonly forSet?: string;
  /**
   * Only an element whose text begins with this fails, e.g. `10.96.0.1 . tcp . 80`, or an op of
   * IPVS, e.g. `TCP 10.96.0.1:80` or `TCP 10.96.0.1:80 -> 10.244.0.7:8080`.
   */
  readonly forKey?: string;
  /** How many batches fail; Infinity = until `heal`. Default 1. */
  readonly times?: number;
}

/** The result of a transaction. With failures, nothing of it is applied. */
interface Commit {
  readonly failures: readonly KernelFailure[];
  /** Handles of new rules, by the index of their op. */
  readonly made: ReadonlyMap<number, number>;
  /** Deleted rules likewise. */
  readonly gone: ReadonlyMap<number, GoneRule>;
}

/** The netlink port of all other programs. */
const foreignPort = 0xffff;

const noRules = { made: new Map<number, number>(), gone: new Map<number, GoneRule>() } as const;

interface Watch {
  readonly port: number;
  readonly ids: readonly string[];
  readonly changed: TableWatcher['changed'];
}

type SetOp = Extract<NftOp, { kind: 'elementsAdd' | 'elementsDelete' }>;

type NftRun = Extract<Run, { family: 'nft' }>;
type SingleRun = Extract<Run, { family: 'single' }>;
type OtherRun = Exclude<Run, NftRun>;

interface Outcomes {
  readonly failures: readonly KernelFailure[];
  /** The number of ops that were applied. Of ops with entries, each entry counts. */
  readonly writes: number;
}

/** Those that the ops may change. */
function tablesOf(ops: readonly NftOp[]): string[] {
  return ops.flatMap((op) => ('table' in op ? [tableId(op.family, op.table)] : []));
}

/** The result of a dump, whose records go to `take`, if that is given (see `Kernel.dump`). */
export function delivered(
  result: DumpResult,
  take: ((record: Reply) => void) | undefined,
): DumpResult {
  if (take === undefined) return result;
  if (result.consistent) for (const record of result.records) take(record);
  return { ...result, records: [] };
}

export class FakeKernel implements Kernel {
  /** Virtual services and destinations. */
  readonly ipvs = new FakeIpvs();
  readonly links = new FakeLinks();
  /** Names of matches and targets of iptables that this kernel lacks. */
  readonly missingExtensions = new Set<string>();
  readonly ipsets = new FakeIpsets();
  readonly legacy = new FakeLegacy();
  readonly #tables: Tables = new Map();
  readonly accts = new FakeAccts(this.#tables);
  readonly nftrace = new FakeNftrace();
  readonly bpf = new FakeBpf();
  #generation = 1;
  #handle = 0;
  #faults: { readonly fault: Fault; left: number }[] = [];
  #interrupted = 0;
  #untilInterrupted = 0;
  #unknownOutcomes = 0;
  #port = 1;
  readonly #watches = new Set<Watch>();

  /** Whether the kernel has tables that have an owner and outlive it (Linux 6.9). */
  hasOwnership = true;
  /** Whether the kernel has tables that are deleted with their owner (Linux 5.12). */
  hasBorrowing = true;
  /** Writes so far, without those of `foreign`: each op counts, or each entry of one with entries. */
  writes = 0;
  /** How many of them were to a set `lease`, which is renewed although nothing changes. */
  renewals = 0;
  /** Transactions that were committed so far, as far as is known, without those of `foreign`. */
  commits = 0;
  /** Every apply and dump takes this many turns of the event loop. */
  delayTurns = 0;
  #held: Promise<void> | undefined;

  /** Every apply and dump waits from now on, until what is returned is called. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held = promise;
    return () => {
      this.#held = undefined;
      resolve();
    };
  }

  async apply(ops: Uint8Array): Promise<ApplyResult> {
    // What a caller changes in the buffer while the batch is under way must not matter to it.
    await this.#delay();
    return this.applyNow(ops);
  }

  /** `apply` without its delay, of the process that has this port. */
  applyNow(buffer: Uint8Array, port = this.#port): ApplyResult {
    let partly = false;
    const { commits } = this;
    const handles = new Map<number, number>();
    const gone = new Map<number, GoneRule>();
    for (const run of runsOf([...readRecords(kernelOps, buffer)])) {
      const { failures, writes, ...rules } =
        run.family === 'nft' ? this.#transact(run, port) : { ...this.#attempt(run), ...noRules };
      this.writes += writes;
      partly ||= writes > 0;
      if (failures.length > 0) return { kind: 'failed', failures, partly };
      for (const [op, handle] of rules.made) handles.set(op, handle);
      for (const [op, rule] of rules.gone) gone.set(op, rule);
    }
    if (this.#unknownOutcomes === 0) {
      return {
        kind: 'applied',
        ...(handles.size > 0 && { handles }),
        ...(gone.size > 0 && { gone }),
      };
    }
    this.#unknownOutcomes -= 1;
    this.commits = commits;
    const failure = failureOf(undefined, new Refusal('ENOBUFS'));
    return { kind: 'failed', failures: [{ ...failure, isLost: true }], partly: false };
  }

  async dump(request: Request, take?: (record: Reply) => void): Promise<DumpResult> {
    await this.#delay();
    if (request.kind === 'nftraceRead') await this.nftrace.wait();
    const records = this.#answer(request);
    const isWhole = this.#interrupted === 0 || this.#untilInterrupted > 0;
    this.#untilInterrupted -= 1;
    if (isWhole) return delivered({ records, consistent: true }, take);
    this.#interrupted -= 1;
    const some = records.slice(0, records.length / 2);
    return delivered({ records: some, consistent: false }, take);
  }

  async generation(): Promise<number> {
    return this.#generation;
  }

  isOwn(port: number): boolean {
    return port === this.#port;
  }

  watch(
    tables: readonly TableName[],
    { changed }: Pick<TableWatcher, 'changed'>,
    port = this.#port,
  ): () => void {
    const watch: Watch = {
      port,
      ids: tables.map(({ family, table }) => tableId(family, table)),
      changed,
    };
    this.#watches.add(watch);
    queueMicrotask(() => this.#watches.has(watch) && changed());
    return () => this.#watches.delete(watch);
  }

  watchLinks({ changed }: TableWatcher): () => void {
    return this.links.watch(() => changed());
  }

  close(): void {
    this.release();
  }

  /** Closes our socket, which deletes the tables that go with it. */
  release(port = this.#port): void {
    for (const [id, { flags, owner }] of this.#tables) {
      if (owner === port && flags === NFT_TABLE.OWNER) this.#tables.delete(id);
    }
  }

  /** Ends our process and starts another one. */
  restart(): void {
    this.exit(this.#port);
    this.#port += 1;
  }

  /** The process that has this port ends. Its tables have no owner then. */
  exit(port: number): void {
    this.release(port);
    for (const watch of this.#watches) if (watch.port === port) this.#watches.delete(watch);
    for (const [id, table] of this.#tables) {
      if (table.owner !== port) continue;
      this.#tables.set(id, { ...table, owner: 0, flags: table.flags & ~NFT_TABLE.OWNER });
    }
  }

  /** Makes the next batch that fits the description fail; nothing of it is applied. */
  failNext(fault: Fault): void {
    this.#faults.push({ fault, left: fault.times ?? 1 });
  }

  /** Ends all faults. */
  heal(): void {
    this.#faults = [];
    this.#interrupted = 0;
    this.#unknownOutcomes = 0;
  }

  /** The next batch is applied, but reported as failed: its acknowledgement is lost. */
  unknownOutcome(): void {
    this.#unknownOutcomes += 1;
  }

  /** Makes the next dumps incomplete, after some that are not. They report that. */
  interruptDumps(count = 1, after = 0): void {
    this.#interrupted = count;
    this.#untilInterrupted = after;
  }

  /** Applies the ops of another program. Throws when one is refused. */
  foreign(ops: Uint8Array): void {
    for (const run of runsOf([...readRecords(kernelOps, ops)])) {
      const { failures } =
        run.family === 'nft' ? this.#commit(run, foreignPort) : this.#untroubled(run);
      const [failure] = failures;
      if (failure !== undefined) throw new Error(`refused: ${JSON.stringify(failure)}`);
      if (run.family === 'nft') this.#tell(tablesOf(run.ops), foreignPort);
    }
  }

  /** Another program adds a counter, a flowtable or the like. Throws when it may not. */
  addObject(at: TableName, type: number, object: string): void {
    const table = this.table(at.family, at.table);
    if (table === undefined || table.owner !== 0) return;
    table.others.set(`${type} ${object}`, { type, object });
    this.#generation += 1;
    this.#tell([tableId(at.family, at.table)], foreignPort);
  }

  /**
   * Another program recreates elements with a comment, if it may: the `nth`, and every 7th after.
   */
  comment(at: TableName, set: string, nth: number): void {
    const table = this.table(at.family, at.table);
    const elements = table?.sets.get(set)?.elements;
    if (elements === undefined || table!.owner !== 0) return;
    const ids = [...elements.keys()];
    for (let i = nth % Math.max(1, ids.length); i < ids.length; i += 7) {
      elements.set(ids[i]!, { ...elements.get(ids[i]!)!, comment: 'not ours' });
    }
    this.#generation += 1;
    this.#tell([tableId(at.family, at.table)], foreignPort);
  }

  /** Reports a change of tables to all processes but the one that has made it. */
  #tell(changed: readonly string[], port: number): void {
    for (const watch of this.#watches) {
      const isIt = watch.port !== port && watch.ids.some((id) => changed.includes(id));
      if (isIt) queueMicrotask(() => watch.changed({ program: 'meddler', pid: 1 }));
    }
  }

  /** Everything, as text that is the same for the same state. */
  ruleset(): string {
    return rulesetText(this.#tables);
  }

  /** The elements of a set, as sorted text; empty when there is no such set. */
  elements(family: number, table: string, set: string): string[] {
    const known = this.#tables.get(tableId(family, table))?.sets.get(set);
    return known === undefined ? [] : elementTexts(known);
  }

  /** Undefined when there is no such table. Tests must not change it. */
  table(family: number, name: string): Table | undefined {
    return this.#tables.get(tableId(family, name));
  }

  /** What becomes of the first packet of a connection. */
  evaluate(packet: Packet): Outcome {
    return evaluate(this.#tables, packet, undefined, {
      isBound: (address) => this.links.isBound(address),
      servers: (to) => this.ipvs.serversOf(to),
    });
  }

  /** Evaluates the packet, and reports it to those who read events of traced packets. */
  send(packet: Packet): Outcome {
    return this.nftrace.send(this.#tables, packet);
  }

  async #delay(): Promise<void> {
    await this.#held;
    for (let i = 0; i < this.delayTurns; i += 1) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #answer(request: Request): Reply[] {
    if (request.kind === 'acctsDump') return this.accts.answer();
    if (request.kind === 'nftraceRead') return this.nftrace.answer();
    if (request.kind in bpfRequests) return this.bpf.answer(request as BpfRequest);
    if (request.kind === 'legacyTablesDump') return this.legacy.answer(request.family);
    if (request.kind in routeRequests) return this.links.answer(request as RouteRequest);
    if (request.kind in ipsetRequests) return this.ipsets.answer(request as IpsetRequest);
    if (!(request.kind in ipvsRequests)) return this.#answerNft(request as NftRequest);
    if (this.ipvs.present) return this.ipvs.answer(request as IpvsRequest);
    const { code, message: words } = new Refusal('EPROTONOSUPPORT');
    throw new KernelError({ operation: `ipvs.${request.kind}`, subject: 'fake', code, words });
  }

  #answerNft(request: NftRequest): Reply[] {
    try {
      return answer(this.#tables, this.#generation, request);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const { code, message: words } = error;
      if (code === 'ENOENT') return [];
      throw new KernelError({ operation: `nft.${request.kind}`, subject: 'fake', code, words });
    }
  }

  /** A run of nft ops, with the faults that a test asked for. */
  #transact(run: NftRun, port: number): Outcomes & Commit {
    const injected = this.#injected(run);
    const commit = injected === undefined ? this.#commit(run, port) : refused([injected]);
    if (commit.failures.length > 0) return { ...commit, writes: 0 };
    this.#tell(tablesOf(run.ops), port);
    this.commits += 1;
    const writesTo = (ops: readonly NftOp[]) => ops.reduce((sum, op) => sum + writesOf(op), 0);
    this.renewals += writesTo(run.ops.filter((op) => 'set' in op && op.set === 'lease'));
    return { ...commit, writes: writesTo(run.ops) };
  }

  /** A run of other ops, with the faults that a test asked for: of an op that a fault names, only
   * that one fails. */
  #attempt(run: OtherRun): Outcomes {
    const injected = this.#injected(run);
    if (injected === undefined) return this.#untroubled(run);
    if (injected.op === undefined || run.family === 'legacy')
      return { failures: [injected], writes: 0 };
    return this.#each(run, injected);
  }

  #untroubled(run: OtherRun): Outcomes {
    if (run.family === 'single') return this.#each(run);
    try {
      this.legacy.run(run.ops);
      return { failures: [], writes: run.ops.length };
    } catch (error) {
      return { failures: [failureOf(run.first, error)], writes: 0 };
    }
  }

  /** Tries each op except the one that `injected` names. */
  #each(run: SingleRun, injected?: KernelFailure): Outcomes {
    const failures: KernelFailure[] = injected === undefined ? [] : [injected];
    let writes = 0;
    if (isIpvs(run.ops[0]!) && !this.ipvs.present) {
      return { failures: [failureOf(undefined, new Refusal('EPROTONOSUPPORT'))], writes };
    }
    for (const [index, op] of run.ops.entries()) {
      const at = run.first + index;
      if (at === injected?.op) continue;
      const refusals = this.#one(op);
      failures.push(...refusals.map((refusal) => failureOf(at, refusal)));
      const isRefused = refusals.some(({ entry }) => entry === undefined);
      writes += isRefused ? 0 : writesOf(op) - refusals.length;
    }
    return { failures, writes };
  }

  #one(op: SingleRun['ops'][number]): Refusal[] {
    try {
      if (isIpset(op)) this.ipsets.run(op);
      else if (isAcct(op)) this.accts.run(op);
      else if (isBpf(op)) return this.bpf.run(op);
      else if (!isIpvs(op)) return this.links.run(op);
      else this.ipvs.run(op);
      return [];
    } catch (error) {
      if (error instanceof Refusal) return [error];
      throw error;
    }
  }

  /** Applies all, or nothing and returns why. */
  #commit({ ops, first: start }: NftRun, port: number): Commit {
    const { transaction, failures } = this.#run(ops, start, port, 'at the end');
    if (failures.length === 0) {
      if (transaction.changed) this.#generation += 1;
      return { failures, made: transaction.handles, gone: transaction.gone };
    }
    transaction.rollback();
    if (failures[0]?.op !== undefined) return refused(failures);
    // The kernel, too, replays a batch that is not valid as a whole to find the op to blame.
    const replay = this.#run(ops, start, port, 'after each op');
    replay.transaction.rollback();
    return refused(replay.failures);
  }

  /**
   * Continues after a refused op, like the kernel. A failure of validation at the end has no op.
   */
  #run(
    ops: readonly NftOp[],
    skipped: number,
    port: number,
    validated: 'at the end' | 'after each op',
  ) {
    const nextHandle = (): number => {
      this.#handle += 1;
      return this.#handle;
    };
    const transaction = new Transaction(this.#tables, {
      missing: this.missingExtensions,
      counters: this.accts.packets,
      nextHandle,
      port,
      hasOwnership: this.hasOwnership,
      hasBorrowing: this.hasBorrowing,
    });
    const failures: KernelFailure[] = [];
    const attempt = (op: number | undefined, act: () => void): void => {
      try {
        act();
      } catch (error) {
        failures.push(failureOf(op, error));
      }
    };
    const validateAll = (): void => {
      for (const table of transaction.unchecked) validate(table);
    };
    for (const [index, op] of ops.entries()) {
      attempt(index + skipped, () => {
        transaction.run(op, index + skipped);
        if (validated === 'after each op') validateAll();
      });
    }
    if (failures.length === 0) attempt(undefined, validateAll);
    return { transaction, failures };
  }

  #injected(run: Run): KernelFailure | undefined {
    for (const entry of this.#faults) {
      const where =
        run.family === 'nft' ? this.#match(entry.fault, run) : matchSingle(entry.fault, run);
      if (where === undefined) continue;
      entry.left -= 1;
      this.#faults = this.#faults.filter(({ left }) => left > 0);
      const { code } = entry.fault;
      return { ...where, code, message: new Refusal(code).message };
    }
    return undefined;
  }

  /** The op of the batch that the fault hits; undefined = none. */
  #match(
    { op, forKind, forSet, forKey }: Fault,
    { ops, first }: NftRun,
  ): Pick<KernelFailure, 'op' | 'entry'> | undefined {
    if (forKind !== undefined) {
      const index = ops.findIndex(({ kind }) => kind === forKind);
      return index < 0 ? undefined : { op: first + index, entry: undefined };
    }
    if (forSet === undefined && forKey === undefined) return isIn(op, ops, first);
    for (const [index, candidate] of ops.entries()) {
      if (candidate.kind !== 'elementsAdd' && candidate.kind !== 'elementsDelete') continue;
      if (forSet !== undefined && candidate.set !== forSet) continue;
      if (forKey === undefined) return { op: first + index, entry: undefined };
      const fields = this.#setFields(candidate, ops);
      if (fields === undefined) continue;
      const entry = unpack(candidate).findIndex((e) => elementText(fields, e).startsWith(forKey));
      if (entry >= 0) return { op: first + index, entry };
    }
    return undefined;
  }

  /** The fields of the set of an elements op. The same batch may make the set. */
  #setFields({ family, table, set }: SetOp, ops: readonly NftOp[]): NftSet['fields'] | undefined {
    const isIt = (op: NftOp): op is Extract<NftOp, { kind: 'setAdd' }> =>
      op.kind === 'setAdd' && op.family === family && op.table === table && op.set === set;
    return this.table(family, table)?.sets.get(set)?.fields ?? ops.find(isIt);
  }
}

function refused(failures: readonly KernelFailure[]): Commit {
  return { failures, ...noRules };
}

function failureOf(op: number | undefined, error: unknown): KernelFailure {
  if (error instanceof Refusal) {
    return { op, entry: error.entry, code: error.code, message: error.message };
  }
  if (!(error instanceof RecordError)) throw error;
  return { op, entry: undefined, code: 'EINVAL', message: error.message };
}

/** The op that a fault hits in a run whose ops are independent; undefined = none. */
function matchSingle(
  { op, forSet, forKey }: Fault,
  { ops, first }: OtherRun,
): Pick<KernelFailure, 'op' | 'entry'> | undefined {
  if (forSet !== undefined) return undefined;
  if (forKey !== undefined) {
    const index = ops.findIndex((each) => isIpvs(each) && ipvsText(each).startsWith(forKey));
    return index < 0 ? undefined : { op: first + index, entry: undefined };
  }
  return isIn(op, ops, first);
}

/** The op, if it is one of the run that begins at `first`, or none in particular. */
function isIn(
  op: number | undefined,
  ops: readonly KernelOp[],
  first: number,
): Pick<KernelFailure, 'op' | 'entry'> | undefined {
  const isHere = op === undefined || (op >= first && op < first + ops.length);
  return isHere ? { op, entry: undefined } : undefined;
}
