import { describe, expect, test } from 'vitest';
import { decodeFile } from '../../../src/config/file.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { bytes, configOf, errorOf, header, load, loadFile, running } from './support.ts';

function problemsOf(file: string | Uint8Array): string {
  const result = decodeFile(typeof file === 'string' ? bytes(file) : file);
  return result.ok ? 'no problem' : result.text;
}

function givenOf(body: string): unknown {
  const result = decodeFile(bytes(header + body));
  return result.ok ? result.given : result.text;
}

describe('apiVersion and kind', () => {
  test.each([
    ['', 'no kind'],
    ['# only a comment\n', 'no kind'],
    ['apiVersion: kubeproxy.config.k8s.io/v1alpha1\n', 'kind: no kind is given'],
    ['kind: KubeProxyConfiguration\n', 'apiVersion: no apiVersion is given'],
    ['kind: 1\napiVersion: x\n', 'kind (line 1): no kind is given'],
    [
      'kind: Deployment\napiVersion: apps/v1\n',
      'kind (line 1): no kind "Deployment" is registered for version "apps/v1"; it must be "KubeProxyConfiguration"',
    ],
    [
      'kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1beta1\n',
      'apiVersion (line 2): no kind "KubeProxyConfiguration" is registered for version "kubeproxy.config.k8s.io/v1beta1"; it must be "kubeproxy.config.k8s.io/v1alpha1"',
    ],
    ['- a\n', 'must be a mapping, not a list'],
    ['text\n', 'must be a mapping, not the string "text"'],
  ])('%j is refused', (file, error) => {
    expect(problemsOf(file)).toContain('failed to decode: ');
    expect(problemsOf(file)).toContain(error);
  });

  test('a ConfigMap is recognised', () => {
    const text = problemsOf('apiVersion: v1\nkind: ConfigMap\ndata: {config.conf: ""}\n');
    expect(text).toContain('the configuration is a value in its data');
  });
});

test.each([['off'], ['"off"'], ['false']])(
  'connectTime: %s disables it, though YAML reads off as a boolean',
  (value) => {
    expect(givenOf(`connectTime: ${value}\n`)).toEqual({ connectTime: 'off' });
  },
);

describe('configuration fields that cannot be read', () => {
  test('are listed together with other errors', () => {
    const file = 'oomScoreAdj: much\nconntrack: {min: -1}\nfeatureGates: {Foo: true}\n';
    expect(errorOf(loadFile(file))).toBe(
      'Error: failed complete: failed to decode: oomScoreAdj (line 3): ' +
        'must be a whole number, not the string "much"\n' +
        '  in proxy.yaml\n' +
        '  oomScoreAdj (line 3): must be a whole number, not the string "much"\n' +
        '  featureGates (line 5): unrecognized feature gate: Foo\n' +
        '  conntrack.min (line 4): -1: must be greater than or equal to 0\n',
    );
  });

  test.each([
    ['their section', 'nftables: {syncPeriod: x, minSyncPeriod: 40s}\nmode: nftables\n'],
    ['the mode', 'mode: 1\niptables: {minSyncPeriod: 40s}\n'],
    ['the gates', 'featureGates: 1\nlogging: {options: {text: {splitStream: true}}}\n'],
  ])('do not make others in %s invalid', (_, file) => {
    expect(errorOf(loadFile(file)).trimEnd().split('\n')).toHaveLength(2);
  });
});

describe('a tolerant read of the configuration file', () => {
  test('accepts unknown fields, with their lines and a suggestion', () => {
    const file = 'iptables:\n  syncperiod: 1s\n  syncPeriod: 9s\nfoo: {bar: 1}\n';
    const { config, warnings } = running(loadFile(file));
    expect(config.modes.iptables.syncPeriodMs).toBe(9000);
    expect(warnings).toEqual([
      'Using lenient decoding as strict decoding failed: unknown fields, ignored: ' +
        'iptables.syncperiod (line 4, did you mean iptables.syncPeriod?), foo (line 6)',
    ]);
  });

  test('uses the last of repeated fields, with a warning', () => {
    const file = 'mode: iptables\nmode: ipvs\nipvs: {scheduler: a, scheduler: b}\n';
    const { config, warnings } = running(loadFile(file));
    expect([config.mode, config.ipvs.scheduler]).toEqual(['ipvs', 'b']);
    expect(warnings).toEqual([
      'Using lenient decoding as strict decoding failed: fields given twice (the last one ' +
        'counts): mode (line 4), ipvs.scheduler (line 5)',
    ]);
  });

  test('treats each item of a list on its own', () => {
    const file =
      'logging:\n  vmodule:\n  - {filePattern: a, verbosity: 1}\n' +
      '  - filePattern: b\n    verbositi: 2\n    verbosity: 2\n    verbosity: 3\n';
    const { config, warnings } = running(loadFile(file));
    const vmodule = [
      { filePattern: 'a', verbosity: 1 },
      { filePattern: 'b', verbosity: 3 },
    ];
    expect(config.document).toMatchObject({ logging: { vmodule } });
    const lenient = 'Using lenient decoding as strict decoding failed: ';
    expect(warnings).toEqual([
      `${lenient}unknown fields, ignored: ` +
        'logging.vmodule[1].verbositi (line 7, did you mean verbosity?)',
      `${lenient}fields given twice (the last one counts): ` +
        'logging.vmodule[1].verbosity (line 9)',
    ]);
  });

  test('distinguishes upper and lower case in field names', () => {
    expect(givenOf('Mode: ipvs\n')).toEqual({});
  });

  test('rejects a wrong type even with unknown fields', () => {
    expect(errorOf(loadFile('foo: 1\nmode: 1\n'))).toContain('mode (line 4): must be a string');
  });

  test('shows names of 60 characters', () => {
    const [whole, long] = ['x'.repeat(60), 'y'.repeat(61)];
    const [warning = ''] = running(loadFile(`${whole}: 1\n${long}: 1\n`)).warnings;
    expect(warning).toContain(`: ${whole} (line 3), ${long.slice(0, 57)}... (line 4)`);
  });

  test('makes one short warning for a thousand unknown fields', () => {
    const file = Array.from({ length: 1000 }, (_, index) => `x${index}: 1\n`).join('');
    const [warning = ''] = running(loadFile(file)).warnings;
    expect(warning).toMatch(/ and 980 more$/);
    expect(warning.length).toBeLessThan(1000);
  });
});

describe('a configuration file in YAML', () => {
  test('may be JSON', () => {
    const json = {
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      conntrack: { min: 5 },
    };
    for (const indent of [undefined, 2, '\t']) {
      const result = decodeFile(bytes(JSON.stringify(json, null, indent)));
      expect(result).toMatchObject({ ok: true, given: { 'conntrack.min': 5 } });
    }
  });

  test('has scalars with the meaning of YAML 1.1, except base 60', () => {
    expect(givenOf('enableProfiling: yes\nbindAddressHardFail: ON\n')).toEqual({
      enableProfiling: true,
      bindAddressHardFail: true,
    });
    expect(givenOf('conntrack: {min: 0x10, maxPerCore: 010}\noomScoreAdj: 1_0\n')).toEqual({
      'conntrack.min': 16,
      'conntrack.maxPerCore': 8,
      oomScoreAdj: 10,
    });
    expect(givenOf('bindAddress: 1:2:3:4:5:6:7:8\n')).toEqual({ bindAddress: '1:2:3:4:5:6:7:8' });
    expect(givenOf('hostnameOverride: !!str 12\n')).toEqual({ hostnameOverride: '12' });
    expect(givenOf('hostnameOverride: no\n')).toContain(
      'must be a string, not the boolean false; put quotes around it',
    );
  });

  test('may have anchors, aliases and merges', () => {
    const file =
      'nftables: &periods {syncPeriod: 7s, minSyncPeriod: 2s}\n' +
      'iptables:\n  <<: *periods\n  syncPeriod: 9s\nipvs: *periods\n';
    expect(givenOf(file)).toEqual({
      'nftables.syncPeriod': 7_000_000_000n,
      'nftables.minSyncPeriod': 2_000_000_000n,
      'iptables.syncPeriod': 9_000_000_000n,
      'iptables.minSyncPeriod': 2_000_000_000n,
      'ipvs.syncPeriod': 7_000_000_000n,
      'ipvs.minSyncPeriod': 2_000_000_000n,
    });
  });

  test('may have keys that are aliases, or have no value', () => {
    const file = 'hostnameOverride: &key mode\n*key : ipvs\n? oomScoreAdj\n';
    expect(givenOf(file)).toEqual({ hostnameOverride: 'mode', mode: 'ipvs' });
  });

  test('is rejected for an unquoted ::, with its line', () => {
    expect(givenOf('bindAddress: ::\n')).toMatch(/\(line 3\): yaml: .*, at: bindAddress: ::$/);
  });

  test('uses the first of several documents', () => {
    const { config, warnings } = running(loadFile('mode: ipvs\n---\nmode: iptables\n'));
    expect(config.mode).toBe('ipvs');
    expect(warnings[0]).toContain('only the first document of the file is read');
  });
});

describe('the limits of a configuration file', () => {
  const bomb = Array.from(
    { length: 9 },
    (_, level) =>
      `a${level}: &a${level} [${Array(9).fill(level === 0 ? 'x' : `*a${level - 1}`)}]\n`,
  ).join('');

  test.each([
    ['an alias bomb', header + bomb, 'more than 20000 values'],
    ['1,500 aliases', `${header}a: &a x\nb: [${'*a,'.repeat(1500)}]\n`, 'has 1500 aliases, too'],
    ['an alias of itself', `${header}a: &a [*a]\n`, 'nested more than 50 levels deep'],
    ['deep brackets', '['.repeat(10_000), 'nested more than 50 levels deep'],
    ['deep lists', '- '.repeat(10_000), 'nested more than 50 levels deep'],
    ['deep mappings', '{a: '.repeat(60) + '}'.repeat(60), 'nested more than 50 levels deep'],
    ['a missing anchor', `${header}a: *nothing\n`, 'anchor'],
    ['a key that is a list', `${header}? [a]\n: 1\n`, 'a key must be a plain word'],
    ['a merge of a word', `${header}<<: a\n`, '<< needs a mapping'],
    ['more than 1 MiB', `${header}#${' '.repeat(1024 * 1024)}`, 'at most 1 MiB is read'],
    ['a NUL', `${header}mode: "\u0000"\n`, 'the file is binary'],
  ])('reject %s in one sentence', (_what, file, error) => {
    expect(problemsOf(file)).toContain(error);
    expect(problemsOf(file).length).toBeLessThan(300);
  });

  const nested = (levels: number, inside: string): string =>
    '['.repeat(levels) + inside + ']'.repeat(levels);

  test.each([
    ['levels', nested(50, 'x'), nested(51, 'x'), 'nested more than 50 levels deep'],
    [
      'levels with an alias',
      `- &a x\n- ${nested(48, '*a')}`,
      `- &a x\n- ${nested(49, '*a')}`,
      'deep',
    ],
    ['values', `[${'x,'.repeat(19_999)}]`, `[${'x,'.repeat(20_000)}]`, 'more than 20000 values'],
  ])('are reached by the last one of the %s', (_what, within, beyond, error) => {
    expect(problemsOf(within)).toContain('must be a mapping, not a list');
    expect(problemsOf(beyond)).toContain(error);
  });

  test.each([
    ['a value', `mode: ${'x'.repeat(900_000)}\n`],
    ['a duration', `configSyncPeriod: "${'1'.repeat(900_000)}"\n`],
    ['a gate', `featureGates: {${'x'.repeat(900_000)}: true}\n`],
  ])('shorten %s of a megabyte in messages', (_what, body) => {
    const text = errorOf(loadFile(body));
    expect(text).toMatch(/^Error: failed /);
    expect(text.length).toBeLessThan(10_000);
  });

  test('reject bytes that are not UTF-8', () => {
    expect(problemsOf(new Uint8Array([0x6b, 0xff, 0xfe, 0x80]))).toContain('the file is binary');
  });
});

describe('reading a configuration file', () => {
  test('reports why the file cannot be read', () => {
    const readFile = (path: string): Uint8Array => {
      throw new Error(`ENOENT: no such file or directory, open '${path}'`);
    };
    const text = errorOf(loadConfig(['--config=/nowhere'], { readFile }));
    expect(text).toBe(
      "Error: failed complete: cannot be read: ENOENT: no such file or directory, open '/nowhere'\n" +
        '  in /nowhere\n',
    );
  });

  test('returns the path, to be watched', () => {
    expect(configOf(load(['-v=1'], 'mode: ipvs')).configPath).toBe('proxy.yaml');
    expect(configOf(load([])).configPath).toBeUndefined();
  });
});
