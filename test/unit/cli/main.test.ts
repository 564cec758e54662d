import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { describeError } from '../../../src/cli/errors.ts';
import { KernelError } from '../../../src/kernel/errors.ts';

function fairlead(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['src/main.ts', ...args], {
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

describe('the fairlead command line', () => {
  it('prints its version', () => {
    const { status, stdout, stderr } = fairlead('--version');
    expect(status).toBe(0);
    // As kube-proxy's, of which scripts take the second word.
    expect(stdout).toMatch(/^Kubernetes v1\.\d+\.\d+\n$/);
    expect(stderr).toMatch(/^Fairlead v\d+\.\d+\.\d+\n$/);
  });

  it('accepts the word run, which is the default', () => {
    expect(fairlead('run', '--version')).toEqual(fairlead('--version'));
  });

  it.each([
    [['version'], /^Kubernetes v.*\nFairlead v/],
    [['help'], /\n {2}config validate +Check a configuration file\n/],
    [['--help'], /\n {2}config validate +Check a configuration file\n/],
    [['help', 'flags'], /\n {2}--manifests /],
    [['run', '--help'], /\n {2}--manifests /],
    [['completion', 'fish'], /^# Completes /],
  ])('with %j prints, and does nothing else', (args, text) => {
    const { status, stdout, stderr } = fairlead(...args);
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(text);
  });

  it.each([
    [['confg'], 'unknown command "confg" for "fairlead"; did you mean config?', ''],
    [
      ['run', 'fast'],
      '"fairlead" does not take any arguments, got ["fast"]',
      'commands come first',
    ],
    [['--clutser-cidr=x'], 'unknown flag: --clutser-cidr', 'did you mean --cluster-cidr?'],
    [['--porxy-mode', 'x'], 'unknown flag: --porxy-mode', 'did you mean --proxy-mode?'],
    [['--cleanup=maybe'], 'invalid argument "maybe" for "--cleanup" flag: ', ''],
    [['--init-only', '--dry-run'], '--dry-run is for a start or for --cleanup', ''],
    [['config', 'validate'], 'an argument is missing: FILE', ''],
    [['status', '--porxy-mode=x'], 'unknown flag: --porxy-mode', ''],
    [['preflight', '--porxy-mode=x'], 'unknown flag: --porxy-mode', 'did you mean --proxy-mode?'],
  ])('%j is wrong usage: text also where no terminal is, and code 2', (args, error, hint) => {
    const { status, stdout, stderr } = fairlead(...args);
    expect([status, stdout]).toEqual([2, '']);
    expect(stderr.startsWith(`Error: ${error}`)).toBe(true);
    expect(stderr).toContain(hint);
    expect(stderr).not.toContain('"level"');
  });

  it('reads a configuration from standard input', () => {
    const input = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';
    const args = ['src/main.ts', 'config', 'validate', '-'];
    const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', input });
    expect(stdout).toBe('standard input is valid\n');
  });

  it('has the command config', () => {
    const { status, stderr } = fairlead('config', 'validate', '/nowhere/config.yaml');
    expect(status).toBe(1);
    expect(stderr).toContain('cannot read /nowhere/config.yaml');
  });

  it('writes the default configuration', () => {
    const folder = mkdtempSync(join(tmpdir(), 'fairlead-cli-'));
    const path = join(folder, 'config.yaml');
    expect(fairlead(`--write-config-to=${path}`).status).toBe(0);
    expect(readFileSync(path, 'utf8')).toContain('kind: KubeProxyConfiguration');
    rmSync(folder, { recursive: true });
  });

  it.each([['--logging-format=json'], ['--logging-format=text'], ['--cleanup'], ['--init-only']])(
    'reports each invalid value on its own line, with %s',
    (flag) => {
      const { status, stderr } = fairlead('--proxy-mode=x', '--oom-score-adj=-2000', flag);
      expect(status).toBe(2);
      const lines = stderr.split('\n');
      expect(lines[0]).toMatch(/^Error: failed validate: \[KubeProxyConfiguration\..*\]$/);
      expect(lines.slice(1)).toEqual([
        expect.stringMatching(/^ {2}--oom-score-adj: -2000: /),
        expect.stringMatching(/^ {2}--proxy-mode: "x": /),
        '',
      ]);
    },
  );

  it('reports an invalid configuration file, with code 1', () => {
    const { status, stderr } = fairlead('--config=/nowhere/config.yaml');
    expect(status).toBe(1);
    expect(stderr).toMatch(/^Error: failed complete: cannot be read: .*\n {2}in \/nowhere\/config/);
  });

  it('reports in one line that a file cannot be written', () => {
    const { status, stderr } = fairlead('--write-config-to=/nowhere/config.yaml');
    expect(status).toBe(1);
    expect(stderr).toBe(
      "fairlead: ENOENT: no such file or directory, open '/nowhere/config.yaml'\n",
    );
  });
});

describe('an error that ends the program', () => {
  const kernelError = (code: string): KernelError =>
    new KernelError({ operation: 'nft.apply', subject: 'nf_tables', code, words: 'no' });

  it.each([
    [kernelError('EPERM'), /^CAP_NET_ADMIN is needed: run as root or add the capability \(/],
    [kernelError('EACCES'), /^CAP_NET_ADMIN is needed/],
    [kernelError('EPROTONOSUPPORT'), /^this kernel has no nf_tables: load module nf_tables/],
    [kernelError('EINVAL'), /^nft\.apply nf_tables: no \(EINVAL\)$/],
    [new Error('first\n  second\n'), /^first second$/],
    ['thrown text', /^thrown text$/],
  ])('is printed in one line: %s', (error, text) => {
    expect(describeError(error)).toMatch(text);
  });
});
