/** The product as a proxy under test: the app itself, in this process, on the node's kernel. */
import { execFileSync } from 'node:child_process';
import { release } from 'node:os';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LoggedMessage } from '../../scripts/log-messages.ts';
import { App } from '../../src/agent/app.ts';
import { ofFeatures } from '../../src/cli/removal.ts';
import type { Config, ModeName } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { ConnectTimePaths } from '../../src/connect-time/maps/choice.ts';
import { hostFiles } from '../../src/host/files.ts';
import { interfaceAddresses } from '../../src/host/interfaces.ts';
import { NodePrograms } from '../../src/host/node-programs.ts';
import { ownSockets } from '../../src/host/process.ts';
import { loadAddon } from '../../src/kernel/addon.ts';
import { openConntrack } from '../../src/kernel/conntrack.ts';
import { isKernelError } from '../../src/kernel/errors.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import {
  availableModes,
  builtModes,
  type ModeRegistry,
  selectMode,
} from '../../src/modes/index.ts';
import { linkName } from '../../src/modes/ipvs/layout.ts';
import { ipvsMode } from '../../src/modes/ipvs/mode.ts';
import type { ProxyMode } from '../../src/modes/proxy-mode.ts';
import type { Address } from '../../src/net/address.ts';
import { loggerTo } from '../../src/serve/log.ts';
import { type DecodeContext, decodeContext, kindOf } from '../../src/source/decode.ts';
import { Delivery } from '../../src/source/kubernetes/delivery.ts';
import type { WatchPods } from '../../src/source/pods.ts';
import type { Condition, Source, SourceSink } from '../../src/source/source.ts';
import { type Resource, resources } from '../../src/state/change.ts';
import { finish } from '../../src/state/steps.ts';
import { FakeLookup } from '../fake/lookup.ts';
import { AheadClock } from '../lab/ahead-clock.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import type { KubernetesObject } from '../lab/objects.ts';
import { hangsMs } from '../lab/pace.ts';
import type { NodeUnderTest, ProxySettings, ProxyUnderTest, RunningProxy } from '../lab/proxy.ts';

const settleCheckMs = 2;

/** One line of the log, decoded. */
export interface LogLine {
  readonly level: string;
  readonly msg: LoggedMessage;
  readonly [key: string]: unknown;
}

export interface FairleadOptions {
  /** Default: the modes of this build. */
  readonly modes?: ModeRegistry;
  /** What the node's kernel is to look like. */
  readonly kernel?: (kernel: Kernel) => Kernel;
  /** Where connect-time translation is to be. */
  readonly connectTime?: ConnectTimePaths;
  /** See `AppOptions`. */
  readonly ownsLoopback?: boolean;
  readonly watchPods?: WatchPods;
  /** Called with each line. */
  readonly log?: (line: LogLine) => void;
  /** When the list of EndpointSlices is complete. Default: immediately, like the others. */
  readonly listed?: Promise<void>;
  /** What a logged error does; by default it fails the story. */
  readonly errors?: 'fail the story' | 'are told';
}

/** It changes its mode while it runs, as when the configuration file names another. */
export interface SwitchableProxy extends RunningProxy {
  /** Resolves when the desired state is in force in the new mode; the old one is removed later. */
  switchTo(mode: ModeName | ''): Promise<void>;
}

/** It runs in this process, which can ask it. */
export interface MeasuredProxy extends SwitchableProxy {
  skip(timeMs: number): Promise<void>;
  /** The metrics as Prometheus reads them. */
  metrics(): Promise<string>;
}

export interface FairleadUnderTest extends ProxyUnderTest {
  start(...args: Parameters<ProxyUnderTest['start']>): Promise<SwitchableProxy>;
}

interface FairleadInThisProcess extends FairleadUnderTest {
  start(...args: Parameters<ProxyUnderTest['start']>): Promise<MeasuredProxy>;
}

/** Fairlead in one of its modes; empty: in the one that it takes if none is asked for. */
export function fairlead(
  mode: ModeName | '',
  options: FairleadOptions = {},
): FairleadInThisProcess {
  return {
    mode: mode === '' ? 'empty' : mode,
    start: async (node, settings, objects) => {
      const running = new RunningFairlead(mode, node, settings, options);
      try {
        await running.start(objects);
      } catch (error) {
        // No other code can stop it, and it would write while later ones run.
        await running.stop().catch(() => {});
        throw error;
      }
      return running;
    },
    cleanup: (node) => cleanup(node),
  };
}

/** What `--cleanup` does, of a proxy with a name with what that one has made. */
export function cleanup(node: NodeUnderTest, proxyName = ''): Promise<void> {
  return askKernel(node, async (kernel) => {
    for (const mode of availableModes(proxyName)) await cleanupMode(mode, kernel);
    if (proxyName !== '') return;
    for (const feature of ofFeatures(kernel)) await feature('remove', () => {});
  });
}

/** The sockets of a proxy that has just been stopped own its tables until their threads end. */
async function cleanupMode(mode: ProxyMode, kernel: Kernel): Promise<void> {
  const endMs = performance.now() + hangsMs;
  for (;;) {
    try {
      return await mode.cleanup(kernel);
    } catch (error) {
      if (!isKernelError(error, 'EPERM') || performance.now() > endMs) throw error;
      await sleep(settleCheckMs);
    }
  }
}

class RunningFairlead implements MeasuredProxy {
  readonly #mode: ModeName | '';
  readonly #node: NodeUnderTest;
  readonly #settings: ProxySettings;
  readonly #options: FairleadOptions;
  readonly #stop = new AbortController();
  readonly #source: ObjectSource;
  readonly #clock = new AheadClock();
  readonly #errors: string[] = [];
  #told = false;
  #interfaces: readonly Address[] = [];
  #app: App | undefined;
  #running: Promise<void> | undefined;

  constructor(
    mode: ModeName | '',
    node: NodeUnderTest,
    settings: ProxySettings,
    options: FairleadOptions,
  ) {
    this.#mode = mode;
    this.#node = node;
    this.#settings = settings;
    this.#options = options;
    this.#source = new ObjectSource(node.nodeName, options.listed, settings.serviceProxyName);
  }

  async start(objects: readonly KubernetesObject[]): Promise<void> {
    this.#interfaces = await addressesOf(this.#node);
    if (this.#mode === 'ipvs') await setSysctls(this.#node);
    const config = configOf(this.#mode, this.#node, this.#settings);
    const kernel = this.#openKernel();
    const modes = this.#options.modes ?? builtModes(undefined, config.serviceProxyName);
    this.#app = new App({
      config,
      modes,
      choice: await selectMode(config.mode, kernel, modes, config.ipvs),
      nodeName: this.#node.nodeName,
      log: loggerTo({ write: (line) => this.#logged(JSON.parse(line)) }, 0),
      clock: this.#clock,
      kernel,
      conntrack: openConntrack(this.#namespace()),
      openBytes: () => openKernel(this.#namespace()),
      source: this.#source,
      interfaces: () => this.#interfaces,
      programs: new NodePrograms({
        read: () => boundPortsOf(this.#node),
        own: ownSockets,
        host: filesOf(this.#node),
        clock: this.#clock,
        failed: ({ message }) => this.#errors.push(message),
      }),
      families: () => ['IPv4', 'IPv6'],
      ...(this.#options.connectTime === undefined
        ? {}
        : { connectTime: this.#options.connectTime }),
      ...(this.#options.watchPods && { watchPods: this.#options.watchPods }),
      deviceFiles: filesOf(this.#node),
      ownsLoopback: this.#options.ownsLoopback ?? false,
    });
    this.#running = this.#app.run(this.#stop.signal);
    // Reported where something waits for it.
    this.#running.catch((error: Error) => this.#errors.push(error.message));
    await this.apply(objects);
  }

  #openKernel(): Kernel {
    const kernel = openKernel(this.#namespace());
    return this.#options.kernel?.(kernel) ?? kernel;
  }

  #namespace(): { netns?: string } {
    const { namespacePath: netns } = this.#node;
    return netns === '' ? {} : { netns };
  }

  async apply(objects: readonly KubernetesObject[]): Promise<void> {
    this.#source.deliver(objects);
    await this.#settle();
  }

  async switchTo(mode: ModeName | ''): Promise<void> {
    await this.#app!.reconfigure(configOf(mode, this.#node, this.#settings));
    await this.#settle();
  }

  /** What is under way would seem to have taken this time, and rest for a multiple of it. */
  async skip(timeMs: number): Promise<void> {
    await this.#settle();
    this.#clock.skip(timeMs);
  }

  metrics(): Promise<string> {
    return this.#app!.metrics.registry.metrics();
  }

  async #settle(): Promise<void> {
    const endMs = performance.now() + hangsMs;
    const isSettled = () => this.#app!.upToDate && haveRoutes(filesOf(this.#node));
    while (!isSettled() && this.#errors.length === 0) {
      if (performance.now() > endMs) throw new Error('     fairlead: is not settled in time');
      await sleep(settleCheckMs);
    }
    if (this.#errors.length > 0) throw this.#failure();
  }

  /** Rejects for errors that were not reported yet. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running?.catch(() => {});
    if (this.#errors.length > 0 && !this.#told) throw this.#failure();
  }

  #failure(): Error {
    this.#told = true;
    return new Error(`     fairlead: ${this.#errors.join('; ')}`);
  }

  #logged(line: LogLine): void {
    const { errors, log } = this.#options;
    if (line.level === 'error' && errors !== 'are told') this.#errors.push(JSON.stringify(line));
    log?.(line);
  }
}

/**
 * Whether all bound addresses of IPv6 are local. The kernel acknowledges an address, and makes its
 * route a moment later (`addrconf_dad_work`): until then packets to it leave the node again.
 */
function haveRoutes({ read }: ReturnType<typeof filesOf>): boolean {
  const lines = (path: string): string[] => read(path)?.trim().split('\n') ?? [];
  const routes = new Set(lines('/proc/net/ipv6_route').map((line) => line.slice(0, 35)));
  const bound = lines('/proc/net/if_inet6').filter((line) => line.endsWith(` ${linkName}`));
  return bound.every((line) => routes.has(`${line.slice(0, 32)} 80`));
}

/** The routes of the node's namespace; inside of it also how long entries live. */
function filesOf({ namespacePath }: NodeUnderTest): { read(path: string): string | undefined } {
  const process = namespacePath === '' ? '/proc/self' : namespacePath.replace(/\/ns\/net$/, '');
  const { read } = hostFiles();
  return {
    read: (path) => {
      if (namespacePath === '' && /nf_conntrack_\w+_timeout/.test(path)) return read(path);
      return path.startsWith('/proc/net/') ? read(path.replace('/proc', process)) : undefined;
    },
  };
}

/** Delivers the objects of a list, as the API's watches would. */
class ObjectSource implements Source {
  readonly lookup = new FakeLookup();
  readonly #nodeName: string;
  readonly #context: DecodeContext;
  readonly #listed: Promise<void>;
  #objects: readonly KubernetesObject[] = [];
  #deliveries: ReadonlyMap<Resource, Delivery> = new Map();

  constructor(nodeName: string, listed = Promise.resolve(), proxyName?: string) {
    this.#nodeName = nodeName;
    this.#context = decodeContext(nodeName, proxyName);
    this.#listed = listed;
  }

  async run(sink: SourceSink, signal: AbortSignal): Promise<void> {
    this.#deliveries = new Map(
      resources.map((resource) => [resource, new Delivery(resource, this.#context, sink)]),
    );
    const first = this.#objects;
    this.#objects = [];
    this.deliver(first);
    const aborted = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    for (const resource of resources) if (resource !== 'endpointslices') sink.synced(resource);
    await Promise.race([this.#listed, aborted]);
    if (signal.aborted) return;
    sink.synced('endpointslices');
    await aborted;
  }

  /** What is the same object as before is not delivered again; what is not there any more goes. */
  deliver(objects: readonly KubernetesObject[]): void {
    const known = new Set(this.#objects);
    for (const [resource, delivery] of this.#deliveries) {
      const all = objects.filter((object) => this.#isOf(resource, object));
      for (const object of all) if (!known.has(object)) finish(delivery.decode(object))();
      delivery.retain(new Set(all.flatMap((object) => delivery.keyOf(object) ?? [])));
    }
    this.#objects = objects;
  }

  revision(): undefined {
    return undefined;
  }

  server(): undefined {
    return undefined;
  }

  serverVersion(): undefined {
    return undefined;
  }

  condition(): Condition {
    return { silenceMs: undefined, missingMs: undefined, failure: undefined };
  }

  /** Of Nodes, the API is asked for our own only. */
  #isOf(resource: Resource, { kind, metadata }: KubernetesObject): boolean {
    if (kind !== kindOf[resource]) return false;
    return kind !== 'Node' || metadata.name === this.#nodeName;
  }
}

/** Settings as an operator gives them: a configuration file, read by the product's own reader. */
export function configOf(
  mode: ModeName | '',
  { nodeName }: NodeUnderTest,
  settings: ProxySettings,
): Config {
  const {
    localhostNodePorts = false,
    masqueradeAll,
    masqueradeBit,
    ownTables = true,
    ...general
  } = settings;
  const masquerade = {
    ...(masqueradeAll === undefined ? {} : { masqueradeAll }),
    ...(masqueradeBit === undefined ? {} : { masqueradeBit }),
  };
  const file = {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode,
    hostnameOverride: nodeName,
    iptables: { ...masquerade, localhostNodePorts },
    nftables: masquerade,
    // On a busy machine more than the usual 250 ms are between two datagrams of a flow.
    ...(mode === 'userspace' && { udpIdleTimeout: '1m' }),
    ...general,
  };
  const readFile = (): Uint8Array => Buffer.from(JSON.stringify(file));
  const result = loadConfig(['--config', 'story.json', `--own-tables=${ownTables}`], { readFile });
  if (result.kind !== 'run') throw new Error(`the story's settings are not accepted: ${result}`);
  // Servers would be in the test's own namespace, one for all labs.
  return { ...result.config, healthzBindAddress: undefined, metricsBindAddress: undefined };
}

/** As the product reads them, but by `ip` in the node's namespace. */
/** What the addon reads in the node's network namespace. */
function boundPortsOf({ namespacePath }: NodeUnderTest): Uint8Array {
  if (namespacePath === '') return loadAddon().boundPorts();
  const addon = JSON.stringify(resolve('build/Release/fairlead.node'));
  const words = [process.execPath, '-e', `process.stdout.write(require(${addon}).boundPorts())`];
  return execFileSync('nsenter', [`--net=${namespacePath}`, ...words]);
}

async function addressesOf(node: NodeUnderTest): Promise<Address[]> {
  const links = JSON.parse(await node.run(['ip', '-json', 'addr'])) as readonly {
    readonly ifname: string;
    readonly addr_info: readonly { readonly local: string }[];
  }[];
  return interfaceAddresses(
    Object.fromEntries(
      links.map(({ ifname, addr_info: all }) => [
        ifname,
        all.map(({ local }) => ({ address: local })),
      ]),
    ),
  );
}

/**
 * What the product wants of the node's /proc/sys, which is not that of this process, as far as the
 * kernel has it.
 */
async function setSysctls(node: NodeUnderTest): Promise<void> {
  const wishes = { strictARP: false, localhostNodePorts: false, kernel: release() };
  for (const { path, value } of ipvsMode.sysctls!(wishes)) {
    await node.run(['sh', '-c', `test ! -e ${path} || echo ${value} >${path}`]);
  }
}
