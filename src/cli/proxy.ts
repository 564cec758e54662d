/** The process around the proxy: signals, and changes of the configuration file. */
import { readFileSync } from 'node:fs';
import { App } from '../agent/app.ts';
import type { Config } from '../config/config.ts';
import { fairleadVersion } from '../config/version.ts';
import { connectTimePaths } from '../connect-time/cgroup.ts';
import { hostFiles } from '../host/files.ts';
import { lockNameOf } from '../host/instance-lock.ts';
import { availableFamilies, interfaceAddresses, MachineAddresses } from '../host/interfaces.ts';
import { nodeName } from '../host/node-name.ts';
import { NodePrograms } from '../host/node-programs.ts';
import { memoryMax, openFilesMax, ownSockets, tcpPressureBytes } from '../host/process.ts';
import { routingOf } from '../host/routing.ts';
import { loadAddon } from '../kernel/addon.ts';
import { openConntrack } from '../kernel/conntrack.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import { builtModes, selectMode } from '../modes/index.ts';
import type { NoRoom } from '../modes/sockets/bounds.ts';
import { Descriptors } from '../modes/sockets/descriptors.ts';
import { logMetrics, socketMetrics } from '../serve/collectors.ts';
import { createLogger, type Logger } from '../serve/log.ts';
import type { LogDestination } from '../serve/log-destination.ts';
import { systemClock } from '../time/clock.ts';
import { checkSource, clusterSource } from './cluster-source.ts';
import { ConfigFile, type Seen } from './config-file.ts';
import { logForNode } from './final-messages.ts';
import { holdNamespace } from './instance.ts';
import { Reload } from './reload.ts';

/** A longer stop is abandoned, because the supervisor would kill the process anyway. */
const stopLongestMs = 10_000;

interface ProxyInput {
  readonly args: readonly string[];
  readonly config: Config;
  readonly warnings: readonly string[];
  /** The content of the configuration file; undefined = no file. */
  readonly content: Uint8Array | undefined;
}

/** Runs until it is stopped or fails; the rules stay. */
export async function runProxy(input: ProxyInput): Promise<void> {
  const { log, lines } = startLog(input);
  const stop = stopSignal(log);
  try {
    // A start that can never serve must not change anything on the machine.
    await checkSource(input.config.source);
    const { ignoreOtherInstance: ignoreOther, serviceProxyName } = input.config;
    await holdNamespace(log, { name: lockNameOf(serviceProxyName), ignoreOther, signal: stop });
    // A process that was stopped while it waited for another one does not touch the kernel.
    if (!stop.aborted) await serve(input, log, lines, stop);
    log.info('Stopped; rules stay in place');
  } finally {
    // Logged before other parts report that they have ended.
    lines.flushSync();
  }
}

async function serve(
  input: ProxyInput,
  log: Logger,
  lines: LogDestination,
  stop: AbortSignal,
): Promise<void> {
  const app = await makeApp(input.config, log, lines);
  const ended = new AbortController();
  const watching = followConfig(app, log, input, ended.signal);
  await app.run(stop).finally(() => {
    ended.abort();
    return watching;
  });
}

/** `--init-only` (behaviour document 1.7). */
export async function initialise(input: ProxyInput): Promise<void> {
  const { log, lines } = startLog(input);
  await checkSource(input.config.source);
  const app = await makeApp(input.config, log, lines);
  await app.initialise(stopSignal(log));
  log.info('System initialized and --init-only specified');
}

function startLog({ config, warnings }: ProxyInput): { log: Logger; lines: LogDestination } {
  const { log, lines } = createLogger(config.logging);
  logForNode(log, () => lines.flushSync());
  for (const warning of warnings) log.warn({ err: warning }, 'Configuration warning');
  if (config.logging.verbosity >= 1) {
    for (const { name, value } of config.flags)
      log.info({ flag: `--${name}`, value }, 'Flag value');
  }
  const node = nodeName(config.hostnameOverride);
  log.info({ version: fairleadVersion, node }, 'Starting');
  return { log, lines };
}

/** Rejects if the kernel supports no mode that the configuration permits. */
async function makeApp(config: Config, log: Logger, lines: LogDestination): Promise<App> {
  const name = nodeName(config.hostnameOverride);
  const host = hostFiles();
  const kernel = openKernel();
  const report = (noRoom: NoRoom): void => app.noRoom(noRoom);
  const room = [openFilesMax(host), report, memoryMax(), tcpPressureBytes(host)] as const;
  const descriptors = new Descriptors(...room);
  const modes = builtModes(descriptors, config.serviceProxyName);
  const addresses = machineAddresses(log);
  const app: App = new App({
    config,
    nodeName: name,
    log,
    clock: systemClock,
    kernel,
    modes,
    choice: await selectMode(config.mode, kernel, modes, config.ipvs),
    conntrack: openConntrack(),
    openBytes: openKernel,
    ...clusterSource(config, name, (exchange) => app.metrics.requested(exchange)),
    interfaces: addresses.read,
    followInterfaces: addresses.follow,
    programs: new NodePrograms({
      read: () => loadAddon().boundPorts(),
      own: ownSockets,
      host,
      clock: systemClock,
      failed: ({ message }) =>
        log.warn({ err: message }, 'Could not read ports of programs; external IPs may take them'),
    }),
    families: () => availableFamilies(host),
    host,
    connectTime: connectTimePaths(host),
    ownsLoopback: true,
    routing: routingOf(kernel),
    descriptors,
  });
  logMetrics(app.metrics.registry, lines);
  socketMetrics(app.metrics.registry, descriptors);
  return app;
}

function machineAddresses(log: Logger): MachineAddresses {
  return new MachineAddresses({
    after: systemClock.after,
    read: interfaceAddresses,
    watch: (notify) => new (loadAddon().AddressWatch)(notify),
    failed: ({ message }) =>
      log.warn({ err: message }, 'Could not read interfaces; keeping the last addresses'),
    restored: () => log.info('Read interfaces again'),
    unwatched: ({ message }) =>
      log.warn({ err: message }, 'Could not watch interfaces; reading them every 5 s'),
  });
}

/**
 * Aborts at SIGTERM or SIGINT; a second signal, or a stop that takes too long, ends the process.
 */
function stopSignal(log: Logger): AbortSignal {
  const stop = new AbortController();
  const onSignal = (signal: string): void => {
    if (stop.signal.aborted) process.exit(1);
    log.info({ signal }, 'Stopping');
    stop.abort();
    setTimeout(() => process.exit(1), stopLongestMs).unref();
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  return stop.signal;
}

/** Reads the configuration file again when it changes, and at SIGHUP. Never rejects. */
async function followConfig(
  app: App,
  log: Logger,
  { args, config, content }: ProxyInput,
  signal: AbortSignal,
): Promise<void> {
  const { configPath: path } = config;
  const reload = new Reload({
    args,
    config,
    log,
    mode: () => app.mode,
    apply: (next) => app.reconfigure(next),
    restart: (reason) => app.end(reason),
    counted: (result) => app.metrics.lifecycle.reloads.inc({ result }),
    refused: (reason) => app.refuseConfig(reason),
  });
  const onHangup = (): void => {
    if (path === undefined) log.info('Ignoring SIGHUP: there is no configuration file');
    else void reload.read(readAgain(path));
  };
  process.on('SIGHUP', onHangup);
  if (path !== undefined && content !== undefined) {
    await new ConfigFile({ path, content }).watch(signal, (seen) => void reload.read(seen));
  }
}

function readAgain(path: string): Seen {
  try {
    return readFileSync(path);
  } catch (error) {
    return error as Error;
  }
}
