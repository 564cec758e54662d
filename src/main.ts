/** The process: its command line, and its exit code. */
import { runCommand } from './cli/run-command.ts';
import { allTaken } from './cli/terminal.ts';
import { nameProcess } from './host/process.ts';

nameProcess();
const code = await runCommand(process.argv.slice(2));
await allTaken();
process.exit(code);
