import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { pages } from '../../../scripts/docs.ts';
import { commands } from '../../../src/cli/commands.ts';
import { runCommand } from '../../../src/cli/run-command.ts';
import { Terminal } from '../../../src/cli/terminal.ts';
import { fairleadVersion } from '../../../src/config/version.ts';
import { importSources } from '../../../src/tools/import/index.ts';
import { bytes, header } from './support.ts';

async function run(args: readonly string[], files: Readonly<Record<string, string>> = {}) {
  let stdout = '';
  let stderr = '';
  const exitCode = await runCommand(['config', ...args], {
    stdout: new Terminal(() => ({ write: (text) => (stdout += text) })),
    stderr: new Terminal(() => ({ write: (text) => (stderr += text) })),
    readFile: async (path) => {
      const text = files[path];
      if (text === undefined) throw new Error(`ENOENT: no such file or directory, open '${path}'`);
      return bytes(text);
    },
    readStdin: async () => bytes(files['-'] ?? ''),
  });
  return { exitCode, stdout, stderr };
}

describe('fairlead config', () => {
  test('convert prints the file to stdout and what happened to each field to stderr', async () => {
    const files = { 'a.json': '{"kubeProxy": {"ipvs": {"scheduler": "sh"}}}' };
    const expected = {
      exitCode: 0,
      stdout:
        'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nipvs:\n  scheduler: sh\n' +
        'kind: KubeProxyConfiguration\n',
      stderr:
        'kubeProxy.ipvs.scheduler: became ipvs.scheduler: sh\n' +
        'kubeProxy.iptables: not given: its fields have their defaults\n' +
        'kubeProxyMode: not given: the best mode that the kernel can do; in a cluster created ' +
        'without it kube-proxy ran in mode iptables, after a reset without it in mode ipvs\n',
    };
    expect(await run(['convert', '--from', 'ovhcloud', 'a.json'], files)).toEqual(expected);
    expect(await run(['convert', 'a.json', '--from=ovhcloud'], files)).toEqual(expected);
  });

  test('convert prints no file if there is an error', async () => {
    const result = await run(['convert', '--from', 'flags', 'f'], { f: '--foo' });
    expect(result).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'error: flags: unknown flag: --foo\n',
    });
  });

  test('validate reports whether a file is valid', async () => {
    const files = { good: `${header}mode: nftables\n`, bad: `${header}mode: x\n` };
    expect(await run(['validate', 'good'], files)).toEqual({
      exitCode: 0,
      stdout: 'good is valid\n',
      stderr: '',
    });
    const bad = await run(['validate', 'bad'], files);
    expect(bad).toMatchObject({ exitCode: 1, stdout: '' });
    expect(bad.stderr).toContain('\n  mode (line 3): "x": must be ');
  });

  test('validate prints warnings with errors, each of them once', async () => {
    const file =
      `${header}minsyncPeriod: 1s\nmode: x\nmode: z\noomScoreAdj: 2000\n` +
      'winkernel: {enableDSR: true}\nfeatureGates: {NFTablesNetlink: false}\n';
    expect((await run(['validate', 'bad'], { bad: file })).stderr.split('\n')).toEqual([
      'Using lenient decoding as strict decoding failed: unknown fields, ignored: ' +
        'minsyncPeriod (line 3)',
      'Using lenient decoding as strict decoding failed: fields given twice (the last one ' +
        'counts): mode (line 5)',
      'Feature gate NFTablesNetlink is new in Kubernetes 1.37; kube-proxy 1.36 does not know it.',
      'winkernel.enableDSR is for Windows nodes and has no effect here',
      'Error: bad is not valid',
      '  oomScoreAdj (line 6): 2000: must be within the range [-1000, 1000]',
      expect.stringMatching(/^ {2}mode \(line 5\): "z": must be /),
      '',
    ]);
    const unreadable = `${header}minsyncPeriod: 1s\nmode: 1\n`;
    expect((await run(['validate', 'bad'], { bad: unreadable })).stderr.split('\n')).toEqual([
      expect.stringMatching(/: unknown fields, ignored: minsyncPeriod /),
      'Error: bad is not valid',
      '  mode (line 4): must be a string, not the number 1; put quotes around it',
      '',
    ]);
    expect((await run(['validate', 'bad'], { bad: `${header}mode: [a\n` })).stderr).toMatch(
      /^Error: bad is not valid\n {2}\(line \d\): yaml: .*[^:] ?\n$/,
    );
  });

  test('validate gives advice on the mode', async () => {
    const noted = async (file: string) => {
      const { exitCode, stderr } = await run(['validate', 'a'], { a: `${header}${file}` });
      expect(exitCode).toBe(0);
      return stderr;
    };
    expect(await noted('mode: ""\n')).toMatch(/^mode empty runs mode nftables .*\n.*127\.0\.0\.1/);
    expect(await noted('mode: nftables\n')).toBe('');
    expect(await noted('mode: iptables\n')).toMatch(/^mode iptables is asked for; .*: consider /);
    expect(await noted('mode: ipvs\nipvs: {strictARP: true}\n')).toMatch(
      /^mode ipvs stays in Fairlead; .* gone in 1.43: docs\/from-ipvs.md .*\n$/,
    );
  });

  test('reads standard input for -', async () => {
    expect(await run(['validate', '-'], { '-': header })).toMatchObject({
      exitCode: 0,
      stdout: 'standard input is valid\n',
    });
    const flags = await run(['convert', '--from', 'flags', '-'], { '-': '--v=2' });
    expect(flags.stdout).toContain('verbosity: 2\n');
  });

  const configMap = (data: string): string =>
    `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-proxy, namespace: kube-system}\ndata:\n${data}`;
  const indented = header.replaceAll(/^/gm, '    ').trimEnd();

  test('accepts a whole ConfigMap, and reports its line numbers', async () => {
    const kubeconfig = '  kubeconfig.conf: |-\n    apiVersion: v1\n    kind: Config\n';
    const good = configMap(`${kubeconfig}  config.conf: |-\n${indented}\n`);
    expect(await run(['validate', 'map'], { map: good })).toEqual({
      exitCode: 0,
      stdout: 'config.conf of ConfigMap kube-system/kube-proxy, in map, is valid\n',
      stderr: expect.stringMatching(/^mode empty runs mode nftables /),
    });
    const bad = await run(['validate', 'map'], { map: `${good}    mode: x\n` });
    expect(bad.exitCode).toBe(1);
    expect(bad.stderr).toContain('\n  mode (line 11): "x": must be ');
    const json = JSON.stringify({ kind: 'ConfigMap', data: { other: `${header}mode: x\n` } });
    expect((await run(['validate', 'map'], { map: json })).stderr).toContain(
      '\n  mode (line 3): "x": must be ',
    );
  });

  test.each([
    [
      '  a: b\n',
      'there is no KubeProxyConfiguration in the file: it has ConfigMap kube-system/kube-proxy',
    ],
    [
      `  a: |\n${indented}\n  b: |\n${indented}\n`,
      'the file has 2 of kind KubeProxyConfiguration: a of ConfigMap kube-system/kube-proxy; ' +
        'b of ConfigMap kube-system/kube-proxy; give one',
    ],
  ])('a ConfigMap without one configuration is refused: %j', async (data, reason) => {
    expect(await run(['validate', 'map'], { map: configMap(data) })).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: `Error: ${reason}\n`,
    });
  });

  test('names a file that cannot be read', async () => {
    expect(await run(['validate', 'gone'])).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: "Error: cannot read gone: ENOENT: no such file or directory, open 'gone'\n",
    });
  });

  const fromForms = `must be one of ${importSources.join(', ')}`;

  test.each([
    [[], 'fairlead config needs a command: validate or convert', 'config'],
    [['show'], 'unknown command "show" for "fairlead config"', 'config'],
    [
      ['validat'],
      'unknown command "validat" for "fairlead config"; did you mean validate?',
      'config',
    ],
    [['convert', 'f'], '--from is missing', 'config convert'],
    [
      ['convert', '--from', 'helm', 'f'],
      `invalid argument "helm" for "--from" flag: ${fromForms}`,
      'config convert',
    ],
    [
      ['convert', '--from', 'openshit', 'f'],
      `invalid argument "openshit" for "--from" flag: ${fromForms}; did you mean openshift?`,
      'config convert',
    ],
    [
      ['convert', '--from', 'flags'],
      `an argument is missing: --from ${importSources.join('|')} FILE`,
      'config convert',
    ],
    [['validate'], 'an argument is missing: FILE', 'config validate'],
    [['validate', 'a', 'b'], 'unexpected argument "b"', 'config validate'],
    [['validate', '--strict'], 'unknown flag: --strict', 'config validate'],
    [['convert', '--from', 'flags', 'f', '--to=g'], 'unknown flag: --to', 'config convert'],
  ])('%j is wrong usage', async (args, reason, command) => {
    expect(await run(args)).toEqual({
      exitCode: 2,
      stdout: '',
      stderr: `Error: ${reason}\nSee 'fairlead ${command} --help'\n`,
    });
  });

  test('lists every source that convert accepts in its table', () => {
    const convert = commands.find(({ words }) => words.join(' ') === 'config convert')!;
    expect(convert.flags?.from?.values).toEqual(importSources);
  });
});

describe('the generated documents', () => {
  const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

  test.each(Object.entries(pages))('%s is what the tables say', (path, make) => {
    expect(read(path)).toBe(make());
  });

  const { error: noGroff } = spawnSync('groff', ['--version']);

  test.skipIf(noGroff !== undefined && process.env.CI !== 'true')(
    'have a manual page that is valid roff',
    () => {
      const args = ['-man', '-ww', '-z', '-Tutf8', '-Kutf8', 'docs/fairlead.8'];
      const { status, stderr } = spawnSync('groff', args, { encoding: 'utf8' });
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    },
  );

  test('have the package’s version', () => {
    const { version } = JSON.parse(read('package.json')) as { version: string };
    expect(fairleadVersion).toBe(`v${version}`);
  });
});
