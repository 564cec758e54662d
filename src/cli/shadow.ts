/** `fairlead shadow`: what Fairlead would do otherwise than the kube-proxy that runs here. */
import { setTimeout as sleep } from 'node:timers/promises';
import { usage } from '../config/commands.ts';
import { parseDuration, toMs } from '../config/duration.ts';
import { hostFiles } from '../host/files.ts';
import { ipv6Available } from '../host/interfaces.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import type { Family } from '../net/address.ts';
import { printable } from '../serve/printable.ts';
import type { ShadowCluster } from '../shadow/cluster.ts';
import type { Difference } from '../shadow/compare.ts';
import { Settling } from '../shadow/settling.ts';
import { type Look, look, NothingProgrammedError } from '../shadow/shadow.ts';
import { exitCodes } from './exit-codes.ts';
import { type NodeCommand, runOnNode } from './node-command.ts';
import { openCluster } from './open-cluster.ts';
import { formatOutput, type Output, toYAML } from './output.ts';
import { Reader, realClock, surroundings } from './reader.ts';
import { terminal } from './terminal.ts';

const settleDefaultMs = 10_000;
const lookAgainMs = 1000;

interface ShadowOptions {
  readonly isWatching: boolean;
  readonly settleMs: number;
}

/** `args` is what follows the word `shadow`. Resolves to the exit code. */
export function runShadow(args: readonly string[]): Promise<number> {
  const { options, rest } = takeOptions(args);
  if (typeof options === 'string') {
    terminal.stderr.write(`${usage('shadow')}\nError: ${options}\n`);
    return Promise.resolve(exitCodes.usage);
  }
  return runOnNode('shadow', rest, (input) => shadow(input, options));
}

/** Options as a text = what is wrong with them. */
function takeOptions(args: readonly string[]): {
  readonly options: ShadowOptions | string;
  readonly rest: readonly string[];
} {
  const rest: string[] = [];
  let [isWatching, settle] = [false, ''];
  for (let i = 0; i < args.length; i += 1) {
    const word = args[i]!;
    if (word === '--watch' || word === '--once') isWatching = word === '--watch';
    else if (word === '--settle') {
      i += 1;
      settle = args[i] ?? '?';
    } else if (word.startsWith('--settle=')) settle = word.slice('--settle='.length);
    else rest.push(word);
  }
  if (settle === '') return { options: { isWatching, settleMs: settleDefaultMs }, rest };
  const duration = parseDuration(settle);
  if (!duration.ok) return { options: `--settle: ${duration.error}`, rest };
  return { options: { isWatching, settleMs: toMs(duration.value) }, rest };
}

async function shadow({ config, output }: NodeCommand, options: ShadowOptions): Promise<number> {
  const ending = new AbortController();
  process.once('SIGINT', () => ending.abort());
  process.once('SIGTERM', () => ending.abort());
  const { cluster, close } = await openCluster(config, { name: 'nftables' });
  const kernel = openKernel();
  const families: Family[] = ipv6Available(hostFiles()) ? ['IPv4', 'IPv6'] : ['IPv4'];
  const run = { kernel, cluster, families, settleMs: options.settleMs, signal: ending.signal };
  const reader = options.isWatching
    ? new Reader(terminal.stdout, realClock, surroundings())
    : undefined;
  reader?.signal.addEventListener('abort', () => ending.abort());
  try {
    if (options.isWatching) return await watch(run, output);
    const found = await once(run);
    const { differences, unread } = found;
    terminal.stdout.write(formatOutput(output, found, () => textOf(found)));
    return differences.length + unread.length === 0 ? exitCodes.healthy : exitCodes.unhealthy;
  } finally {
    reader?.close();
    if (reader?.reason !== undefined) {
      terminal.stderr.write(`fairlead: shadow: ${reader.reason}\n`);
    }
    kernel.close();
    await close();
  }
}

interface Run {
  readonly kernel: Kernel;
  readonly cluster: ShadowCluster;
  readonly families: readonly Family[];
  readonly settleMs: number;
  readonly signal: AbortSignal;
}

/** What has lasted. */
interface Result extends Look {
  /** Differences that have not lasted. */
  readonly unsettled: number;
}

/** Looks until what was different at first has lasted, or has gone. */
async function once(run: Run): Promise<Result> {
  const settling = new Settling(run.settleMs);
  const startMs = performance.now();
  let unread: readonly string[] | undefined;
  for (;;) {
    const nowMs = performance.now();
    const isOver = nowMs - startMs >= run.settleMs || run.signal.aborted;
    const last = await lookOrWait(run, isOver);
    if (last !== undefined) {
      settling.look(last.differences, nowMs);
      const now = new Set(last.unread);
      unread = (unread ?? last.unread).filter((frontend) => now.has(frontend));
      if (isOver || last.differences.length + unread.length === 0) {
        const { lasting: differences, pending: unsettled } = settling;
        return { ...last, unread, unsettled, differences };
      }
    }
    await pause(run.signal);
  }
}

/** Undefined where kube-proxy has programmed nothing yet, unless that is the last word. */
async function lookOrWait(run: Run, isOver: boolean): Promise<Look | undefined> {
  try {
    return await look(run);
  } catch (error) {
    if (isOver || !(error instanceof NothingProgrammedError)) throw error;
    return undefined;
  }
}

/** Until `signal` aborts. Tells each difference that comes to last, and when it has gone. */
async function watch(run: Run, output: Output): Promise<number> {
  const settling = new Settling(run.settleMs);
  const tell = (event: 'found' | 'gone', difference: Difference): void => {
    const told = { time: new Date().toISOString(), event, ...difference };
    terminal.stdout.write(eventText(told, output));
  };
  while (!run.signal.aborted) {
    const { differences } = (await lookOrWait(run, false)) ?? { differences: [] };
    const { found, gone } = settling.look(differences, performance.now());
    for (const one of found) tell('found', one);
    for (const one of gone) tell('gone', one);
    await pause(run.signal);
  }
  return settling.lasting.length === 0 ? exitCodes.healthy : exitCodes.unhealthy;
}

interface Event extends Difference {
  readonly time: string;
  readonly event: 'found' | 'gone';
}

/** A line; in YAML, a document. */
function eventText(told: Event, output: Output): string {
  switch (output) {
    case 'text':
      return `${told.time} ${told.event === 'gone' ? 'no more: ' : ''}${lineOf(told)}\n`;
    case 'json':
      return `${JSON.stringify(told)}\n`;
    case 'yaml':
      return `---\n${toYAML(told)}`;
  }
}

async function pause(signal: AbortSignal): Promise<void> {
  await sleep(lookAgainMs, undefined, { signal }).catch(() => {});
}

function textOf({ compared, frontends, unread, unsettled, differences }: Result): string {
  const where = compared.map(({ family, mode }) => `${mode} of ${family}`).join(', ');
  const also = unsettled > 0 ? `, ${unsettled} more that have not lasted` : '';
  return [
    ...differences.map(lineOf),
    ...unread.map((frontend) => printable(`not compared: rules of ${frontend} cannot be read`)),
    `Compared ${frontends} frontends with kube-proxy's ${where}: ` +
      `${differences.length} differences${also}`,
    '',
  ].join('\n');
}

function lineOf({ family, service, text, frontends }: Difference): string {
  const whose = service === '' ? family : `${service} (${family})`;
  return printable(`${whose}: ${text} [${frontends.join(', ')}]`);
}
