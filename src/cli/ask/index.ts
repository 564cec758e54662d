/** The commands that ask the process of this node, or the node itself, by their names. */
import { usage } from '../../config/commands.ts';
import { runConnectTime } from '../connect-time.ts';
import { type ExitCode, exitCodes } from '../exit-codes.ts';
import { type AskIo, runAsk } from './command.ts';
import { diffCommand } from './diff.ts';
import { explainCommand } from './explain.ts';
import { problemsCommand } from './problems.ts';
import { listCommand } from './service-list.ts';
import { showCommand } from './service-show.ts';
import { statusCommand } from './status.ts';
import { runTop } from './top.ts';
import { runTrace } from './trace.ts';

type Run = (args: readonly string[], io: AskIo) => Promise<ExitCode>;

const runs: Readonly<Record<string, Run>> = {
  status: (args, io) => runAsk('status', statusCommand, args, io),
  service: runService,
  problems: (args, io) => runAsk('problems', problemsCommand, args, io),
  diff: (args, io) => runAsk('diff', diffCommand, args, io),
  top: runTop,
  trace: runTrace,
  'connect-time': runConnectTime,
  explain: (args, io) => runAsk('explain', explainCommand, args, io),
};

/** `name` is one of `askNames`; `args` is what follows it. */
export function runAskCommand(name: string, args: readonly string[], io: AskIo): Promise<ExitCode> {
  return runs[name]!(args, io);
}

async function runService([verb, ...rest]: readonly string[], io: AskIo): Promise<ExitCode> {
  if (verb === 'list') return runAsk('service', listCommand, rest, io);
  if (verb === 'show') return runAsk('service', showCommand, rest, io);
  const reason = verb === undefined ? 'list or show?' : `unknown argument "${verb}": list or show`;
  io.stderr.write(`${usage('service')}\nError: ${reason}\n`);
  return exitCodes.usage;
}
