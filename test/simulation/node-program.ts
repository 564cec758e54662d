/** The program on its node: started, asked, killed and started again. The kernel stays. */
import type { AppOptions } from '../../src/agent/agent.ts';
import { App } from '../../src/agent/app.ts';
import { holdNamespace } from '../../src/cli/instance.ts';
import { Reload } from '../../src/cli/reload.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { MachineAddresses } from '../../src/host/interfaces.ts';
import type { Conntrack } from '../../src/kernel/conntrack.ts';
import { KernelError } from '../../src/kernel/errors.ts';
import type { ApplyResult, Kernel, ReplyOf, TableWatcher } from '../../src/kernel/kernel.ts';
import type { Request } from '../../src/kernel/ops.ts';
import { builtModes, selectMode } from '../../src/modes/index.ts';
import type { Address } from '../../src/net/address.ts';
import type { ProxyHealth } from '../../src/serve/health.ts';
import type { SharedMemory } from '../../src/serve/http/shared-memory.ts';
import type { FromThread, ToThread } from '../../src/serve/http/wire.ts';
import { loggerTo } from '../../src/serve/log.ts';
import { bodyBytes } from '../../src/serve/reply.ts';
import { KubernetesSource } from '../../src/source/kubernetes/source.ts';
import { type AddressKeys, keysOf } from '../../src/state/node-sockets.ts';
import type { Clock } from '../../src/time/clock.ts';
import type { Random } from '../chaos/random.ts';
import type { Raw } from '../fake/api-server-store.ts';
import { bpfDirectory } from '../fake/connect-time.ts';
import { type FakeConntrack, kernelRefusal } from '../fake/conntrack.ts';
import { delivered, type FakeKernel } from '../fake/kernel.ts';
import { userspaceWith, WrittenSockets } from '../fake/sockets.ts';
import { type Machine, nodeName } from './machine.ts';
import type { VirtualTime } from './virtual-time.ts';

interface ProgramOptions {
  readonly time: VirtualTime;
  readonly random: Random;
  readonly kernel: FakeKernel;
  readonly conntrack: FakeConntrack;
  readonly machine: Machine;
  /** Its configuration file; default: that of the machine. */
  readonly config: Raw | undefined;
  /** That of the network namespace. `ignored`: it runs although another process has it. */
  readonly lock: 'none' | 'taken' | 'ignored';
  readonly connect: NonNullable<AppOptions['connect']>;
  /** The port of its API server, and of its netlink socket: no other start has it. */
  readonly port: number;
  /** Called after each batch that the kernel has applied or refused. */
  readonly written: (result: ApplyResult['kind']) => void;
  readonly log: (line: string) => void;
}

interface Interruption {
  readonly by: 'calls' | 'batches';
  left: number;
  readonly act: () => void;
}

/** How the kernel behaves to a program. */
export class Edge implements Kernel {
  readonly #kernel: FakeKernel;
  readonly #options: ProgramOptions;
  /** A dead program's calls do nothing, and are never answered. */
  isDead = false;
  /** Milliseconds that a batch takes at most. */
  batchMsMax = 2;
  inFlight = 0;
  /** How many it was given, and the last one. */
  batches = 0;
  failures = 0;
  commits = 0;
  lastOps: Uint8Array = new Uint8Array();
  /** What happens when the program has called the kernel, or written to it, this often. */
  interruption: Interruption | undefined;
  /** Ends of the watches of tables that are running. */
  readonly #watches = new Set<() => void>();

  constructor(options: ProgramOptions) {
    this.#kernel = options.kernel;
    this.#options = options;
  }

  async apply(ops: Uint8Array): Promise<ApplyResult> {
    this.inFlight += 1;
    this.batches += 1;
    this.lastOps = ops;
    this.#interrupt('batches');
    await this.#pass();
    const { commits } = this.#kernel;
    const result = this.#isShort() ? noMemory : this.#kernel.applyNow(ops, this.#options.port);
    this.commits += this.#kernel.commits - commits;
    if (result.kind === 'failed') this.failures += 1;
    // What is only checked ends with an op that is refused.
    const isOnlyChecked = Buffer.from(ops).includes('fairlead-check');
    this.#options.written(isOnlyChecked ? 'applied' : result.kind);
    await this.#pass();
    this.inFlight -= 1;
    return result;
  }

  async dump(...given: Parameters<Kernel['dump']>): ReturnType<Kernel['dump']> {
    await this.#pass();
    const [request, take] = given;
    if (this.#isShort()) throw kernelRefusal('ENOMEM');
    const result = await this.#kernel.dump(request);
    await this.#pass();
    return delivered(result, take);
  }

  async generation(): Promise<number> {
    await this.#pass();
    if (this.#isShort()) throw kernelRefusal('ENOMEM');
    return this.#kernel.generation();
  }

  isOwn(port: number): boolean {
    return port === this.#options.port;
  }

  watch(...[tables, watcher]: Parameters<Kernel['watch']>): () => void {
    const stop = this.#kernel.watch(tables, this.#alive(watcher), this.#options.port);
    const end = (): void => {
      this.#watches.delete(fail);
      stop();
    };
    const fail = (): void => {
      end();
      const words = 'no buffer space';
      watcher.ended(new KernelError({ operation: 'watch', subject: '', code: 'ENOBUFS', words }));
    };
    this.#watches.add(fail);
    return end;
  }

  watchLinks(watcher: TableWatcher): () => void {
    return this.#kernel.watchLinks(this.#alive(watcher));
  }

  #alive(watcher: TableWatcher): TableWatcher {
    const changed: TableWatcher['changed'] = (by) => {
      if (!this.isDead) watcher.changed(by);
    };
    return { ...watcher, changed };
  }

  /** The kernel ends its reports of changes, so that some may be missed. */
  endWatches(): void {
    for (const fail of [...this.#watches]) fail();
  }

  /** Connection tracking as a program has it. */
  tracked(conntrack: Conntrack): Conntrack {
    return {
      dump: async (request) => {
        await this.#pass();
        if (this.#isShort()) throw kernelRefusal('ENOMEM');
        return conntrack.dump(request);
      },
      delete: async (entries) => {
        await this.#pass();
        if (this.#isShort()) throw kernelRefusal('ENOMEM');
        return conntrack.delete(entries);
      },
      close: () => {},
    };
  }

  readonly openBytes: NonNullable<AppOptions['openBytes']> = () => {
    const { readers } = this.#options.conntrack;
    const ended: ReplyOf<'bytesOfEnded'>[] = [];
    const read = (one: ReplyOf<'bytesOfEnded'>) => void (this.isDead || ended.push(one));
    readers.add(read);
    const dump = async (request: Request): ReturnType<Kernel['dump']> => {
      await this.#after(request.kind === 'bytesRead' ? request.waitMs : 0);
      if (this.#isShort()) throw kernelRefusal('ENOMEM');
      return { records: ended.splice(0), consistent: true };
    };
    return { close: () => void readers.delete(read), dump };
  };

  close(): void {
    if (!this.isDead) this.#kernel.exit(this.#options.port);
  }

  #isShort(): boolean {
    const { machine } = this.#options;
    return machine.shortage === 'memory' && machine.isRefused();
  }

  #interrupt(by: Interruption['by']): void {
    const { interruption } = this;
    if (interruption?.by !== by) return;
    interruption.left -= 1;
    if (interruption.left === 0) interruption.act();
  }

  #pass(): Promise<void> {
    this.#interrupt('calls');
    return this.#after(this.#options.random.next() * this.batchMsMax);
  }

  #after(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#options.time.after(ms, () => {
        if (!this.isDead) resolve();
      });
    });
  }
}

const noMemory: ApplyResult = {
  kind: 'failed',
  failures: [{ op: undefined, entry: undefined, code: 'ENOMEM', message: 'refused' }],
  partly: false,
};

interface Answer {
  readonly status: number;
  readonly body: string;
}

export class NodeProgram {
  readonly edge: Edge;
  /** Those of mode userspace, which go with the process. */
  readonly sockets = new WrittenSockets();
  readonly #options: ProgramOptions;
  readonly #stop = new AbortController();
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  /** What the HTTP thread sends, by path: where requests go. */
  readonly #listeners = new Map<string, number>();
  /** Ports for load balancers' questions about a Service: the Service, and where to look. */
  readonly #servicePorts = new Map<number, { readonly text: string; readonly slot: number }>();
  #memory: SharedMemory | undefined;
  /** Answers to probes. */
  health: ProxyHealth | undefined;
  #received: (message: FromThread) => void = () => {};
  /** Ports of the node's programs have changed at these addresses. */
  #portsChanged: (addresses: AddressKeys) => void = () => {};
  #asked = 0;
  #app: App | undefined;
  #reload: Reload | undefined;
  /** Why it ended; undefined: it runs. */
  ended: Error | 'stopped' | undefined;
  /** It was asked to end, or ends itself for a changed configuration. */
  mayEnd = false;

  constructor(options: ProgramOptions) {
    this.#options = options;
    this.edge = new Edge(options);
  }

  get port(): number {
    return this.#options.port;
  }

  /** Rejects where the process would end with an error. */
  async start(): Promise<void> {
    const { lock, log: write, port } = this.#options;
    const { signal } = this.#stop;
    const log = loggerTo({ write }, 0);
    const ignoreOther = lock === 'ignored';
    if (lock !== 'none') await holdNamespace(log, { ignoreOther, signal, name: String(port) });
    if (!signal.aborted) await this.#run(log);
  }

  async #run(log: ReturnType<typeof loggerTo>): Promise<void> {
    const { config: own, machine, port, random, time } = this.#options;
    const args = ['--config=/etc/fairlead.yaml', `--master=http://api:${port}`];
    const readOwn = own && (() => Buffer.from(JSON.stringify(own)));
    const loaded = loadConfig(args, { readFile: readOwn ?? machine.readConfig });
    if (loaded.kind !== 'run') throw new Error(JSON.stringify(loaded));
    const { config } = loaded;
    const clock: Clock = {
      now: time.read,
      wallMs: () => time.wallMs(),
      after: (ms, call) =>
        time.after(ms, () => {
          if (!this.edge.isDead) call();
        }),
      turn: () => time.sleep(0),
      random: () => random.next(),
    };
    const built = builtModes(undefined, config.serviceProxyName);
    const modes = new Map(built).set('userspace', userspaceWith(this.sockets));
    const addresses = new MachineAddresses({
      after: clock.after,
      read: machine.interfaces,
      watch: (notify) => machine.watchAddresses((error) => this.edge.isDead || notify(error)),
      failed: ({ message: err }) => log.warn({ err }, 'no interfaces'),
      restored: () => log.info('interfaces again'),
      unwatched: ({ message: err }) => log.warn({ err }, 'no watch of interfaces'),
    });
    const app = new App({
      config,
      nodeName,
      log,
      clock,
      kernel: this.edge,
      conntrack: this.edge.tracked(this.#options.conntrack),
      openBytes: this.edge.openBytes,
      source: sourceOf(config),
      interfaces: addresses.read,
      followInterfaces: addresses.follow,
      programs: {
        has: () => false,
        listening: () => [],
        follow: (changed) => {
          this.#portsChanged = changed;
          return () => {};
        },
      },
      families: machine.enabledFamilies,
      connectTime: { directory: bpfDirectory, cgroup: '/sys/fs/cgroup' },
      deviceFiles: machine,
      connect: this.#options.connect,
      heap: { bytesMax: 2 ** 30, follow: () => () => {} },
      modes,
      choice: await selectMode(config.mode, this.edge, modes),
      openHttp: (memory, { received }, health) => {
        this.#received = received;
        this.#memory = memory;
        this.health = health;
        return { send: (message) => this.#fromProgram(message), close: () => {} };
      },
    });
    this.#app = app;
    this.#reload = new Reload({
      args,
      config,
      log,
      mode: () => app.mode,
      apply: (next) => app.reconfigure(next),
      restart: (reason) => {
        this.mayEnd = true;
        app.end(reason);
      },
      counted: () => {},
      refused: (reason) => app.refuseConfig(reason),
    });
    app.run(this.#stop.signal).then(
      () => {
        this.ended = 'stopped';
      },
      (error: Error) => {
        this.ended = error;
      },
    );
  }

  /** The configuration file has changed: this is its content. */
  async reread(content: Uint8Array | Error): Promise<void> {
    await this.#reload?.read(content);
  }

  /** Has all Services resolved again that have one of these addresses. */
  resolve(addresses: readonly Address[]): void {
    this.#portsChanged(keysOf(addresses));
  }

  /** As SIGTERM. */
  stop(): void {
    this.mayEnd = true;
    this.#stop.abort();
  }

  get upToDate(): boolean {
    return this.#app?.upToDate ?? false;
  }

  /** What `path` answers, as text. */
  ask(path: string): Promise<Answer> {
    const [bare = '', query = ''] = path.split('?');
    const listener = this.#listeners.get(bare);
    if (listener === undefined) throw new Error(`nothing answers ${bare}`);
    this.#asked += 1;
    const id = this.#asked;
    const common = { peer: '127.0.0.1', host: 'localhost', accept: '', acceptEncoding: '' };
    const request = { id, listener, path: bare, query, method: 'GET', ...common };
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#received({ kind: 'request', request: { ...request, authorization: '', body: '' } });
    });
  }

  /** What load balancers learn about Services, each port with its number of local endpoints. */
  get servicePorts(): string[] {
    return Array.from(this.#servicePorts.values(), ({ slot, text }) => {
      return `${text}: ${this.#memory?.endpoints(slot)}`;
    });
  }

  /** As SIGKILL: nothing of it reaches anything any more. */
  kill(): void {
    this.edge.isDead = true;
    this.sockets.closeAll();
    this.#stop.abort();
  }

  #fromProgram(message: ToThread): void {
    if (message.kind === 'open') {
      const { answers, listener } = message;
      if (answers.kind === 'paths') {
        for (const path of Object.keys(answers.paths)) this.#listeners.set(path, listener);
      }
      if (answers.kind === 'service') {
        const { host = '', port } = message.place;
        const text = `${host} ${port} ${answers.namespace}/${answers.name}`;
        this.#servicePorts.set(listener, { text, slot: answers.slot });
      }
      queueMicrotask(() => this.#received({ kind: 'opened', listener }));
    }
    if (message.kind === 'close') this.#servicePorts.delete(message.listener);
    if (message.kind === 'reply') {
      const body = Buffer.from(bodyBytes(message.reply)).toString();
      this.#waiting.get(message.id)?.({ status: message.reply.status, body });
      this.#waiting.delete(message.id);
    }
  }
}

function sourceOf({ serviceProxyName: proxyName, source }: Config): KubernetesSource {
  if (source.kind !== 'kubernetes') throw new Error('there is no API server');
  const { burst, contentTypes, kubeconfigPath, masterUrl, qps } = source;
  const access = { kubeconfigPath, masterUrl, contentTypes, qps, burst, environment: {} };
  return new KubernetesSource({ ...access, userAgent: 'simulated', nodeName, proxyName });
}
