/** The command line: which command, and its exit code. */
import { readFile } from 'node:fs/promises';

const [command, ...rest] = process.argv.slice(2);

/** Commands are loaded when they are asked for: the proxy does not carry the others. */
async function main(): Promise<number> {
  switch (command) {
    case 'config': {
      const { runConfigCommand } = await import('./cli/config.ts');
      return runConfigCommand(rest, { stdout: process.stdout, stderr: process.stderr, readFile });
    }
    case 'demo': {
      const { runDemo } = await import('./cli/demo/demo.ts');
      return runDemo(rest);
    }
    default: {
      const { run } = await import('./cli/run.ts');
      return run(command === 'run' ? rest : process.argv.slice(2));
    }
  }
}

process.exit(await main());
