import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { guestCommand } from '../../vm/guest-command.ts';

describe('the script that the guest runs', () => {
  it("passes the command's words on unchanged, whatever they contain", () => {
    const words = ['printf', '%s\\n', "it's", '$HOME `x` "y"', '', 'a  b\nc'];
    const script = guestCommand({ kind: 'command', words }, 'never').replace(/^cd .*$/m, '');
    expect(execFileSync('sh', ['-c', script], { encoding: 'utf8' })).toBe(
      `it's\n$HOME \`x\` "y"\n\na  b\nc\n`,
    );
  });

  it('runs the suite only after the check of the guest, with the requested filters', () => {
    const script = guestCommand({ kind: 'suite', filters: ['test/lab'] }, 'never');
    expect(script).toMatch(/^node test\/vm\/guest-check\.ts \|\| exit$/m);
    expect(script).toMatch(/^exec 'vitest' 'run' .* 'test\/lab'$/m);
  });

  it('states that tests must not be skipped, and whether colours are used', () => {
    const job = { kind: 'command', words: ['true'] } as const;
    expect(guestCommand(job, 'always')).toMatch(/^export CI=true FORCE_COLOR=1 /m);
    expect(guestCommand(job, 'never')).toMatch(/^export CI=true NO_COLOR=1 /m);
  });
});
