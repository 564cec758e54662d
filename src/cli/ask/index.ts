/** Commands that ask the process of this node, by name. */
import type { AskIo, ExitCode } from './command.ts';
import { runAsk } from './command.ts';
import { statusCommand } from './status.ts';

type Run = (args: readonly string[], io: AskIo) => Promise<ExitCode>;

const runs: Readonly<Record<string, Run>> = {
  status: (args, io) => runAsk('status', statusCommand, args, io),
};

/** `name` is one of `askNames`; `args` is what follows it. */
export function runAskCommand(name: string, args: readonly string[], io: AskIo): Promise<ExitCode> {
  return runs[name]!(args, io);
}
