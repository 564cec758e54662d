/**
 * The whole program, on a fake API server, a fake kernel and virtual time: what happens follows
 * from a seed. Faults come at any moment; in the quiet between them, everything must be as the
 * objects say, and stay so without another write.
 */
import type { Diff } from '../../src/ask/difference.ts';
import { describeOps } from '../../src/kernel/describe-ops.ts';
import { isKernelError } from '../../src/kernel/errors.ts';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { kernelOps } from '../../src/kernel/ops.ts';
import { RecordWriter } from '../../src/kernel/records.ts';
import type { ModeName } from '../../src/modes/mode.ts';
import { resources } from '../../src/state/change.ts';
import { Random } from '../chaos/random.ts';
import { FakeApiServer } from '../fake/api-server.ts';
import type { Raw } from '../fake/api-server-store.ts';
import { disturbances } from '../fake/api-server-watch.ts';
import { areTranslated, endpointsAtConnectTime } from '../fake/connect-time.ts';
import { FakeConntrack } from '../fake/conntrack.ts';
import { FakeKernel } from '../fake/kernel.ts';
import type { Packet } from '../fake/nft-packet.ts';
import { address } from '../unit/state/build.ts';
import { Clients } from './clients.ts';
import { difference, gaugesIn, linesOf, words } from './comparison.ts';
import { Growth } from './growth.ts';
import { Illness } from './illness.ts';
import { configuration, Machine, NamespaceLock } from './machine.ts';
import { FakeNetwork } from './network.ts';
import { NodeProgram } from './node-program.ts';
import {
  clusterAddresses,
  clusterIPsOfAll,
  neighbourName,
  noPodAddress,
  ObjectLife,
  probedService,
  steadyAddresses,
  steadyFlows,
  steadyIPs,
} from './objects.ts';
import { servicesLeftOut } from './pages.ts';
import { Replica } from './replica.ts';
import { VirtualTime } from './virtual-time.ts';
import { type Subject, World, type WorldEvent } from './world.ts';

/** What is checked. */
type Check =
  | 'program runs'
  | 'batches in flight'
  | 'no refusals'
  | 'nothing is blamed'
  | 'packets'
  | 'in force'
  | 'as a fresh program'
  | 'recompute law'
  | 'connections'
  | 'bytes'
  | 'node shutdown'
  | 'answers'
  | 'promptness'
  | 'failure detection'
  | 'ends'
  | 'quiet'
  | 'collections';

export class Finding extends Error {
  readonly check: Check;

  constructor(check: Check, found: string) {
    super(found);
    this.check = check;
  }
}

/** How long nothing may happen at the API server until all must be in force, virtual ms. */
const quietMs = 200_000;
/** After a set-back of the store, a comparison with the server heals what no event has said. */
const comparedMs = 45 * 60_000;
/** Maps are compared as often, and twice as much fits into them then. */
const readmittedMs = 310_000;
const readmissionsMost = 12;
/** A table that another program has taken away is back within this time. */
const repairedMs = 2000;
/** What another program has changed is as it was within this time, and what it has added gone. */
const meddledMs = 70_000;
/** A start becomes the owner of its tables, and makes and deletes what shows what kernels have. */
const startWritesMost = 16;
/** Connections that have ended are counted within this time. */
const countedMs = 2000;
/**
 * In each family one of the mode's sync, of what follows it, and of failure detection; the takeover
 * and its signs; limits and the fast path.
 */
const batchesMost = 10;
/** A change of a quiet cluster is in force within this time, also where the kernel refuses once. */
const promptMs = 1000;
/** An endpoint that fails its probes gets no new connections after this time, and is back after. */
const ejectedMs = 20_000;
const returnedMs = 60_000;
/** What has gone is remembered no longer than this, or only with a thousand others. */
const forgottenMs = 300_000;
/** Services that come and go together, how often, and after how many times histories are full. */
const passing = 250;
const rounds = 7;
const fullAfter = 5;
/** A process that is asked to end has ended within this time, whatever the world is like. */
const stopMs = 10_000;

const faults = [
  ...['watches', 'requests', 'refused', 'silent', 'frozen', 'reset', 'compacted', 'older replica'],
  ...['set back', 'kernel refuses', 'kernel refuses one', 'kernel answer lost'],
  ...['dumps interrupted', 'kernel watches end', 'tracking interrupted', 'tracking refuses'],
  ...['flush', 'slow kernel', 'kill', 'endpoint ill'],
] as const;
export type FaultName = (typeof faults)[number];
/** After these, batches may be refused. */
const refusing: ReadonlySet<FaultName> = new Set([
  'kernel refuses',
  'kernel refuses one',
  'kernel answer lost',
  'flush',
]);
/** What the kernel refuses then is a Service's, or may look so. */
const blaming: ReadonlySet<FaultName | WorldEvent> = new Set([
  'kernel refuses',
  'kernel refuses one',
  'kernel answer lost',
  'kernel refuses an op',
  'kernel forbids',
  'memory short',
  'disturbed start',
  'changes while it reads',
  'two processes',
]);

export class Simulation {
  readonly #random: Random;
  readonly #time: VirtualTime;
  readonly #kernel = new FakeKernel();
  readonly #server: FakeApiServer;
  readonly #replica: Replica;
  readonly #network: FakeNetwork;
  readonly #life: ObjectLife;
  readonly #clients: Clients;
  readonly #machine: Machine;
  readonly #world: World;
  readonly #lock = new NamespaceLock();
  readonly #illness: Illness;
  /** Endpoints that do not answer are ejected where Services ask for it. */
  readonly #detects: boolean;
  readonly #log: (line: string) => void;
  readonly counts = { events: 0, steps: 0, starts: 0 };
  readonly faults = new Map<FaultName | WorldEvent, number>();
  /** How often each check was made. */
  readonly checks = new Map<Check, number>();
  #program: NodeProgram;
  /** The second proxy of the node, in some seeds. */
  #neighbours: readonly NodeProgram[] = [];
  #port = 1;
  /** At its end, collections are measured. */
  readonly #measures: boolean;
  /** Until then, flows may fail: from a flush to its repair. */
  #excusedMs = 0;
  /** A check that failed within the program's own turn. */
  #finding: Finding | undefined;
  #isSteady = false;
  /** The running program has had everything in force since its start. */
  #hasServed = false;
  #wasSetBack = false;
  /** Since the last calm, faults have happened for which the kernel may refuse batches. */
  #mayRefuse = false;
  #mayBlame = false;
  /** Since then, or since the start, the kernel has refused Services, which are tried again. */
  #isAside = false;

  constructor(seed: number, mode: ModeName, log: (line: string) => void) {
    // In half of the seeds, with each kind of kernel, what surrounds the program changes, too.
    const moving = seed % 4 >= 2;
    this.#random = new Random(seed);
    this.#time = new VirtualTime(new Random(seed + 1));
    this.#time.install();
    this.#log = log;
    const worldRandom = new Random(seed + 3);
    this.#detects = seed % 3 === 2;
    this.#measures = seed % 4 === 1;
    const fixed = { failureDetection: this.#detects ? 'by-annotation' : 'off' };
    this.#machine = new Machine(mode, worldRandom, this.#kernel, fixed);
    const of = { time: this.#time, machine: this.#machine };
    this.#illness = new Illness({ ...of, random: new Random(seed + 4) });
    this.#kernel.bpf.now = () => this.#time.nowMs;
    const expired = seed % 3 === 0 ? ('refused' as const) : ('event' as const);
    const options = { historyMax: 400, expired };
    this.#server = new FakeApiServer(options);
    this.#replica = new Replica(this.#server, options);
    const networkRandom = new Random(seed + 2);
    this.#network = new FakeNetwork({
      time: this.#time,
      random: networkRandom,
      accept: (socket) => networkRandom.pick(this.#servers).accept(socket),
      isShort: () => this.#machine.shortage === 'descriptors',
    });
    this.#life = new ObjectLife(this.#server.store, this.#random, this.#detects);
    this.#life.hasNeighbour = seed % 5 === 3;
    this.#life.begin();
    this.#clients = new Clients(this.#kernel, this.#life, this.#random);
    // Before Linux 6.9, any program can delete our table.
    this.#kernel.hasOwnership = seed % 2 === 0;
    if (moving) this.#lock.install();
    this.#world = new World({
      moving,
      kernel: this.#kernel,
      clients: this.#clients,
      mode,
      random: worldRandom,
      time: this.#time,
      machine: this.#machine,
      life: this.#life,
      subject: this.#subject(),
    });
    this.#program = this.#made(this.#kernel);
    if (this.#life.hasNeighbour) this.#neighbours = [this.#madeNeighbour(this.#kernel)];
  }

  get #servers(): readonly FakeApiServer[] {
    return [this.#server, this.#replica.server];
  }

  #subject(): Subject {
    const simulation = this;
    return {
      get program() {
        return simulation.#program;
      },
      get isExcused() {
        return simulation.#time.nowMs < simulation.#excusedMs;
      },
      pass: (ms) => this.#pass(ms),
      within: (promise, what) => this.#within(promise, what),
      another: (lock) => {
        this.#keepServers();
        return this.#made(this.#kernel, lock);
      },
      leave: (program, lingersMs) => this.#leave(program, lingersMs),
      end: (how, lingersMs) => this.#end(how, lingersMs),
      begin: (second) => this.#begin(second),
      excuse: (ms) => this.#excuse(ms),
      fail: (words) => {
        throw new Finding('ends', words);
      },
    };
  }

  get virtualMs(): number {
    return this.#time.nowMs;
  }

  /** Rejects with a Finding. */
  async run(virtualMs: number): Promise<void> {
    for (const one of this.#running) await this.#within(one.start(), 'the start');
    await this.#calm();
    this.#isSteady = true;
    while (this.#time.nowMs < virtualMs) {
      const steps = 1 + this.#random.below(40);
      this.#network.weather = 'unsteady';
      for (let i = 0; i < steps; i += 1) await this.#step();
      await this.#calm();
    }
    if (this.#measures) await this.#growth();
    for (const one of this.#running) one.kill();
  }

  get #running(): readonly NodeProgram[] {
    return [this.#program, ...this.#neighbours];
  }

  #madeNeighbour(kernel: FakeKernel): NodeProgram {
    const config = configuration('nftables', { serviceProxyName: neighbourName });
    return this.#made(kernel, 'taken', config);
  }

  #made(kernel: FakeKernel, lock: 'taken' | 'ignored' = 'taken', config?: Raw): NodeProgram {
    this.#port += 1;
    this.counts.starts += 1;
    const isHere = kernel === this.#kernel;
    const isSubject = isHere && config === undefined;
    return new NodeProgram({
      time: this.#time,
      random: this.#random,
      kernel,
      conntrack: isHere ? this.#clients.conntrack : new FakeConntrack(),
      machine: this.#machine,
      config,
      connect: this.#illness.connect,
      lock: isSubject && this.#world.isMoving ? lock : 'none',
      port: this.#port,
      written: (result) => {
        if (!isSubject) return;
        this.#note(
          'no refusals',
          result === 'applied' || this.#mayRefuse || !this.#hasServed,
          () => {
            return 'the kernel refused a batch that no fault has met';
          },
        );
        this.#checkFlows();
      },
      log: (line) => {
        // Names of probes have the id of this process.
        const same = line.replaceAll(`-${process.pid}`, '-pid');
        this.#log(`${isSubject ? '' : 'other: '}${same}`);
        const isBlame = line.includes('Kernel rejected Service port');
        this.#isAside ||= isSubject && isBlame;
        this.#note('nothing is blamed', !isBlame || this.#mayBlame, () => line);
      },
    });
  }

  async #step(): Promise<void> {
    this.counts.steps += 1;
    this.#life.areServersKnown = this.#hasServed;
    const event = this.#world.choose();
    if (event !== undefined) {
      this.#happens(event);
      this.#mayRefuse = true;
      await this.#world.happen(event);
    } else if (this.#random.below(2) > 0) {
      for (let i = this.#random.below(4); i >= 0; i -= 1) this.#life.step();
    } else await this.#fault(this.#random.pick(faults));
    const cut = this.#clients.cut();
    this.#check('connections', cut.length === 0, () => `they are cut: ${cut.join('; ')}`);
    this.#clients.send();
    await this.#recompute();
    const waits = [0, 5, 50, 400, 2000, 10_000, 60_000];
    await this.#pass(this.#random.pick(waits) * this.#random.next());
  }

  /** At rest, resolving and planning everything again changes nothing. */
  async #recompute(): Promise<void> {
    const program = this.#program;
    // What servers have to send is on its way then.
    await this.#pass(0);
    if (!this.#hasServed || !program.upToDate || this.#isAside) return;
    const { edge } = program;
    const { batches } = edge;
    await this.#time.stop(() => program.resolve(clusterAddresses));
    // The next sync may have to wait.
    if (program.upToDate || edge.batches > batches) {
      this.#check('recompute law', edge.batches === batches, () => {
        return `to resolve everything again means ${this.#lastOps}`;
      });
    }
    const mayDiffer = this.#time.nowMs < this.#excusedMs;
    if (!mayDiffer && this.counts.steps % 4 === 0) await this.#diff('just after changes');
  }

  #happens(name: FaultName | WorldEvent): void {
    this.faults.set(name, (this.faults.get(name) ?? 0) + 1);
    this.#mayBlame ||= blaming.has(name);
    this.#log(`-- ${this.#time.nowMs.toFixed(3)} ${name}`);
  }

  async #fault(name: FaultName): Promise<void> {
    this.#happens(name);
    const random = this.#random;
    const server = random.pick(this.#servers);
    this.#mayRefuse ||= refusing.has(name);
    switch (name) {
      case 'watches':
        for (const resource of resources) {
          if (random.below(2) > 0) server.disturb(resource, random.pick(disturbances));
        }
        break;
      case 'requests':
        server.fault({
          times: 1 + random.below(4),
          fault: random.pick([
            { kind: 'status', status: 429, retryAfterSeconds: 1 + random.below(5) },
            { kind: 'status', status: 500 },
            { kind: 'status', status: 403 },
            { kind: 'status', status: 504 },
            { kind: 'drop' },
            { kind: 'stall' },
            { kind: 'cut' },
            { kind: 'late', ms: random.below(20_000) },
          ] as const),
        });
        break;
      case 'refused':
      case 'silent':
        this.#network.weather = name;
        this.#network.reset();
        // Objects change while the server is out of reach, and it may forget the changes.
        for (let i = random.below(6); i >= 0; i -= 1) {
          await this.#pass(random.below(20_000));
          this.#life.step();
        }
        if (random.below(2) === 0) server.store.compact();
        this.#network.weather = 'unsteady';
        break;
      case 'frozen':
        this.#network.freeze();
        break;
      case 'reset':
        this.#network.reset();
        break;
      case 'compacted':
        server.store.compact();
        server.expireContinueTokens();
        break;
      case 'older replica':
        this.#replica.fallBehind();
        if (random.below(2) > 0) this.#network.reset();
        // Until objects are compared with what it has, which is not often.
        for (let i = random.below(4) === 0 ? 20 : 0; i > 0; i -= 1) {
          this.#life.step();
          await this.#pass(random.below((2 * comparedMs) / 20));
        }
        break;
      case 'set back':
        await this.#setBack();
        break;
      case 'kernel refuses':
        this.#kernel.failNext({
          code: random.pick(['ENOMEM', 'ENOBUFS', 'EBUSY', 'EINTR']),
          times: 1 + random.below(3),
        });
        break;
      case 'kernel refuses one': {
        const at = random.pick(random.pick(clusterIPsOfAll));
        const forKey = this.#machine.config.mode === 'ipvs' ? `TCP ${at}:` : `${at} .`;
        const code = random.pick(['ENOMEM', 'EINVAL']);
        this.#kernel.failNext({ code, forKey, times: 1 + random.below(5) });
        break;
      }
      case 'kernel answer lost':
        this.#kernel.unknownOutcome();
        break;
      case 'dumps interrupted':
        this.#kernel.interruptDumps(1 + random.below(3));
        break;
      case 'kernel watches end':
        this.#program.edge.endWatches();
        break;
      case 'tracking interrupted':
        this.#clients.areInterrupted = true;
        break;
      case 'tracking refuses':
        this.#clients.refuse(1 + random.below(3));
        break;
      case 'flush':
        await this.#flush();
        break;
      case 'slow kernel':
        this.#program.edge.batchMsMax = random.pick([20, 100]);
        break;
      case 'kill':
        await this.#end('kill');
        await this.#pass(random.below(5000));
        await this.#begin();
        break;
      case 'endpoint ill':
        this.#illness.strike();
        break;
    }
  }

  /** The store goes back to what it was a while ago; revisions are given twice. */
  async #setBack(): Promise<void> {
    const { store } = this.#server;
    this.#replica.catchUp();
    const backups = this.#servers.map((one) => one.store.backup());
    const { version } = store;
    for (let i = 0; i < 8; i += 1) {
      this.#life.step();
      await this.#pass(this.#random.below(500));
    }
    const lost = this.#life.writtenSince(version);
    this.#replica.catchUp();
    for (const backup of backups) backup.restore();
    this.#life.recount();
    this.#network.reset();
    // The server is behind the known position then, at it, or ahead of it.
    for (const each of lost.slice(0, this.#random.below(lost.length + 1))) this.#life.rewrite(each);
    for (let i = this.#random.below(12); i > 0; i -= 1) this.#life.step();
    this.#wasSetBack = true;
  }

  /** Another program deletes our tables: `systemctl restart nftables` is one such program. */
  async #flush(): Promise<void> {
    for (let i = this.#random.below(4); i >= 0; i -= 1) {
      this.#deleteTables();
      if (this.#random.below(2) === 0) this.#deleteTablesAgain();
      await this.#pass(this.#random.below(3000));
    }
  }

  /** In the middle of what the program does then. */
  #deleteTablesAgain(): void {
    const random = this.#random;
    const by = random.pick(['calls', 'batches'] as const);
    const left = 1 + random.below(by === 'calls' ? 30 : 3);
    this.#program.edge.interruption = { by, left, act: () => this.#deleteTables() };
  }

  /**
   * The tables of a quiet cluster go while the program repairs another change: of a part of them,
   * and twice of all of them.
   */
  async #flushed(): Promise<void> {
    const { edge } = this.#program;
    edge.batchMsMax = 20;
    this.#mayRefuse = true;
    for (const part of ['part', 'all', 'all']) {
      if (part === 'all') this.#deleteTables();
      else this.#world.meddle();
      this.#deleteTablesAgain();
      await this.#pass(part === 'all' ? 2 * repairedMs : meddledMs);
    }
    edge.batchMsMax = 2;
    edge.interruption = undefined;
    this.#mayRefuse = false;
    await this.#compared();
  }

  #deleteTables(): void {
    // Each repair that the kernel refuses is followed by a pause.
    this.#excuse(this.#mayBlame ? 2 * repairedMs : repairedMs);
    for (const family of [NFPROTO.IPv4, NFPROTO.IPv6]) {
      for (const table of ['fairlead', 'nat', 'filter', 'mangle']) {
        // A table with an owner is out of reach of others.
        if (this.#kernel.table(family, table)?.owner !== 0) continue;
        const writer = new RecordWriter(kernelOps);
        writer.write('tableDelete', { family, table });
        this.#kernel.foreign(writer.finish());
      }
    }
  }

  /** Flows may fail for `ms`, or until the program has read the API for the first time. */
  #excuse(ms: number): void {
    const least = Number.isFinite(this.#excusedMs) ? this.#excusedMs : 0;
    const endMs = Math.max(this.#time.nowMs + ms, least);
    const untilMs = this.#hasServed ? endMs : Number.POSITIVE_INFINITY;
    this.#excusedMs = untilMs;
    if (untilMs === Number.POSITIVE_INFINITY) return;
    this.#time.after(endMs - this.#time.nowMs, () => {
      if (this.#excusedMs === untilMs) this.#checkFlows();
    });
  }

  /** Ends the program. What the kernel has stays. */
  async #end(how: 'kill' | 'stop', lingersMs = 0): Promise<void> {
    const program = this.#program;
    const hadSockets = program.sockets.texts().length > 0;
    if (how === 'stop') {
      program.stop();
      for (let ms = 0; ms < stopMs && program.ended === undefined; ms += 50) await this.#pass(50);
      this.#check('ends', program.ended !== undefined, () => `not within ${stopMs} ms`);
      const { batches } = program.edge;
      await this.#pass(100);
      this.#check('ends', program.edge.batches === batches, () => 'it wrote after its end');
    }
    this.#leave(program, lingersMs);
    this.#hasServed = this.#isAside = false;
    if (hadSockets) this.#excuse(repairedMs);
    this.#clients.areUnwatched = true;
    this.#keepServers();
  }

  /** API servers stay until the program that starts knows some. */
  #keepServers(): void {
    this.#life.settle();
    this.#life.areServersKnown = false;
    this.#replica.settle();
  }

  /** As SIGKILL. The kernel closes its socket immediately, or later. */
  #leave(program: NodeProgram, lingersMs = 0): void {
    const { port } = program;
    program.kill();
    if (lingersMs === 0) this.#kernel.exit(port);
    else this.#time.after(lingersMs, () => this.#kernel.exit(port));
    this.#lock.release(String(port));
  }

  async #begin(second?: Parameters<Subject['begin']>[0]): Promise<void> {
    this.#program = second?.program ?? this.#made(this.#kernel);
    try {
      await this.#within(second?.starting ?? this.#program.start(), 'the start');
    } catch (error) {
      // A process that the kernel forbids everything ends, as does one that cannot read what it
      // needs to know. Another one is started after a while.
      const isShort = this.#machine.shortage === 'descriptors' && /EMFILE/.test(String(error));
      if (!isShort && !isKernelError(error, 'EPERM')) throw error;
      await this.#end('kill');
      if (isShort) this.#machine.shortage = 'nothing';
      return this.#begin();
    }
    // What was taken away while no program ran is back once it has read the API.
    if (this.#time.nowMs < this.#excusedMs) this.#excuse(repairedMs);
  }

  /** All faults end. Then everything must be in force, and nothing may be written any more. */
  async #calm(): Promise<void> {
    this.#log(`-- ${this.#time.nowMs.toFixed(3)} calm`);
    for (const server of this.#servers) server.heal();
    this.#replica.catchUp();
    this.#kernel.heal();
    this.#clients.heal();
    this.#illness.heal();
    this.#life.settle();
    this.#network.weather = 'fair';
    this.#program.edge.batchMsMax = 2;
    this.#program.edge.interruption = undefined;
    await this.#world.calm();
    await this.#pass(this.#wasSetBack ? comparedMs : quietMs);
    this.#wasSetBack = false;
    await this.#readmit();
    if (this.#excusedMs === Number.POSITIVE_INFINITY) this.#excusedMs = this.#time.nowMs;
    await this.#compared();
    const { body } = await this.#asked('/fairlead/v1/status');
    this.#check('in force', this.#program.upToDate, () => `it is not after a quiet time: ${body}`);
    this.#mayRefuse = this.#mayBlame = this.#isAside = false;
    const { mode } = this.#machine.config;
    const stale = this.#clients.stale(mode !== 'ipvs' && mode !== 'userspace');
    this.#check('connections', stale.length === 0, () => `they stay: ${stale.join('; ')}`);
    await this.#counted();
    this.#shutDown();
    if (this.#detects) await this.#detect();
    await this.#compare();
    await this.#answers();
    await this.#flushed();
    await this.#paged();
    await this.#prompt();
    // The past says nothing new.
    for (const server of this.#servers) {
      for (const resource of resources) server.disturb(resource, 'old');
    }
    // Ten seconds after a question its counts end.
    await this.#pass(11_000);
    const writes = this.#writes;
    // All is read, and compared with what is in force.
    this.#program.edge.endWatches();
    this.#kernel.interruptDumps(1, this.counts.steps % 16);
    await this.#pass(60_000);
    const written = this.#writes - writes;
    this.#check('quiet', written === 0, () => {
      return `it wrote ${written} times in a quiet time: ${this.#lastOps}`;
    });
    if (this.counts.steps % 2 === 0) await this.#restart();
  }

  /** Once histories are full, Services that come and go leave nothing behind. */
  async #growth(): Promise<void> {
    const growth = new Growth();
    for (let round = 0; round < rounds; round += 1) {
      const go = this.#life.pass(round, passing);
      await this.#pass(10_000);
      go();
      await this.#pass(forgottenMs);
      if (round >= fullAfter - 1) growth.measure();
    }
    // What is remembered of Services is bounded in bytes (serve/ask/recent.ts).
    const found = growth.growing(passing / 2).filter((words) => !/",\["\[\d+,/.test(words));
    this.#check('collections', found.length === 0, () => `they grow: ${found.join('\n')}`);
  }

  /** Connections that end are counted, once each. */
  async #counted(): Promise<void> {
    const counted = async (): Promise<number> => {
      let sum = 0;
      for (const program of this.#running) {
        const { body } = await this.#asked('/metrics', program);
        for (const [, n] of body.matchAll(/^fairlead_zone_bytes.* (\d+)$/gm)) sum += Number(n);
      }
      return sum;
    };
    const before = await counted();
    const ended = this.#clients.end().filter((one) => this.#life.endpointsOf(one) !== undefined);
    await this.#pass(countedMs);
    const bytes = (await counted()) - before;
    const { serviceBytes, serviceLimits } = this.#machine.config;
    const isRight = bytes === 3 * ended.length || !serviceBytes || serviceLimits !== undefined;
    this.#check('bytes', isRight, () => `${bytes} of ${ended.length} connections with three each`);
  }

  /** While the Node says that it shuts down, new connections go to others, and probes learn it. */
  #shutDown(): void {
    const [own] = steadyAddresses(2, 'IPv4');
    const isLeaving = !this.#reachedFromPod(steadyIPs(2)[0]!, 'UDP').includes(`${own}:8080`);
    this.#check('node shutdown', isLeaving === this.#life.isLeaving, () => {
      return `connections ${isLeaving ? 'do not ' : ''}go to this node`;
    });
  }

  /** Where a hundred connections of a pod go. */
  #reachedFromPod(daddr: string, protocol: 'TCP' | 'UDP'): string[] {
    const { addresses: nodeAddresses } = this.#machine;
    const packet = { saddr: '10.244.1.77', daddr, dport: 80, protocol, iif: 'veth0' };
    return Array.from({ length: 100 }, (_, i) => {
      return this.#reached({ ...packet, random: i, nodeAddresses });
    }).flat();
  }

  /** An endpoint that does not answer gets no new connections, until it answers again. */
  async #detect(): Promise<void> {
    const [ill] = steadyAddresses(0, 'IPv4');
    for (const isIll of [true, false]) {
      if (isIll) this.#illness.strike(ill);
      else this.#illness.heal();
      await this.#pass(isIll ? ejectedMs : returnedMs);
      const reached = this.#reachedFromPod(steadyIPs(0)[0]!, 'TCP');
      const isReached = reached.includes(`${ill}:8080`);
      this.#check('failure detection', isReached !== isIll, () => {
        return `a connection reaches ${[...new Set(reached)]} while ${isIll ? ill : 'none'} is ill`;
      });
    }
    await this.#exempt();
  }

  /** What cannot be a pod any more is not probed any more. */
  async #exempt(): Promise<void> {
    const { probed } = this.#illness;
    const [own, ofServices] = steadyAddresses(probedService, 'IPv4') as [string, string];
    for (const isPod of [true, false]) {
      if (!isPod) {
        this.#machine.moveAddress(own);
        this.#life.cover(ofServices);
      }
      await this.#pass(ejectedMs);
      probed.clear();
      await this.#pass(ejectedMs);
      this.#check('failure detection', !probed.has(noPodAddress), () => 'it probes what is no pod');
      for (const one of [own, ofServices]) {
        const not = isPod ? 'not ' : '';
        const isRight = probed.has(one) === isPod;
        this.#check('failure detection', isRight, () => `${one} is ${not}probed`);
      }
    }
    this.#machine.moveAddress(own);
    this.#life.cover(undefined);
  }

  get #lastOps(): string {
    return [...describeOps(this.#program.edge.lastOps, () => undefined)].slice(0, 20).join('; ');
  }

  /** What the kernel has taken, but for extended leases. */
  get #writes(): number {
    return this.#kernel.writes - this.#kernel.bpf.extensions - this.#kernel.renewals;
  }

  /** A program that starts on what another one has left finds everything as it should be. */
  async #restart(): Promise<void> {
    const writes = this.#writes;
    const before = this.#kernel.ruleset() + this.#kernel.ipvs.text();
    await this.#end('kill');
    await this.#begin();
    for (const one of this.#neighbours) this.#leave(one);
    this.#neighbours = this.#neighbours.map(() => this.#madeNeighbour(this.#kernel));
    for (const one of this.#neighbours) await this.#within(one.start(), 'the start');
    await this.#pass(60_000);
    const written = this.#writes - writes;
    // A table that counts is made again: what it has counted for another process is not known.
    const isFew = this.#detects || written <= startWritesMost * this.#running.length;
    this.#check('quiet', isFew, () => `a start wrote ${written} times`);
    const after = this.#kernel.ruleset() + this.#kernel.ipvs.text();
    const changed = difference(after.split('\n'), before.split('\n'));
    this.#check('quiet', changed.length === 0, () => `a start changed ${changed.join('\n')}`);
  }

  /**
   * Passes time while rules alone serve some Services, since memory for maps was short, and while
   * endpoints count as flapping.
   */
  async #readmit(): Promise<void> {
    const past = /^fairlead_\w+\{(.*,)?reason="(no room|flapping)"\} [1-9]/m;
    for (let i = 0; i < readmissionsMost; i += 1) {
      if (!past.test((await this.#asked('/metrics')).body)) return;
      await this.#pass(readmittedMs);
    }
  }

  /** A comparison of the kernel may be under way, which is not up to date for that time. */
  async #compared(): Promise<void> {
    for (let i = 0; i < 10 && !this.#program.upToDate; i += 1) await this.#pass(50);
  }

  /** A change is in force soon where nothing else happens. */
  async #prompt(): Promise<void> {
    for (const isRefused of [true, false]) {
      this.#mayRefuse = this.#mayBlame = isRefused;
      if (isRefused) this.#kernel.failNext({ code: 'ENOMEM' });
      for (let i = 0; i < 4; i += 1) this.#life.step();
      await this.#pass(promptMs);
      this.#kernel.heal();
      await this.#compared();
      const which = isRefused ? ' that the kernel refused once' : '';
      this.#check('promptness', this.#program.upToDate, () => {
        return `a change${which} is not in force after ${promptMs} ms`;
      });
    }
    this.#life.settle();
    await this.#pass(promptMs);
    await this.#compare();
  }

  /** Who reads a list page by page misses nothing that does not change. */
  async #paged(): Promise<void> {
    const ask = async (path: string) => {
      const { body, status } = await this.#asked(path);
      return status === 410 ? undefined : JSON.parse(body);
    };
    const missing = await servicesLeftOut(ask, () => {
      this.#life.step();
      return this.#pass(promptMs);
    });
    this.#check('answers', missing.length === 0, () => `no page has ${missing.join(', ')}`);
  }

  /** A program that starts on an empty kernel makes the same of the objects. */
  async #compare(): Promise<void> {
    await this.#readmit();
    const kernel = new FakeKernel();
    kernel.hasOwnership = this.#kernel.hasOwnership;
    kernel.ipvs.present = this.#kernel.ipvs.present;
    kernel.bpf.now = this.#kernel.bpf.now;
    this.#machine.connect(kernel);
    const fresh = this.#made(kernel);
    const all = [fresh, ...this.#neighbours.map(() => this.#madeNeighbour(kernel))];
    for (const one of all) await this.#within(one.start(), 'the start');
    for (let i = 0; i < 100 && all.some((one) => !one.upToDate); i += 1) await this.#pass(500);
    await this.#pass(30_000);
    const said = difference(await this.#said(this.#program), await this.#said(fresh));
    const expected = linesOf(kernel, fresh.sockets);
    const differences = difference(linesOf(this.#kernel, this.#program.sockets), expected);
    for (const one of all) {
      one.kill();
      this.#network.kill(String(one.port));
    }
    this.#check('as a fresh program', differences.length === 0, () => {
      return `the kernel differs from a fresh one:\n${differences.slice(0, 30).join('\n')}`;
    });
    this.#check('answers', said.length === 0, () => `they differ:\n${said.join('\n')}`);
    const bound = this.#clients.astray(kernel);
    this.#check('connections', bound.length === 0, () => `clients reach ${bound.join('; ')}`);
  }

  async #answers(): Promise<void> {
    const { body } = await this.#asked('/fairlead/v1/status');
    const { problems }: { problems: string[] } = JSON.parse(body);
    // The limits of a configuration are the operator's.
    const others = problems.filter((text) => !/asked for too much, and got a part/.test(text));
    this.#check('answers', others.length === 0, () => `status is not healthy: ${body}`);
    for (const path of ['/healthz', '/livez', '/readyz'] as const) {
      const answer = this.#program.health?.answer(path);
      const status = path === '/healthz' && this.#life.isLeaving ? 503 : 200;
      this.#check('answers', answer?.status === status, () => `${path} says ${answer?.body}`);
    }
    await this.#diff('at rest');
  }

  /** All that is in force, planned again, is what the kernel has; also while the program works. */
  async #diff(when: 'at rest' | 'just after changes'): Promise<void> {
    const { edge } = this.#program;
    const { failures } = edge;
    const { body, status } = await this.#asked('/fairlead/v1/diff');
    // What a failed batch has done is not known until the kernel is read.
    if (status !== 200 || edge.failures !== failures) return;
    const { families }: Diff = JSON.parse(body);
    for (const { differences } of families) {
      // What a change has made unused is deleted a second later; what all share may be changing.
      const found = differences.filter(
        ({ missing, service, wrong }) => when === 'at rest' || (service && missing + wrong > 0),
      );
      this.#check('answers', found.length === 0, () => `diff finds ${JSON.stringify(found)}`);
    }
  }

  /** What the program answers about Services, page by page, in any order. */
  async #said(program: NodeProgram): Promise<string[]> {
    const items: string[] = [];
    for (const what of ['services', 'problems']) {
      let rest: string | undefined = '';
      while (rest !== undefined) {
        const { body } = await this.#asked(`/fairlead/v1/${what}?limit=3${rest}`, program);
        const page: { items: object[]; continue?: string } = JSON.parse(body);
        // The order of lists is that of arrival, and texts name the first few.
        for (const item of page.items) {
          const said = JSON.stringify(item, (key, value) => (key === 'text' ? undefined : value));
          items.push(`${what} ${words(said)}`);
        }
        rest = page.continue && `&continue=${encodeURIComponent(page.continue)}`;
      }
    }
    items.push(...program.servicePorts, ...gaugesIn((await this.#asked('/metrics', program)).body));
    return items.sort();
  }

  #asked(path: string, program = this.#program) {
    return this.#within(program.ask(path), path);
  }

  /** Lets time pass until the promise is settled. */
  async #within<T>(promise: Promise<T>, what: string): Promise<T> {
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    promise.then(over, over);
    for (let i = 0; i < 10_000 && !isOver; i += 1) await this.#pass(i < 100 ? 1 : 100);
    this.#check('program runs', isOver, () => `${what} takes longer than a quarter of an hour`);
    return promise;
  }

  #checkFlows(): void {
    this.#note('batches in flight', this.#program.edge.inFlight <= batchesMost, () => {
      return `more than ${batchesMost} batches are in flight`;
    });
    if (!this.#isSteady || this.#time.nowMs < this.#excusedMs) return;
    const nodeAddresses = this.#machine.addresses;
    for (const { endpoints, from, port, protocol, to } of steadyFlows) {
      if (!this.#world.has(to.includes(':') ? 'IPv6' : 'IPv4')) continue;
      const v4 = !to.includes(':');
      const saddr = {
        pod: v4 ? '10.244.1.77' : 'fd00:10:244:1::77',
        node: nodeAddresses[v4 ? 0 : 1]!,
        outside: v4 ? '198.51.100.200' : '2001:db8:5::1',
      }[from];
      const iif = { pod: 'veth0', node: undefined, outside: 'eth0' }[from];
      const random = this.#random.below(1000);
      const packet = { saddr, daddr: to, protocol, dport: port, iif, nodeAddresses, random };
      const reached = this.#reached(packet);
      const words = `${protocol} from ${from} to ${to}:${port} went to`;
      const isServed = reached.length > 0 && reached.every((one) => endpoints.has(one));
      this.#note('packets', isServed, () => `${words} ${reached}`);
      const { bpf } = this.#kernel;
      if (from === 'outside' || protocol !== 'TCP' || !areTranslated(bpf, address(to))) continue;
      const pool = endpointsAtConnectTime(bpf, address(to), port)?.texts() ?? [];
      this.#note(
        'packets',
        pool.every((one) => endpoints.has(one)),
        () => {
          return `${words} ${pool} at connect time`;
        },
      );
    }
  }

  /** Where a packet may go: rules say one end, a socket those of its pool. */
  #reached(packet: Packet): readonly string[] {
    const { to, translated, verdict } = this.#kernel.evaluate(packet);
    const pool = translated ? undefined : this.#program.sockets.poolOf(packet, packet.saddr);
    return verdict === 'accept' ? (pool?.texts() ?? [to]) : [verdict];
  }

  async #pass(ms: number): Promise<void> {
    await this.#time.pass(ms);
    this.counts.events = this.#time.happened;
    this.#hasServed ||= this.#program.upToDate;
    if (this.#finding !== undefined) throw this.#finding;
    for (const { edge, ended, mayEnd } of this.#running) {
      this.#check('program runs', ended === undefined || mayEnd || edge.isDead, () => {
        return `the program ended: ${ended instanceof Error ? ended.stack : ended}`;
      });
    }
  }

  #check(check: Check, isRight: boolean, found: () => string): void {
    this.checks.set(check, (this.checks.get(check) ?? 0) + 1);
    if (!isRight) throw new Finding(check, found());
  }

  /** As `#check`, within the program's own turn: `#pass` throws. */
  #note(check: Check, isRight: boolean, found: () => string): void {
    this.checks.set(check, (this.checks.get(check) ?? 0) + 1);
    if (!isRight) this.#finding ??= new Finding(check, found());
  }
}
