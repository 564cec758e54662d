/** `fairlead preflight`: whether this node is ready, told before anything is installed. */
import { openKernel } from '../kernel/native-kernel.ts';
import { type Finding, worst } from '../preflight/finding.ts';
import { thisMachine } from '../preflight/machine.ts';
import { preflight } from '../preflight/preflight.ts';
import { exitCodes } from './exit-codes.ts';
import { runOnNode } from './node-command.ts';
import { columns, formatOutput } from './output.ts';
import { terminal } from './terminal.ts';

/** `args` is what follows the word `preflight`. Resolves to the exit code. */
export function runPreflight(args: readonly string[]): Promise<number> {
  return runOnNode('preflight', args, async ({ config, warnings, output }) => {
    for (const warning of warnings) terminal.stderr.write(`${warning}\n`);
    const kernel = openKernel();
    try {
      const findings = await preflight({ config, kernel, machine: thisMachine() });
      const result = worst(findings);
      terminal.stdout.write(formatOutput(output, { result, findings }, () => textOf(findings)));
      return result === 'problem' ? exitCodes.unhealthy : exitCodes.healthy;
    } finally {
      kernel.close();
    }
  });
}

function textOf(findings: readonly Finding[]): string {
  const rows = findings.map(({ check, level, text, advice }) => {
    return [level, check, advice === '' ? text : `${text} → ${advice}`];
  });
  return columns(rows);
}
