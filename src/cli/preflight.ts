/** `fairlead preflight`: whether this node is ready, before anything is installed. */

import { type Finding, worst } from '../host/finding.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import { columnsText } from '../serve/text.ts';
import { thisMachine } from '../tools/preflight/machine.ts';
import { preflight } from '../tools/preflight/preflight.ts';
import type { Run } from './command.ts';
import { exitCodes } from './errors.ts';
import { nodeConfig } from './node-command.ts';
import { writerOf } from './output.ts';

export const run: Run = async (given, { stderr, stdout }) => {
  const write = writerOf(given.values.output);
  const { config, warnings } = nodeConfig(given);
  for (const warning of warnings) stderr.write(`${warning}\n`);
  const kernel = openKernel();
  try {
    const findings = await preflight({ config, kernel, machine: thisMachine() });
    const result = worst(findings);
    stdout.write(write({ result, findings }, () => textOf(findings)));
    return result === 'problem' ? exitCodes.unhealthy : exitCodes.healthy;
  } finally {
    kernel.close();
  }
};

function textOf(findings: readonly Finding[]): string {
  const rows = findings.map(({ check, level, text, advice }) => {
    return [level, check, advice === '' ? text : `${text} → ${advice}`];
  });
  return columnsText(rows);
}
