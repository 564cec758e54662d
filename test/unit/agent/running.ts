/** The whole proxy on doubles of the kernel, the source and the clock. */
import { expect, onTestFinished } from 'vitest';
import type { AppOptions } from '../../../src/agent/agent.ts';
import { App } from '../../../src/agent/app.ts';
import type { Config } from '../../../src/config/config.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { builtModes, selectMode } from '../../../src/modes/index.ts';
import { loggerTo } from '../../../src/serve/log.ts';
import type { Condition, Source, SourceSink } from '../../../src/source/source.ts';
import { type Change, resources } from '../../../src/state/change.ts';
import { FakeConntrack } from '../../fake/conntrack.ts';
import { openHere } from '../../fake/http-here.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { FakeLookup } from '../../fake/lookup.ts';
import { freePort } from '../free-port.ts';
import { address, ready, service, slice } from '../state/build.ts';
import { quiet, ToyClock } from '../sync/double.ts';

/** A source that tests speak through. */
export class SpokenSource implements Source {
  readonly lookup = new FakeLookup();
  #sink: SourceSink | undefined;
  /** Makes `run` reject. */
  fail: (error: Error) => void = () => {};

  async run(sink: SourceSink, signal: AbortSignal): Promise<void> {
    this.#sink = sink;
    await new Promise<void>((resolve, reject) => {
      this.fail = reject;
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  condition(): Condition {
    return { silenceMs: 0, missingMs: undefined, failure: undefined };
  }

  /** By `resource key`. */
  readonly revisions = new Map<string, string>();

  revision(resource: (typeof resources)[number], key: string): string | undefined {
    return this.revisions.get(`${resource} ${key}`);
  }

  server(): undefined {
    return undefined;
  }

  serverVersion() {
    return { gitVersion: 'v1.35.4', major: '1', minor: '35', platform: 'linux/arm64' };
  }

  say(...changes: Change[]): void {
    for (const change of changes) this.#sink!.change(change);
  }

  trouble(subject: string, field: string | undefined, reason: string): void {
    this.#sink!.problem({ subject, field, reason });
  }

  listed(...which: readonly (typeof resources)[number][]): void {
    for (const resource of which) this.#sink!.synced(resource);
  }
}

export class ClosableKernel extends FakeKernel {
  closed = false;

  override close(): void {
    this.closed = true;
  }
}

export async function configOf(...flags: string[]): Promise<Config> {
  const servers = ['--healthz-bind-address=127.0.0.1', '--metrics-bind-address=127.0.0.1'];
  const ports = [`--healthz-port=${await freePort()}`, `--metrics-port=${await freePort()}`];
  const result = loadConfig([...servers, ...ports, ...flags], {
    readFile: () => {
      throw new Error('no file');
    },
  });
  if (result.kind !== 'run') throw new Error(JSON.stringify(result));
  return result.config;
}

export class Running {
  readonly kernel = new ClosableKernel();
  readonly conntrack = new FakeConntrack();
  readonly source = new SpokenSource();
  readonly clock = new ToyClock();
  /** Messages. */
  readonly logged: string[] = [];
  readonly lines: Record<string, unknown>[] = [];
  readonly config: Config;
  app!: App;
  readonly #abort = new AbortController();
  /** How `run` ended; undefined while it runs. */
  outcome: 'stopped' | Error | undefined;
  #done: Promise<void> = Promise.resolve();

  constructor(config: Config) {
    this.config = config;
  }

  async start(
    overrides: Partial<AppOptions> = {},
    what: 'run' | 'initialise' = 'run',
  ): Promise<this> {
    const { kernel = this.kernel, modes = builtModes() } = overrides;
    const run = async (): Promise<void> => {
      const choice = await selectMode(this.config.mode, kernel, modes);
      this.app = new App({ ...this.#options(), modes, choice, ...overrides });
      await this.app[what](this.#abort.signal);
    };
    this.#done = run().then(
      () => {
        this.outcome = 'stopped';
      },
      (error: Error) => {
        this.outcome = error;
      },
    );
    await quiet();
    return this;
  }

  #options(): Omit<AppOptions, 'modes' | 'choice'> {
    return {
      config: this.config,
      nodeName: 'node-a',
      log: loggerTo({ write: (line) => this.#log(JSON.parse(line)) }, 0),
      clock: this.clock,
      kernel: this.kernel,
      conntrack: this.conntrack,
      source: this.source,
      // The others are those of Nodes in tests.
      interfaces: () => ['127.0.0.1', '192.168.0.1', '192.168.7.7'].map(address),
      families: () => ['IPv4', 'IPv6'],
      openHttp: openHere,
    };
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#done;
  }

  #log(line: Record<string, unknown>): void {
    this.lines.push(line);
    this.logged.push(String(line.msg));
  }

  get services(): string[] {
    return this.kernel.elements(NFPROTO.IPv4, 'fairlead', 'services');
  }

  async get(server: 'healthz' | 'metrics', path: string): Promise<Response> {
    const at = this.config[`${server}BindAddress`]!;
    return fetch(`http://127.0.0.1:${at.port}${path}`);
  }
}

export const web: readonly Change[] = [
  { kind: 'service', service: service() },
  { kind: 'slice', slice: slice({ '10.244.0.2': ready }) },
];

/** Until `web` is in force. The test's end stops it. */
export async function serveWeb(app: Running): Promise<void> {
  onTestFinished(() => app.stop());
  await quiet();
  app.source.say(...web);
  app.source.listed(...resources);
  await quiet();
  expect(app.app.upToDate).toBe(true);
}

export async function started(...flags: string[]): Promise<Running> {
  return new Running(await configOf(...flags)).start();
}

/** Events at the API server: `REASON about KIND NAME: NOTE`. */
export function listening(): { told: string[]; openEvents: NonNullable<AppOptions['openEvents']> } {
  const told: string[] = [];
  const send = async (_path: string, object: unknown): Promise<void> => {
    const { note, reason, regarding } = object as {
      readonly note: string;
      readonly reason: string;
      readonly regarding: { readonly kind: string; readonly name: string; readonly uid?: string };
    };
    told.push(`${reason} about ${regarding.kind} ${regarding.name} (${regarding.uid}): ${note}`);
  };
  return { told, openEvents: async () => ({ send, close: async () => {} }) };
}
