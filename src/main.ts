/** The process: its command line, and its exit code. */
import { runCommand } from './cli/command.ts';

process.exit(await runCommand(process.argv.slice(2)));
