import { describe, expect, test } from 'vitest';
import { parseFlags } from '../../../src/config/flags.ts';
import { flagsText } from '../../../src/config/help.ts';
import { configOf, errorOf, load, running } from './support.ts';

function failureOf(...argv: string[]): string {
  const result = parseFlags(argv);
  return result.ok ? 'no error' : result.error;
}

describe('the parser of flags', () => {
  test.each([
    [['--foo'], 'unknown flag: --foo'],
    [['--foo_bar=1'], 'unknown flag: --foo_bar'],
    [['--config'], 'flag needs an argument: --config'],
    [['-v'], "flag needs an argument: 'v' in -v"],
    [['-hv'], "flag needs an argument: 'v' in -v"],
    [['-x'], "unknown shorthand flag: 'x' in -x"],
    [['-hx3'], "unknown shorthand flag: 'x' in -x3"],
    [['--=x'], 'bad flag syntax: --=x'],
    [['---config'], 'bad flag syntax: ---config'],
    [
      ['--vmodule==2'],
      'invalid argument "=2" for "--vmodule" flag: "=2" does not have the pattern=N format',
    ],
    [
      ['--healthz-bind-address=10.0.0.1:65536'],
      'invalid argument "10.0.0.1:65536" for "--healthz-bind-address" flag: "65536" is not a valid number',
    ],
    [
      ['-v=a'],
      'invalid argument "a" for "-v, --v" flag: strconv.ParseUint: parsing "a": invalid syntax',
    ],
    [
      ['--iptables-sync-period=PT30S'],
      'invalid argument "PT30S" for "--iptables-sync-period" flag: time: invalid duration "PT30S"',
    ],
    [
      ['--cleanup=\u0001"'],
      'invalid argument "\\x01\\"" for "--cleanup" flag: strconv.ParseBool: parsing "\\x01\\"": invalid syntax',
    ],
  ])('%j is an error', (argv, error) => {
    expect(failureOf(...argv)).toBe(error);
  });

  test.each([['-v4'], ['-v=4'], ['-v', '4'], ['--v=4'], ['--v', '4']])(
    'reads the verbosity from %s %s',
    (...argv) => {
      const flags = parseFlags(argv.filter((word) => word !== undefined));
      expect(flags.ok && flags.value('logging.verbosity')).toBe(4);
    },
  );

  test('does not use the next word as the value of a boolean', () => {
    const flags = parseFlags(['--cleanup', 'false']);
    expect(flags.ok && [flags.value('--cleanup'), flags.words]).toEqual([true, ['false']]);
  });

  test('treats words after -- as arguments', () => {
    const flags = parseFlags(['--v=1', 'a', '--', '--v=2']);
    expect(flags.ok && [flags.value('logging.verbosity'), flags.words]).toEqual([
      ...[1, ['a', '--v=2']],
    ]);
  });

  test.each([
    [true, ['1', 't', 'T', 'TRUE', 'true', 'True']],
    [false, ['0', 'f', 'F', 'FALSE', 'false', 'False']],
  ])('reads the texts that mean %s', (value, texts) => {
    const read = texts
      .flatMap((text) => [`--help=${text}`, `-h=${text}`])
      .map((word) => {
        const flags = parseFlags([word, '--healthz-bind-address=10.0.0.1:65535']);
        return flags.ok && flags.value('--help');
      });
    expect(new Set(read)).toEqual(new Set([value]));
  });

  test('reads settings that only flags give', () => {
    const given = ['--own-tables=false', '--ipvs-counters', '--ignore-other-instance'];
    const read = (...flags: string[]) => {
      const { ignoreOtherInstance, ipvs, ownTables } = configOf(load(flags));
      return [ownTables, ipvs.counters, ignoreOtherInstance];
    };
    expect([read(), read(...given)]).toEqual([
      [true, false, false],
      [false, true, true],
    ]);
  });

  test('treats a single dash as a word', () => {
    const flags = parseFlags(['-']);
    expect(flags.ok && flags.words).toEqual(['-']);
  });

  test('uses the last of several values', () => {
    const flags = parseFlags(['--proxy-mode=ipvs', '--proxy-mode=nftables']);
    expect(flags.ok && flags.value('mode')).toBe('nftables');
  });

  test('combines lists, gates and patterns of repeated flags', () => {
    const flags = parseFlags([
      '--nodeport-addresses=10.0.0.0/8,"a,b"',
      '--nodeport-addresses=fd00::/8',
      '--feature-gates=A=true,B=true',
      '--feature-gates=B=false',
      '--vmodule=a=1,',
      '--vmodule=b=2',
    ]);
    if (!flags.ok) throw new Error(flags.error);
    expect(flags.value('nodePortAddresses')).toEqual(['10.0.0.0/8', 'a,b', 'fd00::/8']);
    expect(flags.value('featureGates')).toEqual({ A: true, B: false });
    expect(flags.text('logging.vmodule')).toBe('a=1,b=2');
  });

  test('treats an empty address as the default', () => {
    const flags = parseFlags(['--bind-address=']);
    expect(flags.ok && flags.value('bindAddress')).toBe('0.0.0.0');
  });

  test('suggests a similar flag for a misspelt one', () => {
    const text = errorOf(load(['--clutser-cidr=10.0.0.0/8']));
    expect(text).toContain('Error: unknown flag: --clutser-cidr\n  did you mean --cluster-cidr?\n');
  });
});

describe('the result of a command line', () => {
  test('says in an error about a flag where flags are described', () => {
    const result = load(['--foo']);
    expect(result).toMatchObject({ kind: 'error', exitCode: 2, message: 'unknown flag: --foo' });
    expect(errorOf(result)).toBe("Error: unknown flag: --foo\nSee 'fairlead run --help'\n");
  });

  test('rejects words, but not empty ones', () => {
    const text =
      'Error: "fairlead" does not take any arguments, got ["x" "y z"]\n' +
      "  commands come first: 'fairlead help' lists them\n";
    expect(errorOf(load(['x', '', 'y z']))).toBe(text);
    expect(load(['', '']).kind).toBe('run');
  });

  test.each([['--help'], ['-h'], ['-hh']])('prints the help for %s', (flag) => {
    expect(load([flag])).toMatchObject({ kind: 'print', text: flagsText(), exitCode: 0 });
  });

  test('does not print the help for --help=false', () => {
    expect(load(['--help=false']).kind).toBe('run');
  });

  test('is an error for an invalid flag with --help', () => {
    expect(load(['--help', '--foo']).kind).toBe('error');
  });

  test('prints the release of kube-proxy first for --version', () => {
    const result = load(['--version']);
    expect(result.kind === 'print' && result.text.split('\n')[0]).toBe('Kubernetes v1.36.2');
  });

  test('prints every part as JSON for --version=raw', () => {
    const result = load(['--version=raw']);
    const version: unknown = JSON.parse(result.kind === 'print' ? result.text : '');
    expect(version).toMatchObject({ major: '1', minor: '36', gitVersion: 'v1.36.2' });
  });

  test('reports --version=v… if it is the same release', () => {
    const { config } = running(load(['--version=v1.36.2-vendor.1']));
    expect(config.kubernetesVersion).toBe('v1.36.2-vendor.1');
    expect(running(load(['--version=false'])).config.kubernetesVersion).toBe('v1.36.2');
    expect(errorOf(load(['--version=v1.35.0']))).toContain('must match major, minor and patch');
  });

  test.each(['healthz', 'metrics'])(
    'accepts --%s-port and reports that it is deprecated',
    (name) => {
      const { warnings } = running(load([`--${name}-port=1234`]));
      expect(warnings).toEqual([
        `Flag --${name}-port has been deprecated, This flag is deprecated and will be removed in a ` +
          `future release. Please use --${name}-bind-address instead.`,
      ]);
      expect(flagsText()).not.toContain(`--${name}-port`);
    },
  );

  test('selects the action by the flags: write, then clean up, then initialise', () => {
    const all = ['--init-only', '--cleanup', '--write-config-to=out.yaml'];
    expect(load(all)).toMatchObject({ kind: 'write-config', path: 'out.yaml' });
    expect(load(all.slice(0, 2))).toMatchObject({ kind: 'cleanup', action: 'remove' });
    expect(load([...all.slice(0, 2), '--dry-run'])).toMatchObject({ action: 'list' });
    expect(load(all.slice(0, 1)).kind).toBe('init-only');
    expect(load(['--dry-run']).kind).toBe('dry-run');
    expect(errorOf(load(['--dry-run', '--init-only']))).toBe(
      'Error: --dry-run is for a start or for --cleanup, not for --init-only\n',
    );
  });
});

describe('the help of flags', () => {
  test('fits into 100 columns', () => {
    const long = flagsText()
      .split('\n')
      .filter((line) => line.length > 100);
    expect(long).toEqual([]);
  });

  test('shows types, defaults and valid values', () => {
    expect(flagsText()).toMatch(/ {2}-v, --v level\n/);
    expect(flagsText()).toContain('(default 24h0m0s)');
    expect(flagsText().replaceAll(/\s+/g, ' ')).toContain(
      'Value: nftables, ipvs, iptables, userspace or empty.',
    );
  });
});
