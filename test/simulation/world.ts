/**
 * What changes around the program: the node's addresses, families, clocks and configuration, and
 * which process runs. It draws from a stream of its own, so that another event here leaves the
 * choices of others as they are. Each seed has some of the events.
 */
import type { ModeName } from '../../src/modes/mode.ts';
import type { Random } from '../chaos/random.ts';
import type { FakeKernel } from '../fake/kernel.ts';
import type { Clients } from './clients.ts';
import { type Machine, randomConfiguration } from './machine.ts';
import { meddle } from './meddling.ts';
import type { NodeProgram } from './node-program.ts';
import type { ObjectLife } from './objects.ts';
import type { VirtualTime } from './virtual-time.ts';

const events = [
  ...['address', 'addresses unwatched', 'family off', 'family on', 'wall clock', 'configuration'],
  ...['invalid configuration', 'stop', 'handover', 'second process', 'two processes'],
  ...['lingering process', 'descriptors short', 'memory short', 'large Service', 'stands still'],
  ...['kernel forbids', 'kernel refuses an op', 'foreign change', 'rival', 'device'],
  ...['strange events', 'disturbed start', 'changes while it reads'],
] as const;
export type WorldEvent = (typeof events)[number];

/** A family that is enabled is served within this time, and its rules are repaired. */
const servedMs = 8000;
/** Changes of IPVS are not reported: it is read as often as every 30 s, and repaired. */
const readMs = 40_000;
/** How long a process waits for the lock at most (cli/instance.ts). */
const patienceMs = 30_000;
const dayMs = 86_400_000;

/** The part of the simulation that this changes. */
export interface Subject {
  readonly program: NodeProgram;
  pass(ms: number): Promise<void>;
  /** Lets time pass until the promise is settled. */
  within(promise: Promise<void>, what: string): Promise<void>;
  /**
   * Makes a program on the same kernel, which does not run yet. Default: it waits for the lock that
   * the running one has.
   */
  another(lock?: 'ignored'): NodeProgram;
  /** The program goes as by SIGKILL, and the kernel has its socket for `lingersMs` more. */
  leave(program: NodeProgram, lingersMs?: number): void;
  /** Ends the program. The kernel stays, and has the program's socket for `lingersMs` more. */
  end(how: 'kill' | 'stop', lingersMs?: number): Promise<void>;
  /** Another program runs: a new one, or this one, which starts. */
  begin(second?: {
    readonly program: NodeProgram;
    readonly starting: Promise<void>;
  }): Promise<void>;
  /** Whether flows may fail at present. */
  readonly isExcused: boolean;
  /** Flows may fail until `ms` from now. */
  excuse(ms: number): void;
  fail(words: string): never;
}

interface WorldOptions {
  /** Otherwise nothing ever happens. */
  readonly moving: boolean;
  readonly kernel: FakeKernel;
  readonly clients: Clients;
  readonly mode: ModeName;
  readonly random: Random;
  readonly time: VirtualTime;
  readonly machine: Machine;
  readonly life: ObjectLife;
  readonly subject: Subject;
}

export class World {
  readonly #options: WorldOptions;
  readonly #events: readonly WorldEvent[];
  /** Until then, IPv6 is not asked of the kernel. */
  #withoutIPv6Ms = 0;

  constructor(options: WorldOptions) {
    const { random } = options;
    this.#options = options;
    this.#events = options.moving ? events.filter(() => random.below(2) === 0) : [];
    if (this.#events.includes('configuration')) this.#configure();
  }

  get isMoving(): boolean {
    return this.#options.moving;
  }

  /** Whether packets of the family reach Services at present. */
  has(family: 'IPv4' | 'IPv6'): boolean {
    return family === 'IPv4' || this.#options.time.nowMs >= this.#withoutIPv6Ms;
  }

  /** One event, or none: then this is undefined. */
  choose(): WorldEvent | undefined {
    const { random } = this.#options;
    if (this.#events.length === 0 || random.below(2) > 0) return undefined;
    return random.pick(this.#events);
  }

  async happen(event: WorldEvent): Promise<void> {
    const { kernel, life, machine, random, subject, time } = this.#options;
    switch (event) {
      case 'address':
        machine.moveAddress();
        break;
      case 'addresses unwatched':
        machine.endWatches();
        machine.moveAddress();
        break;
      case 'family off':
        machine.families = ['IPv4'];
        this.#withoutIPv6Ms = Number.POSITIVE_INFINITY;
        await subject.end('kill');
        await subject.begin();
        break;
      case 'family on':
        this.#enableIPv6();
        break;
      case 'wall clock':
        time.setWall((random.next() - 0.5) * random.pick([2000, 2 * dayMs, 60 * dayMs]));
        break;
      case 'configuration':
        this.#configure();
        await this.reread();
        break;
      case 'invalid configuration':
        await this.#mistake();
        break;
      case 'stop':
        await subject.end('stop');
        await subject.pass(random.below(5000));
        await subject.begin();
        break;
      case 'handover':
        await this.#handOver();
        break;
      case 'second process':
        await this.#refused();
        break;
      case 'two processes':
        await this.#runTwo();
        break;
      case 'lingering process':
        await this.#outlive(random.below(20_000));
        break;
      case 'descriptors short':
      case 'memory short':
        await this.#shortage(event === 'memory short' ? 'memory' : 'descriptors');
        break;
      case 'large Service':
        life.large(random);
        break;
      case 'stands still':
        time.standStill(random.below(400_000));
        break;
      case 'kernel forbids':
        kernel.failNext({ code: 'EPERM', times: 1 + random.below(3) });
        break;
      case 'kernel refuses an op':
        kernel.failNext({ code: random.pick(['ENOMEM', 'EBUSY']), op: random.below(40) });
        break;
      case 'foreign change':
        for (let i = random.below(4); i >= 0; i -= 1) {
          this.meddle();
          await subject.pass(random.below(2) * random.below(3000));
        }
        break;
      case 'rival':
        await this.#compete();
        break;
      case 'device':
        machine.moveDevice();
        break;
      case 'strange events':
        life.strange(random);
        break;
      case 'disturbed start':
        await this.#disturbStart();
        break;
      case 'changes while it reads':
        await this.#changeWhileItReads();
    }
  }

  /** What only passes by itself ends: the rest of the world stays as it is. */
  async calm(): Promise<void> {
    if (!this.isMoving) return;
    this.#enableIPv6();
    await this.reread();
  }

  /** The program takes the configuration file as it is, where that needs a start by a start. */
  async reread(): Promise<void> {
    const { machine, subject } = this.#options;
    const { program } = subject;
    await subject.within(program.reread(machine.readConfig()), 'a reload');
    if (!program.mayEnd) return;
    await subject.end('stop');
    await subject.begin();
  }

  #configure(): void {
    const { machine, mode, random } = this.#options;
    machine.config = randomConfiguration(mode, random);
  }

  /** The configuration in force stays in force. */
  async #mistake(): Promise<void> {
    const { random, subject } = this.#options;
    const content = Buffer.from(random.pick(['{', 'kind: 7', '{"mode": "poem"}']));
    await subject.within(subject.program.reread(content), 'a reload');
  }

  #enableIPv6(): void {
    const { machine, time } = this.#options;
    if (machine.families.length > 1) return;
    machine.families = ['IPv4', 'IPv6'];
    this.#withoutIPv6Ms = time.nowMs + servedMs;
  }

  /** A second process waits until the first one ends, and takes over. */
  async #handOver(): Promise<void> {
    const { random, subject } = this.#options;
    const program = subject.another();
    const starting = program.start();
    await subject.pass(random.below(patienceMs - 12_000));
    await subject.end(random.pick(['kill', 'stop']));
    await subject.begin({ program, starting });
  }

  /** A second process waits in vain, and changes nothing. */
  async #refused(): Promise<void> {
    const { subject } = this.#options;
    const second = subject.another();
    const refusal = second.start().then(
      () => 'it runs',
      (error: Error) => error.message,
    );
    await subject.pass(patienceMs + 2000);
    const words = await Promise.race([refusal, 'it waits']);
    if (!/another Fairlead runs in this network namespace/.test(words)) {
      subject.fail(`a second process is not refused: ${words}`);
    }
    subject.leave(second);
  }

  /** A second process runs although the first one has the lock. After a while, one of them ends. */
  async #runTwo(): Promise<void> {
    const { life, random, subject } = this.#options;
    const program = subject.another('ignored');
    const starting = program.start();
    starting.catch(() => {});
    for (let i = random.below(8); i >= 0; i -= 1) {
      await subject.pass(random.below(5000) * random.next());
      life.step();
    }
    if (random.below(2) === 0) {
      subject.leave(program);
      return;
    }
    await subject.end(random.pick(['kill', 'stop']));
    await subject.begin({ program, starting });
    await subject.pass(random.below(20_000));
    // It does not have the lock.
    await this.#startAgain();
  }

  /** The program is killed, and something happens while the next one starts: often its end. */
  async #disturbStart(): Promise<void> {
    const { kernel, random, subject } = this.#options;
    do {
      await subject.end('kill');
      const program = subject.another();
      await subject.begin({ program, starting: Promise.resolve() });
      program.start().catch(() => {});
      await subject.pass(random.below(60) * random.next());
      if (random.below(2) === 0) this.meddle();
      if (random.below(4) === 0) kernel.failNext({ code: 'ENOMEM' });
    } while (random.below(2) === 0);
    await subject.end('kill');
    await subject.begin();
  }

  /** Objects change while the kernel is read, which something interrupts. */
  async #changeWhileItReads(): Promise<void> {
    const { kernel, life, random, subject } = this.#options;
    const { edge } = subject.program;
    edge.batchMsMax = random.pick([2, 20]);
    edge.endWatches();
    for (let i = 0; i < 12; i += 1) {
      if (random.below(6) === 0) kernel.failNext({ code: 'ENOMEM', times: 1 + random.below(2) });
      if (random.below(6) === 0) kernel.interruptDumps(1, random.below(8));
      life.step();
      await subject.pass(random.below(edge.batchMsMax * 4));
    }
  }

  /** Another program changes something of ours. */
  meddle(): void {
    const { clients, kernel, machine, random, subject } = this.#options;
    subject.excuse(machine.config.mode === 'ipvs' ? readMs : servedMs);
    meddle(kernel, random);
    clients.forget();
  }

  /** The program is killed, and its tables stay its own while the next one has to change them. */
  async #outlive(lingersMs: number): Promise<void> {
    const { life, random, subject } = this.#options;
    await subject.end('kill', lingersMs);
    await subject.begin();
    for (let i = 0; i < 4; i += 1) {
      life.step();
      await subject.pass((random.next() * lingersMs) / 2);
    }
  }

  /** For a while, another program changes ours again and again, as a second proxy would. */
  async #compete(): Promise<void> {
    const { life, random, subject, time } = this.#options;
    const untilMs = time.nowMs + random.below(60_000);
    while (time.nowMs < untilMs) {
      this.meddle();
      if (random.below(4) === 0) life.step();
      await subject.pass(random.below(2000) * random.next());
    }
  }

  async #startAgain(): Promise<void> {
    await this.#options.subject.end('kill');
    await this.#options.subject.begin();
  }

  async #shortage(of: 'descriptors' | 'memory'): Promise<void> {
    const { life, machine, random, subject } = this.#options;
    // A process that has just started has read what it needs, and no object yet.
    if (random.below(2) === 0) await this.#startAgain();
    machine.shortage = of;
    for (let i = random.below(6); i >= 0; i -= 1) {
      if (subject.isExcused) subject.excuse(Number.POSITIVE_INFINITY);
      machine.moveAddress();
      life.step();
      if (random.below(4) === 0) await this.#startAgain();
      await subject.pass(random.below(10_000));
    }
    machine.shortage = 'nothing';
    if (subject.isExcused) subject.excuse(servedMs);
  }
}
