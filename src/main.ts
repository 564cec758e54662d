/** The process: its command line, and its exit code. */
import { runCommand } from './cli/run-command.ts';
import { allTaken } from './cli/terminal.ts';
import { nameProcess } from './host/process.ts';

const [, script = '', ...args] = process.argv;
nameProcess(script, args);
const code = await runCommand(args);
await allTaken();
process.exit(code);
