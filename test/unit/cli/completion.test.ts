import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { completion } from '../../../src/cli/completion/index.ts';
import { commandNames } from '../../../src/config/commands.ts';
import { flagKeys, settingTable } from '../../../src/config/settings/index.ts';

/** There nothing is skipped. */
const isCI = process.env.CI === 'true';

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'fairlead-completion-'));
  mkdirSync(join(folder, 'manifests'));
  writeFileSync(join(folder, 'my config.yaml'), '');
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** What a real bash offers for the last word, which may be empty; it splits words at `=`. */
function offers(line: string): string[] {
  const words = line.split(/ |(=)/).filter((word) => word !== undefined);
  // Between a blank and `=` nothing stands, but at the end an empty word is being typed.
  const typed = words.filter((word, i) => word !== '' || i === words.length - 1);
  const atEquals = typed.at(-1) === '' && typed.at(-2) === '=' ? typed.slice(0, -1) : typed;
  const script = `${completion('bash')}
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _fairlead
    printf '%s\\n' "\${COMPREPLY[@]}"`;
  const args = ['--norc', '--noprofile', '-uc', script, 'bash', ...atEquals];
  const { status, stdout, stderr } = spawnSync('bash', args, { encoding: 'utf8', cwd: folder });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return stdout.split('\n').filter((word) => word !== '');
}

describe('in bash', () => {
  it.each([
    ['fairlead ', [...commandNames]],
    ['fairlead de', ['demo']],
    ['fairlead config', ['config']],
    ['fairlead config ', ['validate', 'convert', '--help']],
    ['fairlead config convert --from=o', ['openshift', 'ovhcloud']],
    ['fairlead config convert --from=ovhcloud my', ['my config.yaml']],
    ['fairlead config validate my', ['my config.yaml']],
    ['fairlead completion ', ['bash', 'zsh', 'fish', '--help']],
    ['fairlead completion zsh ', []],
    ['fairlead demo ', ['--help']],
    ['fairlead help co', ['config', 'connect-time', 'completion']],
    ['fairlead --proxy-mode=', ['nftables', 'ipvs', 'iptables', 'userspace']],
    ['fairlead --proxy-mode=i', ['ipvs', 'iptables']],
    ['fairlead --proxy-mode i', ['ipvs', 'iptables']],
    ['fairlead run --logging-format=', ['text', 'json']],
    ['fairlead --config=m', ['manifests', 'my config.yaml']],
    ['fairlead --manifests m', ['manifests']],
    ['fairlead --cluster-cidr=', []],
    ['fairlead -v ', []],
    ['fairlead --cleanup --dry', ['--dry-run']],
    ['fairlead --healthz-', ['--healthz-bind-address=']],
  ])('%j offers %j', (line, expected) => {
    expect(offers(line).sort()).toEqual([...expected].sort());
  });

  it('offers every flag that is not deprecated', () => {
    const offered = offers('fairlead --').map((word) => word.replace(/^--|=$/g, ''));
    const current = [...flagKeys].filter(([, key]) => settingTable[key].deprecated === undefined);
    expect(offered.sort()).toEqual(current.map(([name]) => name).sort());
  });
});

describe.each(['bash', 'zsh', 'fish'] as const)('the script for %s', (shell) => {
  const { error } = spawnSync(shell, ['--version']);

  it.skipIf(error !== undefined && !isCI)('can be read by that shell', () => {
    const path = join(folder, shell);
    writeFileSync(path, completion(shell));
    const { status, stderr } = spawnSync(shell, ['-n', path], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });
});

const { error: noFish } = spawnSync('fish', ['--version']);

describe.skipIf(noFish !== undefined && !isCI)('in fish', () => {
  it.each([
    ['fairlead --proxy-mode=i', ['--proxy-mode=iptables', '--proxy-mode=ipvs']],
    ['fairlead dem', ['demo']],
    ['fairlead completion ', ['bash', 'fish', 'zsh']],
    ['fairlead --log-flush', ['--log-flush-frequency']],
  ])('%j offers %j', (line, expected) => {
    const script = `${completion('fish')}\ncomplete -C '${line}'`;
    const { stdout } = spawnSync('fish', ['--no-config', '-c', script], {
      encoding: 'utf8',
      env: { ...process.env, HOME: folder },
    });
    const offered = stdout.split('\n').map((one) => one.split('\t')[0]!);
    expect(offered.filter((word) => word !== '').sort()).toEqual(expected);
  });
});
