/**
 * The product as a proxy under test, in a process of its own inside the node: where its sockets are
 * the node's.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { ModeName } from '../../src/config/config.ts';
import type { ConnectTimePaths } from '../../src/connect-time/maps/choice.ts';
import type { KubernetesObject } from '../lab/objects.ts';
import type { NodeUnderTest, ProxySettings, ProxyUnderTest } from '../lab/proxy.ts';
import { builtLike } from '../process/main.ts';
import { cleanup, type LogLine, type MeasuredProxy } from './fairlead-proxy.ts';

const program = builtLike(join(import.meta.dirname, 'fairlead-inside-main.ts'));

export type InsideRequest =
  | {
      readonly op: 'start';
      readonly mode: ModeName;
      readonly nodeName: string;
      readonly settings: ProxySettings;
      readonly objects: readonly KubernetesObject[];
      readonly netfilter: 'present' | 'absent';
      readonly errors: 'fail the story' | 'are told';
      readonly connectTime?: ConnectTimePaths | undefined;
    }
  | { readonly op: 'apply'; readonly objects: readonly KubernetesObject[] }
  | { readonly op: 'switch'; readonly mode: ModeName }
  | { readonly op: 'skip'; readonly timeMs: number }
  | { readonly op: 'metrics' }
  | { readonly op: 'stop' };

export type InsideReply =
  | { readonly kind: 'done'; readonly error?: string; readonly text?: string | undefined }
  | { readonly kind: 'log'; readonly line: LogLine };

export interface InsideOptions {
  /** Called with each line. */
  readonly log?: (line: LogLine) => void;
  /** `absent`: a kernel without nf_tables, iptables and IPVS. */
  readonly netfilter?: 'present' | 'absent';
  /** A capability that the process is to lack, as setpriv(1) names it: `net_bind_service`. */
  readonly without?: string;
  /** What a logged error does. */
  readonly errors?: 'fail the story' | 'are told';
  /** Where connect-time translation is to be. */
  readonly connectTime?: ConnectTimePaths;
  /** kill -9 when it aborts, also while it starts. */
  readonly killed?: AbortSignal;
}

export interface KillableProxy extends MeasuredProxy {
  /** kill -9 */
  kill(): Promise<void>;
}

interface FairleadInside extends ProxyUnderTest {
  start(...args: Parameters<ProxyUnderTest['start']>): Promise<KillableProxy>;
}

export function fairleadInside(mode: ModeName, options: InsideOptions = {}): FairleadInside {
  const { netfilter = 'present', errors = 'fail the story', connectTime } = options;
  return {
    mode,
    start: async (node, settings, objects) => {
      const proxy = new ProxyProcess(node, options);
      const { nodeName } = node;
      const how = { netfilter, errors, connectTime };
      await proxy.ask({ op: 'start', mode, nodeName, settings, objects, ...how });
      return proxy;
    },
    cleanup,
  };
}

/** Proxies in one process, each started when the one before it has stopped. */
export interface ProxiesInside extends ProxyUnderTest {
  /** Ends the process, and resolves when it has ended. */
  close(): Promise<void>;
}

/**
 * A start of the program costs more than most stories. After a failure the next proxy gets a new
 * process.
 */
export function proxiesInside(mode: ModeName): ProxiesInside {
  let process: ProxyProcess | undefined;
  const discard = async () => {
    const failed = process;
    process = undefined;
    await failed?.kill();
  };
  const ask = async (request: InsideRequest) => {
    try {
      return await process?.ask(request);
    } catch (error) {
      await discard();
      throw error;
    }
  };
  return {
    mode,
    start: async (node, settings, objects) => {
      process ??= new ProxyProcess(node, {});
      const how = { netfilter: 'present', errors: 'fail the story' } as const;
      await ask({ op: 'start', mode, nodeName: node.nodeName, settings, objects, ...how });
      return {
        apply: async (changed) => {
          await ask({ op: 'apply', objects: changed });
        },
        skip: async (timeMs) => {
          await ask({ op: 'skip', timeMs });
        },
        stop: async () => {
          await ask({ op: 'stop' });
        },
      };
    },
    cleanup,
    close: async () => {
      await process?.end();
      process = undefined;
    },
  };
}

class ProxyProcess implements KillableProxy {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  /** Of the request under way; there is one at a time. */
  #settle: ((error: Error | undefined, text?: string) => void) | undefined;

  constructor({ namespace }: NodeUnderTest, { killed, log = () => {}, without }: InsideOptions) {
    const drop =
      without === undefined
        ? []
        : ['setpriv', `--bounding-set=-${without}`, `--inh-caps=-${without}`];
    const argv = ['netns', 'exec', namespace, ...drop, process.execPath, program];
    this.#child = spawn('ip', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: this.#child.stdout! }).on('line', (text) => {
      const reply = JSON.parse(text) as InsideReply;
      if (reply.kind === 'log') log(reply.line);
      else
        this.#settle?.(reply.error === undefined ? undefined : new Error(reply.error), reply.text);
    });
    this.#child.stdin!.on('error', () => {});
    killed?.addEventListener('abort', () => this.#child.kill('SIGKILL'), { once: true });
    this.#ended = new Promise((resolve) => {
      this.#child.once('close', (code, signal) => {
        this.#settle?.(new Error(`     fairlead: the process has ended (${signal ?? code})`));
        resolve(undefined);
      });
    });
  }

  /** Resolves to the text of the reply. */
  ask(request: InsideRequest): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#settle = (error, text = '') => (error === undefined ? resolve(text) : reject(error));
      this.#child.stdin!.write(`${JSON.stringify(request)}\n`);
    });
  }

  async apply(objects: readonly KubernetesObject[]): Promise<void> {
    await this.ask({ op: 'apply', objects });
  }

  async skip(timeMs: number): Promise<void> {
    await this.ask({ op: 'skip', timeMs });
  }

  async switchTo(mode: ModeName): Promise<void> {
    await this.ask({ op: 'switch', mode });
  }

  metrics(): Promise<string> {
    return this.ask({ op: 'metrics' });
  }

  /** Nothing of it keeps the process from ending by itself. */
  async stop(): Promise<void> {
    try {
      await this.ask({ op: 'stop' });
    } finally {
      await this.end();
    }
  }

  async end(): Promise<void> {
    this.#child.stdin!.end();
    await this.#ended;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}
