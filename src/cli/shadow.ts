/** `fairlead shadow`: what Fairlead would do differently from the kube-proxy that runs here. */
import { setTimeout as sleep } from 'node:timers/promises';
import { hostFiles } from '../host/files.ts';
import { availableFamilies } from '../host/interfaces.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import type { Family } from '../net/address.ts';
import { printable } from '../serve/printable.ts';
import type { ShadowCluster } from '../tools/shadow/cluster.ts';
import { type Difference, Settling } from '../tools/shadow/compare.ts';
import { type Look, look, NothingProgrammedError } from '../tools/shadow/shadow.ts';
import type { Io, Run as RunCommand } from './command.ts';
import { exitCodes, UsageError } from './errors.ts';
import { durationMs } from './flags.ts';
import { nodeConfig } from './node-command.ts';
import { openCluster } from './open-cluster.ts';
import { type Writer, writerOf } from './output.ts';
import { whileRead } from './reader.ts';

const settleDefault = '10s';
const lookAgainMs = 1000;

export const run: RunCommand = async (given, io) => {
  const { output, settle = settleDefault, watch: isWatching } = given.values;
  const settleMs = durationMs('settle', settle);
  if (settleMs < 0) throw new UsageError(`--settle "${settle}" is below 0`);
  const { config, warnings } = nodeConfig(given);
  for (const warning of warnings) io.stderr.write(`${warning}\n`);
  const write = await writerOf(output);
  const ending = new AbortController();
  process.once('SIGINT', () => ending.abort());
  process.once('SIGTERM', () => ending.abort());
  const { cluster, close } = await openCluster(config, { name: 'nftables' });
  const kernel = openKernel();
  const families = availableFamilies(hostFiles());
  const run = { kernel, cluster, families, settleMs, signal: ending.signal };
  try {
    if (isWatching) {
      return await whileRead(io, 'shadow', (reader) => {
        reader.signal.addEventListener('abort', () => ending.abort());
        return watch(run, io, output, write);
      });
    }
    const found = await once(run);
    const { differences, unread } = found;
    io.stdout.write(write(found, () => textOf(found)));
    return differences.length + unread.length === 0 ? exitCodes.healthy : exitCodes.unhealthy;
  } finally {
    kernel.close();
    await close();
  }
};

interface Run {
  readonly kernel: Kernel;
  readonly cluster: ShadowCluster;
  readonly families: readonly Family[];
  readonly settleMs: number;
  readonly signal: AbortSignal;
}

/** Differences that have lasted. */
interface Result extends Look {
  /** Differences that have not lasted. */
  readonly unsettled: number;
}

/** Compares until each of the first differences has lasted, or has gone. */
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

/** Undefined while kube-proxy has programmed nothing, unless this is the last attempt. */
async function lookOrWait(run: Run, isOver: boolean): Promise<Look | undefined> {
  try {
    return await look(run);
  } catch (error) {
    if (isOver || !(error instanceof NothingProgrammedError)) throw error;
    return undefined;
  }
}

/** Until `signal` aborts. Prints each difference when it has lasted, and when it has gone. */
async function watch(
  run: Run,
  { stdout }: Io,
  output: string | undefined,
  write: Writer,
): Promise<number> {
  const settling = new Settling(run.settleMs);
  const print = (event: 'found' | 'gone', difference: Difference): void => {
    const reported: Event = { time: new Date().toISOString(), event, ...difference };
    // A YAML document, or a line in the other formats.
    if (output === 'json') stdout.write(`${JSON.stringify(reported)}\n`);
    else {
      const text = write(reported, () => lineOfEvent(reported));
      stdout.write((output === 'yaml' ? '---\n' : '') + text);
    }
  };
  while (!run.signal.aborted) {
    const { differences } = (await lookOrWait(run, false)) ?? { differences: [] };
    const { found, gone } = settling.look(differences, performance.now());
    for (const one of found) print('found', one);
    for (const one of gone) print('gone', one);
    await pause(run.signal);
  }
  return settling.lasting.length === 0 ? exitCodes.healthy : exitCodes.unhealthy;
}

interface Event extends Difference {
  readonly time: string;
  readonly event: 'found' | 'gone';
}

function lineOfEvent(reported: Event): string {
  const { event, time } = reported;
  return `${time} ${event === 'gone' ? 'no more: ' : ''}${lineOf(reported)}\n`;
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
