/** `fairlead shadow`: what Fairlead would do differently from the kube-proxy that runs here. */
import { setTimeout as sleep } from 'node:timers/promises';
import { hostFiles } from '../host/files.ts';
import { availableFamilies } from '../host/interfaces.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import { printable } from '../serve/printable.ts';
import type { Difference } from '../tools/shadow/compare.ts';
import { type Look, lastingOf, look, NothingProgrammedError } from '../tools/shadow/shadow.ts';
import type { Run } from './command.ts';
import { exitCodes, UsageError } from './errors.ts';
import { durationMs } from './flags.ts';
import { nodeConfig } from './node-command.ts';
import { openCluster } from './open-cluster.ts';
import { writerOf } from './output.ts';

export const settleDefault = '10s';
const lookAgainMs = 1000;

export const run: Run = async (given, io) => {
  const { output, settle = settleDefault } = given.values;
  const settleMs = durationMs('settle', settle);
  if (settleMs < 0) throw new UsageError(`--settle "${settle}" is below 0`);
  const { config, warnings } = nodeConfig(given);
  for (const warning of warnings) io.stderr.write(`${warning}\n`);
  const write = writerOf(output);
  const { cluster, close } = await openCluster(config, { name: 'nftables' });
  const kernel = openKernel();
  try {
    const families = availableFamilies(hostFiles());
    const found = await settled({ kernel, cluster, families }, settleMs);
    io.stdout.write(write(found, () => textOf(found)));
    const isSame = found.differences.length + found.unread.length === 0;
    return isSame ? exitCodes.healthy : exitCodes.unhealthy;
  } finally {
    kernel.close();
    await close();
  }
};

/** Differences that have lasted. */
interface Result extends Look {
  /** Differences that have not lasted. */
  readonly unsettled: number;
}

/** Compares until each of the first differences has lasted, or has gone. */
async function settled(at: Parameters<typeof look>[0], settleMs: number): Promise<Result> {
  const endMs = performance.now() + settleMs;
  let before: Look | undefined;
  for (;;) {
    const isOver = performance.now() >= endMs;
    try {
      const last = await look(at);
      before = lastingOf(before, last);
      const { differences, unread } = before;
      const unsettled = last.differences.length - differences.length;
      if (isOver || differences.length + unread.length === 0) return { ...before, unsettled };
    } catch (error) {
      // kube-proxy may have programmed nothing yet.
      if (isOver || !(error instanceof NothingProgrammedError)) throw error;
    }
    await sleep(lookAgainMs);
  }
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
