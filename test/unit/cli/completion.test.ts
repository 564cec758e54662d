import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commandNames, shells } from '../../../src/cli/commands.ts';
import { runCommand } from '../../../src/cli/run-command.ts';
import { Terminal } from '../../../src/cli/terminal.ts';
import { flagKeys, settingTable } from '../../../src/config/settings/index.ts';
import { resources } from '../../../src/state/change.ts';
import { started, web } from '../agent/running.ts';
import { service } from '../state/build.ts';
import { quiet } from '../sync/double.ts';

/** There nothing is skipped. */
const isCI = process.env.CI === 'true';

/** A busy machine takes its time to answer. */
let patienceMs = 60_000;

async function printed(...args: readonly string[]): Promise<string> {
  let stdout = '';
  const sink = (): Terminal => new Terminal(() => ({ write: (text) => (stdout += text) }));
  const io = { stdout: sink(), stderr: sink(), patienceMs };
  expect(await runCommand(args, io)).toBe(0);
  return stdout;
}

/** What is offered for the last word of a line, and the directive. */
async function offers(line: string): Promise<{ words: string[]; directive: string }> {
  const text = await printed('__complete', ...line.split(' ').slice(1));
  const lines = text.trimEnd().split('\n');
  return { words: lines.slice(0, -1).map((one) => one.split('\t')[0]!), directive: lines.at(-1)! };
}

const isValue = ':4';
const isOpen = ':2';

describe('completion', () => {
  it.each([
    ['fairlead ', [...commandNames], isValue],
    ['fairlead pre', ['preflight'], isValue],
    ['fairlead config ', ['validate', 'convert'], isValue],
    ['fairlead svc s', ['show'], isValue],
    ['fairlead config convert --from=o', ['--from=openshift', '--from=ovhcloud'], isValue],
    ['fairlead config convert --from o', ['openshift', 'ovhcloud'], isValue],
    ['fairlead config convert --from ovhcloud ', [], ':0'],
    ['fairlead config validate my', [], ':0'],
    ['fairlead completion ', [...shells], isValue],
    ['fairlead completion zsh ', [], isValue],
    ['fairlead bundle ', [], isValue],
    ['fairlead config validate --', ['--help'], isValue],
    ['fairlead help co', ['config', 'connect-time', 'completion'], isValue],
    ['fairlead help service ', ['list', 'show', 'check'], isValue],
    ['fairlead --proxy-mode=i', ['--proxy-mode=ipvs', '--proxy-mode=iptables'], isValue],
    [
      'fairlead --detect-local-mode ',
      ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'],
      isValue,
    ],
    ['fairlead --proxy-mode i', ['ipvs', 'iptables'], isValue],
    ['fairlead run --logging-format=', ['--logging-format=text', '--logging-format=json'], isValue],
    ['fairlead --config=m', [], ':0'],
    ['fairlead --manifests m', [], ':16'],
    ['fairlead -v ', [], isValue],
    ['fairlead --cleanup --dry', ['--dry-run'], isValue],
    ['fairlead --healthz-b', ['--healthz-bind-address='], isOpen],
    ['fairlead status --wat', ['--watch'], isValue],
    ['fairlead status -o ', ['json', 'wide', 'jsonpath='], isOpen],
    ['fairlead status -o j', ['json', 'jsonpath='], isOpen],
    ['fairlead top --sort=n', ['--sort=name'], isValue],
    ['fairlead explain a:80 --from ', ['pod', 'node', 'outside', 'pod/'], isOpen],
    ['fairlead trace a:80 --from n', ['node'], isValue],
    ['fairlead shadow --set', ['--settle='], isOpen],
    ['fairlead shadow --proxy-mode=u', ['--proxy-mode=userspace'], isValue],
    ['fairlead status -wojson --no', ['--no-headers'], isValue],
    [
      'fairlead top --no-headers -c 1 --sort=',
      ['--sort=connections', '--sort=refusals', '--sort=bytes', '--sort=name'],
      isValue,
    ],
    ['fairlead status --wathc -', [], isValue],
    ['fairlead nothing ', [], isValue],
    ['fairlead service nothing ', [], isValue],
  ])('of %j offers %j', async (line, words, directive) => {
    const found = await offers(line);
    expect(found.words.sort()).toEqual([...words].sort());
    expect(found.directive).toBe(directive);
  });

  it('offers every flag that is not deprecated', async () => {
    const { words } = await offers('fairlead --');
    const current = [...flagKeys].filter(([, key]) => settingTable[key].deprecated === undefined);
    const names = words.map((word) => word.replace(/^--|=$/g, ''));
    expect(names.sort()).toEqual(current.map(([name]) => name).sort());
  });

  it('offers Services, ports and namespaces of the running process', async () => {
    const app = await started('--manifests=/anywhere');
    app.source.say(...web, {
      kind: 'service',
      service: service({ namespace: 'shop', name: 'web', clusterIPs: ['10.96.0.9'] }),
    });
    app.source.listed(...resources);
    await quiet();
    const at = `--server=127.0.0.1:${app.config.metricsBindAddress!.port}`;
    const words = async (line: string) => (await offers(`fairlead ${line}`)).words;
    expect(await words(`service show ${at} `)).toEqual(['ns/web', 'shop/web']);
    expect(await words(`service show ${at} n`)).toEqual(['ns/web']);
    expect(await words(`service show ${at} w`)).toEqual(['web', 'web']);
    expect(await words(`service show ${at} shop/`)).toEqual(['shop/web']);
    expect(await words(`service show ${at} -n shop w`)).toEqual(['web']);
    expect(await offers(`fairlead explain ${at} ns/w`)).toEqual({
      words: ['ns/web:'],
      directive: isOpen,
    });
    expect(await words(`explain ${at} ns/web:`)).toEqual(['ns/web:http']);
    expect(await words(`service list ${at} -n `)).toEqual(['ns', 'shop']);
    await app.stop();
  });

  it('prints nothing if the process does not answer, and does not wait for it', async () => {
    expect((await offers('fairlead service show --server=127.0.0.1:1 ')).words).toEqual([]);
    patienceMs = 10;
    const mute = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => mute.once('listening', resolve));
    const { port } = mute.address() as { port: number };
    expect((await offers(`fairlead service show --server=127.0.0.1:${port} `)).words).toEqual([]);
    mute.close();
    patienceMs = 60_000;
  });
});

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'fairlead-completion-'));
  mkdirSync(join(folder, 'manifests'));
  writeFileSync(join(folder, 'my config.yaml'), '');
  const main = join(process.cwd(), 'src/main.ts');
  const program = `#!/bin/sh\nexec "${process.execPath}" "${main}" "$@"\n`;
  writeFileSync(join(folder, 'fairlead'), program, { mode: 0o755 });
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

function environment() {
  return { ...process.env, HOME: folder, PATH: `${folder}:${process.env.PATH}` };
}

describe('completion in bash', () => {
  /** What a real bash puts in the place of the last word; it splits words at `=` and `:`. */
  async function inBash(line: string): Promise<string[]> {
    const script = `${await printed('completion', 'bash')}
      COMP_LINE=$1 COMP_POINT=\${#1}
      _fairlead
      printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { status, stdout, stderr } = spawnSync(
      'bash',
      ['--norc', '--noprofile', '-uc', script, 'bash', line],
      { encoding: 'utf8', cwd: folder, env: environment() },
    );
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    return stdout.split('\n').filter((word) => word !== '');
  }

  it.each([
    ['fairlead pre', ['preflight']],
    ['fairlead config convert --from=o', ['openshift', 'ovhcloud']],
    ['fairlead config validate my', ['my config.yaml']],
    ['fairlead --config=m', ['manifests', 'my config.yaml']],
    ['fairlead --manifests m', ['manifests']],
    ['fairlead bundle ', []],
  ])('of %j offers %j', async (line, words) => {
    expect((await inBash(line)).sort()).toEqual([...words].sort());
  });
});

describe.each(shells)('the script for %s', (shell) => {
  const { error } = spawnSync(shell, ['--version']);

  it.skipIf(error !== undefined && !isCI)(
    'completion scripts are valid in each shell',
    async () => {
      const path = join(folder, shell);
      writeFileSync(path, await printed('completion', shell));
      const { status, stderr } = spawnSync(shell, ['-n', path], { encoding: 'utf8' });
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    },
  );
});

const { error: noFish } = spawnSync('fish', ['--version']);

describe.skipIf(noFish !== undefined && !isCI)('completion in fish', () => {
  it.each([
    ['fairlead --proxy-mode=i', ['--proxy-mode=iptables', '--proxy-mode=ipvs']],
    ['fairlead prefl', ['preflight']],
    ['fairlead completion ', ['bash', 'fish', 'zsh']],
    ['fairlead --log-flush', ['--log-flush-frequency=']],
    ['fairlead config validate my', ['my config.yaml']],
  ])('of %j offers %j', async (line, expected) => {
    const script = `${await printed('completion', 'fish')}\ncomplete -C '${line}'`;
    const { stdout } = spawnSync('fish', ['--no-config', '-c', script], {
      encoding: 'utf8',
      cwd: folder,
      env: environment(),
    });
    const offered = stdout.split('\n').map((one) => one.split('\t')[0]!);
    expect(offered.filter((word) => word !== '').sort()).toEqual(expected);
  });
});
