import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { splitWords } from '../../../src/tools/import/flags.ts';
import { convert, validateFile } from '../../../src/tools/import/index.ts';
import { bytes, configOf, header, load, loadFile } from './support.ts';

function convertFlags(text: string) {
  return convert('flags', bytes(text));
}

describe('config convert from flags', () => {
  test('converts flags to fields, and reports each of them', () => {
    const result = convertFlags(
      `# the unit's command line
      /usr/local/bin/kube-proxy --proxy-mode=ipvs \\
        --cluster-cidr "10.0.0.0/8" --master https://a --iptables-sync-period=3s -v 2 --init-only`,
    );
    expect(result.exitCode).toBe(0);
    expect(result.text).toBe(
      'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nclusterCIDR: 10.0.0.0/8\nipvs:\n' +
        '  minSyncPeriod: 1s\nkind: KubeProxyConfiguration\nlogging:\n  verbosity: 2\nmode: ipvs\n',
    );
    expect(result.notes).toEqual([
      '--init-only: stays a flag; it also works with --config',
      '--master: stays a flag; it also works with --config',
      '--proxy-mode: became mode: ipvs',
      '--iptables-sync-period: left out: it has no effect in the requested mode',
      '--cluster-cidr: became clusterCIDR: 10.0.0.0/8',
      '--v: became logging.verbosity: 2',
      'default without a file: became ipvs.minSyncPeriod: 1s',
    ]);
  });

  test('finds flags in the manifest of a DaemonSet', () => {
    const file = readFileSync(new URL('fixtures/daemonset.yaml', import.meta.url));
    const result = convert('flags', file);
    expect(result.exitCode).toBe(0);
    expect(result.text).toContain('oomScoreAdj: -998\n');
    expect(result.text).toContain('  kubeconfig: /var/lib/kube-proxy/kubeconfig\n');
    expect(result.notes.slice(0, 2)).toEqual([
      '1>>/var/log/kube-proxy.log 2>&1: left out: it is for the shell',
      '--hostname-override: stays a flag, because it needs the environment of the program',
    ]);
  });

  test('finds flags in a list', () => {
    const result = convertFlags('- kube-proxy\n- --hostname-override\n- $(NODE)\n- -v=3\n');
    expect(result.text).toContain('verbosity: 3');
    expect(result.notes[0]).toContain('--hostname-override: stays a flag');
  });

  test('rejects a node name of spaces, like a start', () => {
    const result = convertFlags('kube-proxy --hostname-override=" " --conntrack-min=-1');
    expect([result.exitCode, result.text]).toEqual([1, '']);
    expect(result.notes).toContain('error: hostnameOverride: must not be only white space');
    expect(result.notes).toContain('error: conntrack.min: -1: must be greater than or equal to 0');
  });

  test('merges the port flags into the addresses', () => {
    const result = convertFlags('--healthz-bind-address=:: --healthz-port=99 --metrics-port=0');
    expect(result.text).toContain('healthzBindAddress: "[::]:99"\n');
    expect(result.notes).toContain(
      '--metrics-port: a file cannot say empty here: it means the default, 127.0.0.1:10249',
    );
  });

  test.each([
    ['--proxy-mode=ipvs'],
    ['--bind-address=fd00::1 --iptables-localhost-nodeports=false'],
    [
      '--proxy-mode=nftables --iptables-sync-period=9s --masquerade-all --nodeport-addresses=10.0.0.0/8',
    ],
    ['--proxy-mode=iptables --iptables-masquerade-bit=0 --iptables-max-sync-period=2m'],
    ['--conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --oom-score-adj=0'],
    ['--healthz-bind-address=1.2.3.4 --healthz-port=5 --metrics-bind-address=[::]:6'],
    ['--feature-gates=ComponentFlagz=false,GracefulNodeShutdown=true --vmodule=a=1,b=2'],
    ['--detect-local-mode=BridgeInterface --pod-bridge-interface=br0 --hostname-override=Node'],
  ])('%s means the same as the file that it becomes', (line) => {
    const { configPath: _, flags: __, given: _1, ...byFlags } = configOf(load(line.split(' ')));
    const { text } = convertFlags(line);
    const body = text.replaceAll(/^(?:apiVersion|kind): .*\n/gm, '');
    const { configPath: ___, flags: ____, given: _2, ...byFile } = configOf(loadFile(body));
    expect(byFile).toEqual(byFlags);
    expect(text.split('\n')).toEqual(expect.arrayContaining(header.trim().split('\n')));
  });

  test.each([
    ['', 'no flags in it'],
    ['--foo', 'unknown flag: --foo'],
    ['--udp-timeout=1s', 'unknown flag: --udp-timeout (set udpIdleTimeout in a configuration file'],
    ['--config=/etc/x --v=2', '--config: kube-proxy takes nearly everything from that file'],
    ['--v=2 stray', 'stray: is neither a flag nor the value of one'],
    ['--conntrack-min=-1', 'conntrack.min: -1: must be greater than or equal to 0'],
    ['--feature-gates=Nope=true', 'featureGates: unrecognized feature gate: Nope'],
    ['\u0000', 'the file is binary'],
  ])('rejects %j', (text, error) => {
    const result = convertFlags(text);
    expect(result).toMatchObject({ text: '', exitCode: 1 });
    expect(result.notes.join('\n')).toContain(error);
  });
});

describe('the shell words of a command line', () => {
  test.each([
    ['a \'b c\' "d e" f\\ g', ['a', 'b c', 'd e', 'f g']],
    ['a \\\n b\n# no\nc#d', ['a', 'b', 'c#d']],
    ['"a\\"b" \'\' x""y', ['a"b', '', 'xy']],
    ['', []],
    ["it's", ["it's"]],
  ])('of %j are split as by a shell', (text, words) => {
    expect(splitWords(text)).toEqual(words);
  });
});

describe('validateFile', () => {
  test('reports that a file is valid, with warnings', () => {
    expect(validateFile('a.yaml', bytes(`${header}foo: 1\nmode: nftables\n`))).toEqual({
      text: 'a.yaml is valid\n',
      notes: [
        'Using lenient decoding as strict decoding failed: unknown fields, ignored: foo (line 3)',
      ],
      exitCode: 0,
    });
  });

  test('lists errors', () => {
    const result = validateFile('a.yaml', bytes(`${header}mode: x\noomScoreAdj: 2000\n`));
    expect(result).toMatchObject({ text: '', exitCode: 1 });
    expect(result.notes).toEqual([
      'Error: a.yaml is not valid',
      '  oomScoreAdj (line 4): 2000: must be within the range [-1000, 1000]',
      '  mode (line 3): "x": must be iptables, ipvs, nftables, userspace or blank (blank means ' +
        'the best mode that the kernel can do)',
    ]);
  });
});
