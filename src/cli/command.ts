/** Which command is asked for, and its arguments. */
import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { isatty } from 'node:tty';
import { askNames, commandNames, type Shell, shells, usage } from '../config/commands.ts';
import { helpText } from '../config/help.ts';
import { nearest } from '../config/spelling.ts';
import { versionText } from '../config/version.ts';
import { exitCodes } from './exit-codes.ts';
import { terminal } from './terminal.ts';

/** Resolves to the exit code. Commands are loaded when they are asked for. */
export async function runCommand(args: readonly string[]): Promise<number> {
  if (args.length === 0 && isTrial()) return help([]);
  const [command = 'run', ...rest] = args;
  const asksForHelp = rest.some((word) => word === '-h' || word === '--help');
  if (command !== 'run' && commandNames.includes(command) && asksForHelp) {
    return print(usage(command));
  }
  switch (command) {
    case 'config': {
      const { runConfigCommand } = await import('./config.ts');
      const readStdin = (): Promise<Uint8Array> => buffer(process.stdin);
      return runConfigCommand(rest, { ...terminal, readFile, readStdin });
    }
    case 'demo': {
      const { onStage, runDemo } = await import('./demo/demo.ts');
      const isOnStage = rest.length === 1 && rest[0] === onStage;
      if (!isOnStage && rest.length > 0) return refuse(command, rest);
      return runDemo(isOnStage ? 'on stage' : 'before');
    }
    case 'preflight': {
      const { runPreflight } = await import('./preflight.ts');
      return runPreflight(rest);
    }
    case 'shadow': {
      const { runShadow } = await import('./shadow.ts');
      return runShadow(rest);
    }
    case 'completion': {
      const [shell, ...more] = rest;
      if (!isShell(shell) || more.length > 0) return refuse(command, rest);
      const { completion } = await import('./completion/index.ts');
      return print(completion(shell));
    }
    case 'version':
      return rest.length === 0 ? print(versionText) : refuse(command, rest);
    case 'help':
      return help(rest);
    default: {
      if (askNames.includes(command)) {
        const { runAskCommand } = await import('./ask/index.ts');
        return runAskCommand(command, rest, terminal);
      }
      const { run } = await import('./run.ts');
      return run(command === 'run' ? args.slice(args[0] === 'run' ? 1 : 0) : args);
    }
  }
}

/** Somebody at a terminal sees what happens, outside of any cluster. */
function isTrial(): boolean {
  // Not `process.stderr.isTTY`: that makes a pipe non-blocking, which others share.
  return isatty(1) && isatty(2) && (process.env.KUBERNETES_SERVICE_HOST ?? '') === '';
}

function help(args: readonly string[]): number {
  const [about, ...more] = args;
  if (about === undefined || (about === 'run' && more.length === 0)) return print(helpText());
  if (more.length > 0 || !commandNames.includes(about)) return refuse('help', args);
  return print(usage(about));
}

function isShell(word: string | undefined): word is Shell {
  return (shells as readonly (string | undefined)[]).includes(word);
}

function print(text: string): number {
  terminal.stdout.write(text);
  return 0;
}

/** Says which arguments there are, and which of `args` is none. */
function refuse(command: string, args: readonly string[]): number {
  const known = command === 'help' ? commandNames : command === 'completion' ? shells : [];
  const wrong = args.find((word, index) => index > 0 || !known.includes(word));
  const guess = wrong === undefined ? undefined : nearest(wrong, known);
  const hint = guess === undefined ? '' : `, did you mean ${guess}?`;
  const reason = wrong === undefined ? 'an argument is missing' : `unknown argument "${wrong}"`;
  terminal.stderr.write(`${usage(command)}\nError: ${reason}${hint}\n`);
  return exitCodes.usage;
}
