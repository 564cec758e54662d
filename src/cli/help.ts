/** The help of the program and of each command, from the table of commands. */
import { wrap } from '../config/help.ts';
import {
  type Command,
  type CommandFlag,
  type CommandGroup,
  commandGroups,
  fullName,
} from './command.ts';
import { shownCommands } from './commands.ts';

const introduction = `fairlead is a service proxy for Kubernetes nodes. It takes kube-proxy's flags and configuration.
`;

const indent = ' '.repeat(10);

/**
 * The help of the command with the name `words`, of all that begin with them, or of the program.
 */
export async function helpOf(words: readonly string[]): Promise<string> {
  if (words.length === 0) return overview();
  const found = shownCommands.filter((one) => words.every((word, i) => one.words[i] === word));
  const [only] = found;
  if (only !== undefined && found.length === 1) return helpOfCommand(only);
  const lines = found.map((one) => `  ${usageOf(one)}\n${wrap(one.summary, indent)}\n`);
  return `Usage:\n${lines.join('')}
See 'fairlead ${words.join(' ')} COMMAND --help' for the flags of a command.
`;
}

/** All commands, one line each. */
function overview(): string {
  const width = Math.max(...shownCommands.map(({ words }) => words.join(' ').length));
  const groups = (Object.keys(commandGroups) as CommandGroup[]).map((group) => {
    const lines = shownCommands
      .filter((command) => command.group === group)
      .map(({ summary, words }) => `  ${words.join(' ').padEnd(width)}  ${summary}\n`);
    return `\n${commandGroups[group]}:\n${lines.join('')}`;
  });
  return `${introduction}
Usage:
  fairlead COMMAND [flags]
  fairlead [run] [flags of kube-proxy]
${groups.join('')}
See 'fairlead COMMAND --help' for a command, 'fairlead help flags' for the flags of fairlead run.
Exit codes: 0 success, 1 a problem, 2 wrong usage, 3 the process is not reachable.
`;
}

async function helpOfCommand(command: Command): Promise<string> {
  const { examples, exitCodes, meaning = command.summary, takesRunFlags } = command;
  const flags = Object.entries(command.flags ?? {}).map(
    ([name, flag]) => `  ${flagHeading(name, flag)}\n${wrap(flag.meaning, indent)}\n`,
  );
  const parts = [
    `${wrap(`${meaning}`, '')}\n`,
    `Usage:\n  ${usageOf(command)}\n`,
    aliasesText(command),
    examples.length > 0 ? `Examples:\n${examples.map((line) => `  ${line}\n`).join('')}` : '',
    flags.length > 0 ? `Flags:\n${flags.join('')}` : '',
    exitCodes === undefined ? '' : `Exit codes: ${exitCodes}.\n`,
    takesRunFlags ? await runFlags(command) : '',
  ];
  return parts.filter((part) => part !== '').join('\n');
}

async function runFlags({ words }: Command): Promise<string> {
  if (words[0] !== 'run') return "Also takes the flags of fairlead run: 'fairlead help flags'.\n";
  const { flagsText } = await import('../config/help.ts');
  return flagsText();
}

/** `fairlead service list [NAME] [flags]`. */
export function usageOf(command: Command): string {
  const hasFlags = command.takesRunFlags || Object.keys(command.flags ?? {}).length > 0;
  const parts = [fullName(command), command.arguments ?? '', hasFlags ? '[flags]' : ''];
  return parts.filter((part) => part !== '').join(' ');
}

function aliasesText({ aliases = [], words }: Command): string {
  const lines = aliases.flatMap((others, i) =>
    others.length === 0 ? [] : [`  ${words[i]}: ${others.join(', ')}\n`],
  );
  return lines.length === 0 ? '' : `Aliases:\n${lines.join('')}`;
}

/** `-o, --output json|yaml|wide`. */
export function flagHeading(name: string, { letter, shown }: CommandFlag): string {
  return `${letter === undefined ? '' : `-${letter}, `}--${name} ${shown}`.trimEnd();
}
