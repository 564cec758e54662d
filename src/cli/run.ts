/** `fairlead [run]`: everything that a command line of kube-proxy's can ask for. */
import { readFileSync, writeFileSync } from 'node:fs';
import { App } from '../app.ts';
import type { Config } from '../config/config.ts';
import { type LoadResult, loadConfig } from '../config/load.ts';
import { fairleadVersion } from '../config/version.ts';
import { hostFiles } from '../host/files.ts';
import { interfaceAddresses, ipv6Available } from '../host/interfaces.ts';
import { nodeName } from '../host/node-name.ts';
import { openConntrack } from '../kernel/conntrack.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import { availableModes, selectMode } from '../modes/index.ts';
import { createLogger, type Logger } from '../serve/log.ts';
import { KubernetesSource } from '../source/kubernetes/source.ts';
import { ManifestSource } from '../source/manifests/source.ts';
import type { Source } from '../source/source.ts';
import { systemClock } from '../sync/clock.ts';
import { describeError } from './describe-error.ts';

/** A stop that takes longer is given up: the supervisor's patience ends as well. */
const stopLongestMs = 10_000;

/** Resolves to the exit code. */
export async function run(args: readonly string[]): Promise<number> {
  const result = loadConfig(args, { readFile: (path) => readFileSync(path) });
  try {
    return await act(result);
  } catch (error) {
    process.stderr.write(`fairlead: ${describeError(error)}\n`);
    return 1;
  }
}

async function act(result: LoadResult): Promise<number> {
  switch (result.kind) {
    case 'print':
      process.stdout.write(result.text);
      return result.exitCode;
    case 'error':
      process.stderr.write(result.text);
      return result.exitCode;
    case 'write-config':
      writeFileSync(result.path, result.text);
      return 0;
    case 'cleanup':
      return cleanup(result.action);
    case 'init-only':
      return initOnly(result.config, loggerFor(result));
    case 'run':
      return runProxy(result.config, loggerFor(result));
  }
}

function loggerFor({ config, warnings }: LoadResult & { kind: 'run' | 'init-only' }): Logger {
  const log = createLogger(config.logging);
  for (const warning of warnings) log.warn({ err: warning }, 'Configuration');
  return log;
}

async function runProxy(config: Config, log: Logger): Promise<number> {
  const name = nodeName(config.hostnameOverride);
  log.info({ version: fairleadVersion, node: name }, 'Starting');
  const app = new App({
    config,
    nodeName: name,
    log,
    clock: systemClock,
    kernel: openKernel(),
    conntrack: openConntrack(),
    source: sourceOf(config, name),
    interfaces: interfaceAddresses,
    families: ipv6Available(hostFiles()) ? ['IPv4', 'IPv6'] : ['IPv4'],
  });
  await app.run(stopSignal(log));
  log.info('Stopped, the rules stay in place');
  return 0;
}

function sourceOf({ source }: Config, name: string): Source {
  if (source.kind === 'manifests') {
    return new ManifestSource({ directory: source.directory, nodeName: name });
  }
  const { kubeconfigPath, masterUrl, qps, burst } = source;
  const userAgent = `fairlead/${fairleadVersion.slice(1)}`;
  return new KubernetesSource({ kubeconfigPath, masterUrl, qps, burst, nodeName: name, userAgent });
}

/** Aborts at SIGTERM or SIGINT; a second signal, or a stop that hangs, ends the process. */
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

/** What needs privileges at the start: so far, that the kernel can do what the mode needs. */
async function initOnly(config: Config, log: Logger): Promise<number> {
  const kernel = openKernel();
  try {
    const { mode } = await selectMode(config.mode, kernel);
    log.info({ mode: mode.name }, 'Initialised');
    return 0;
  } finally {
    kernel.close();
  }
}

async function cleanup(action: 'remove' | 'list'): Promise<number> {
  if (action === 'list') {
    throw new Error('--cleanup cannot list yet what it would remove: run it without --dry-run');
  }
  const kernel = openKernel();
  try {
    for (const mode of availableModes()) await mode.cleanup(kernel);
    return 0;
  } finally {
    kernel.close();
  }
}
