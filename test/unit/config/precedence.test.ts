import { describe, expect, test } from 'vitest';
import { otherGates } from '../../../src/config/gate-names.ts';
import { proxyGates, resolveGates } from '../../../src/config/gates.ts';
import { modeNames } from '../../../src/modes/mode-table.ts';
import { configOf, errorOf, load, loadFile, running } from './support.ts';

describe('a configuration file with flags', () => {
  test('overrides the flags, and the ignored ones are named', () => {
    const flags = ['--proxy-mode=ipvs', '--kubeconfig=/f', '--ipvs-scheduler=lc', '--v=1'];
    const { config, warnings } = running(load(flags, 'mode: iptables\n'));
    expect(config.mode).toBe('iptables');
    expect(config.source).toMatchObject({ kubeconfigPath: '' });
    expect(config.ipvs.scheduler).toBe('rr');
    expect(warnings).toEqual([
      'ignored, because --config is given: --kubeconfig, --proxy-mode, --ipvs-scheduler',
    ]);
  });

  test('is overridden by logging flags, and patterns of flags precede its own', () => {
    const file =
      'mode: ipvs\nipvs: {scheduler: sh}\nlogging:\n' +
      '  verbosity: 2\n  vmodule: [{filePattern: a.go, verbosity: 3}]\n';
    const { logging, ipvs, document } = configOf(
      load(['-v=7', '--vmodule', 'goo.go=8', '--ipvs-scheduler', 'rr'], file),
    );
    expect(ipvs.scheduler).toBe('sh');
    expect(logging.verbosity).toBe(7);
    const vmodule = [
      { filePattern: 'goo.go', verbosity: 8 },
      { filePattern: 'a.go', verbosity: 3 },
    ];
    expect(document).toMatchObject({ logging: { vmodule } });
  });

  test('keeps its logging values if the flags are not given', () => {
    const { logging } = configOf(loadFile('logging: {verbosity: 2, format: json}\n'));
    expect(logging).toEqual({ verbosity: 2, format: 'json' });
  });

  test('is overridden by --hostname-override', () => {
    const file = 'hostnameOverride: File\n';
    expect(configOf(loadFile(file)).hostnameOverride).toBe('file');
    expect(configOf(load(['--hostname-override= Flag '], file)).hostnameOverride).toBe('flag');
    expect(configOf(load(['--hostname-override='], file)).hostnameOverride).toBe('file');
  });

  test('is used together with --master and --manifests', () => {
    const file = 'clientConnection: {kubeconfig: /k}\n';
    expect(configOf(load(['--master=https://a'], file)).source).toMatchObject({
      kubeconfigPath: '/k',
      masterUrl: 'https://a',
    });
    expect(configOf(load(['--manifests=/m'], file)).source).toEqual({
      kind: 'manifests',
      directory: '/m',
    });
  });

  test('is overridden by --read-bind-address, if that is given', () => {
    const port = (flags: readonly string[], file: string): number | undefined =>
      configOf(load(flags, file)).readBindAddress?.port;
    const file = 'readBindAddress: 0.0.0.0:1\n';
    expect([port([], 'mode: nftables\n'), port([], file)]).toEqual([undefined, 1]);
    expect(port(['--read-bind-address=0.0.0.0:2'], file)).toBe(2);
    expect(port(['--read-bind-address='], file)).toBe(undefined);
  });

  test('changes the default addresses for an IPv6 bind address', () => {
    const { document } = configOf(loadFile('bindAddress: "fd00::1"\n'));
    expect([document.healthzBindAddress, document.metricsBindAddress]).toEqual([
      '[::]:10256',
      '[::1]:10249',
    ]);
  });

  test('uses the default for an empty address, which cannot be disabled', () => {
    const { config } = running(loadFile('healthzBindAddress: ""\nmetricsBindAddress: ""\n'));
    expect([config.healthzBindAddress?.port, config.metricsBindAddress?.port]).toEqual([
      10256, 10249,
    ]);
  });
});

describe('flags without a configuration file', () => {
  test('keep the default addresses for an IPv6 bind address', () => {
    const { document } = configOf(load(['--bind-address=fd00::1']));
    expect([document.healthzBindAddress, document.metricsBindAddress]).toEqual([
      '0.0.0.0:10256',
      '127.0.0.1:10249',
    ]);
  });

  test('use a port flag if the address has no port', () => {
    const ports = (...flags: string[]): unknown => {
      const { healthzBindAddress, metricsBindAddress } = configOf(load(flags));
      return [healthzBindAddress?.port, metricsBindAddress?.port];
    };
    const addresses = ['--healthz-bind-address=::', '--metrics-bind-address=1.2.3.4'];
    expect(ports(...addresses)).toEqual([10256, 10249]);
    expect(ports(...addresses, '--healthz-port=1', '--metrics-port=2')).toEqual([1, 2]);
    expect(ports('--healthz-port=1', '--metrics-port=2')).toEqual([10256, 10249]);
  });

  test('disable a server by port 0 and an empty address', () => {
    const served = (...flags: string[]): unknown => {
      const { healthzBindAddress, metricsBindAddress } = configOf(load(flags));
      return [healthzBindAddress, metricsBindAddress];
    };
    expect(served('--healthz-port=0', '--metrics-port=0')).toEqual([undefined, undefined]);
    expect(served('--healthz-bind-address=', '--metrics-bind-address=')).toEqual([
      undefined,
      undefined,
    ]);
  });

  test('use iptables-* periods in every mode except ipvs', () => {
    const flags = [
      '--iptables-sync-period=10s',
      '--iptables-min-sync-period=0',
      '--iptables-max-sync-period=1m',
      '--ipvs-sync-period=20s',
      '--ipvs-min-sync-period=2s',
    ];
    for (const mode of modeNames.filter((name) => name !== 'ipvs')) {
      const settings = configOf(load([...flags, `--proxy-mode=${mode}`])).modes[mode];
      expect(settings).toMatchObject({
        syncPeriodMs: 10_000,
        minSyncPeriodMs: 0,
        fullSyncPeriodMs: 60_000,
      });
    }
    expect(configOf(load([...flags, '--proxy-mode=ipvs'])).modes.ipvs).toMatchObject({
      syncPeriodMs: 20_000,
      minSyncPeriodMs: 2_000,
      fullSyncPeriodMs: 20_000,
    });
  });

  test('have no minimum period in mode ipvs, also with a file', () => {
    expect(configOf(load(['--proxy-mode=ipvs'])).modes.ipvs.minSyncPeriodMs).toBe(0);
    expect(configOf(loadFile('mode: ipvs\n')).modes.ipvs.minSyncPeriodMs).toBe(0);
  });

  test('may set 0 where a file cannot', () => {
    expect(errorOf(load(['--config-sync-period=0']))).toContain('must be greater than 0');
    expect(configOf(loadFile('configSyncPeriod: 0s\n')).document).toMatchObject({
      configSyncPeriod: '15m0s',
    });
    const oom = configOf(load(['--oom-score-adj=0', '--conntrack-max-per-core=0']));
    expect([oom.oomScoreAdj, oom.conntrack.maxPerCore]).toEqual([0, 0]);
  });

  test('reject a host name of spaces', () => {
    expect(errorOf(load(['--hostname-override= ']))).toBe(
      'Error: failed complete: empty hostname-override is invalid\n' +
        '  --hostname-override: must not be only white space\n',
    );
    expect(errorOf(loadFile('hostnameOverride: " "\n'))).toContain('failed complete: empty');
  });

  test('treat an empty --cluster-cidr as no local addresses', () => {
    const { clusterCIDR, detectLocal } = configOf(load(['--cluster-cidr=']));
    expect({ clusterCIDR, detectLocal }).toEqual({
      clusterCIDR: [],
      detectLocal: { kind: 'ClusterCIDR', isDefault: true },
    });
  });

  test('are all listed with their values in order', () => {
    const { flags } = configOf(load(['--v=2', '--nodeport-addresses=10.0.0.0/8']));
    expect(flags.map(({ name }) => name)).toEqual([...flags.map(({ name }) => name)].sort());
    expect(flags).toContainEqual({ name: 'v', value: '2' });
    expect(flags).toContainEqual({ name: 'nodeport-addresses', value: '[10.0.0.0/8]' });
    expect(flags).toContainEqual({ name: 'conntrack-min', value: '131072' });
  });
});

describe('the logging configuration', () => {
  test.each([
    ['format: xml', 'format: Invalid value: "xml": Unsupported log format'],
    ['flushFrequency: -1s', 'flushFrequency: Invalid value: -1s: must be greater than 0'],
    [
      'format: json, vmodule: [{filePattern: a, verbosity: 1}]',
      'vmodule: Forbidden: Only supported for text log format',
    ],
    ['vmodule: [{verbosity: 1}]', 'vmodule[0]: Required value: File pattern must not be empty'],
    [
      'vmodule: [{filePattern: "a=b", verbosity: 1}]',
      'vmodule[0]: Invalid value: "a=b": File pattern must not contain equal sign or comma',
    ],
    [
      'options: {json: {splitStream: true}}',
      'options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled',
    ],
    [
      'options: {text: {infoBufferSize: 1}}',
      'options.text.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled',
    ],
  ])('%s is refused before all else', (fields, error) => {
    const text = errorOf(loadFile(`mode: x\nlogging: {${fields}}\n`));
    expect(text.split('\n')[0]).toBe(`Error: initialize logging: ${error}`);
    expect(text).toContain('\n  mode (line 3): "x": must be ');
  });

  test('requires the gate of format json', () => {
    const file = 'logging: {format: json}\nfeatureGates: {LoggingBetaOptions: false}\n';
    expect(errorOf(loadFile(file))).toContain(
      'initialize logging: format: Forbidden: Log format json is disabled, see LoggingBetaOptions',
    );
  });

  test('uses the options of the selected format, with their gate', () => {
    const file =
      'featureGates: {LoggingAlphaOptions: true}\nlogging: {format: json, options: ' +
      '{json: {splitStream: true, infoBufferSize: 2Ki}, text: {infoBufferSize: 1}}}\n';
    expect(loadFile(file).kind).toBe('run');
  });
});

describe('feature gates', () => {
  const gatesOf = (list: string) => configOf(load([`--feature-gates=${list}`])).featureGates;

  test('have the values of kube-proxy 1.36, and cannot be changed', () => {
    expect(gatesOf('')).toSatisfy(Object.isFrozen);
    expect(gatesOf('')).toMatchObject({
      AllowServiceExternalIPs: true,
      ComponentFlagz: true,
      ComponentStatusz: true,
      LoggingAlphaOptions: false,
      NativeHistograms: false,
    });
  });

  test('are set in groups, except those that are named', () => {
    expect(gatesOf('AllAlpha=true,NativeHistograms=false')).toMatchObject({
      LoggingAlphaOptions: true,
      NativeHistograms: false,
    });
    expect(gatesOf('AllBeta=false')).toMatchObject({
      ComponentFlagz: false,
      AllowServiceExternalIPs: true,
    });
  });

  test('keep their value if locked', () => {
    const file = 'featureGates:\n  NFTablesProxyMode: false\n';
    expect(errorOf(loadFile(file)).split('\n')[0]).toBe(
      'Error: failed complete: cannot set feature gate NFTablesProxyMode to false, feature is ' +
        'locked to true',
    );
    expect(loadFile('featureGates:\n  NFTablesProxyMode: true\n').kind).toBe('run');
  });

  test('are rejected if unknown, with a suggestion', () => {
    expect(errorOf(load(['--feature-gates=Nope=true']))).toContain(
      'Error: failed complete: unrecognized feature gate: Nope\n',
    );
    expect(errorOf(load(['--feature-gates=ComponentFlags=true']))).toContain(
      'unrecognized feature gate: ComponentFlags (did you mean ComponentFlagz?)',
    );
  });

  test('of other components are accepted, in whichever release of Kubernetes they exist', () => {
    const { config, warnings } = running(load(['--feature-gates=GracefulNodeShutdown=true']));
    expect(config.featureGates).not.toHaveProperty('GracefulNodeShutdown');
    expect(warnings).toEqual([]);
    const list = 'EtcdRangeStream=true,LegacyServiceAccountTokenCleanUp=true';
    expect(running(load([`--feature-gates=${list}`])).warnings).toEqual([
      'Feature gate EtcdRangeStream is new in Kubernetes 1.37; kube-proxy 1.36 does not know it.',
      'Feature gate LegacyServiceAccountTokenCleanUp was last in Kubernetes 1.31; ' +
        'kube-proxy 1.36 does not know it.',
    ]);
  });

  test('that kube-proxy 1.37 adds are accepted with either value', () => {
    for (const name of ['NFTablesNetlink', 'KubeProxyIPVS']) {
      for (const value of [true, false]) {
        const { config, warnings } = running(loadFile(`featureGates: {${name}: ${value}}\n`));
        expect(config.featureGates[name]).toBe(value);
        expect(warnings).toEqual([
          `Feature gate ${name} is new in Kubernetes 1.37; kube-proxy 1.36 does not know it.`,
        ]);
      }
    }
    expect(
      running(loadFile('featureGates: {KubeProxyIPVS: false}\nmode: ipvs\n')).config.mode,
    ).toBe('ipvs');
  });

  test('that are generally available cause a warning if set', () => {
    expect(running(load(['--feature-gates=AllowServiceExternalIPs=false'])).warnings).toEqual([
      'Setting GA feature gate AllowServiceExternalIPs=false. ' +
        'It will be removed in a future release.',
    ]);
  });

  describe('by release', () => {
    test.each([
      ['1.36', true],
      ['1.39', true],
      ['1.40', false],
      ['1.42', false],
      ['1.43', false],
    ])('external IPs of Services are programmed as in kube-proxy %s', (release, value) => {
      expect(resolveGates({}, release).values.AllowServiceExternalIPs).toBe(value);
    });

    test('that are deprecated are reported with the message of kube-proxy', () => {
      expect(resolveGates({ AllowServiceExternalIPs: true }, '1.40')).toMatchObject({
        values: { AllowServiceExternalIPs: true },
        errors: [],
        warnings: [
          'Setting deprecated feature gate AllowServiceExternalIPs=true. ' +
            'It will be removed in a future release.',
        ],
      });
    });

    test('are locked from the release on that locks them', () => {
      expect(resolveGates({ NFTablesProxyMode: false }, '1.32').errors).toEqual([]);
      expect(resolveGates({ NFTablesProxyMode: false }, '1.33').errors).toHaveLength(1);
      const locked = { NFTablesProxyMode: false, AllowServiceExternalIPs: true };
      expect(resolveGates(locked, '1.43')).toMatchObject({
        values: { NFTablesProxyMode: true, AllowServiceExternalIPs: false },
        errors: Object.entries(locked)
          .toSorted()
          .map(([gate, value]) => ({
            gate,
            text: `cannot set feature gate ${gate} to ${value}, feature is locked to ${!value}`,
          })),
        warnings: [],
      });
    });

    test('are listed once, and are not removed before they were introduced', () => {
      const minor = (release: string): number => Number(release.split('.')[1]);
      for (const [name, { first, last }] of otherGates) {
        expect(proxyGates, name).not.toHaveProperty(name);
        expect(minor(first), name).toBeGreaterThanOrEqual(29);
        if (last !== undefined) expect(minor(last), name).toBeGreaterThanOrEqual(minor(first));
      }
      for (const [name, { stages }] of Object.entries(proxyGates)) {
        const releases = stages.map(({ since }) => minor(since));
        expect(releases, name).toEqual(releases.toSorted((a, b) => a - b));
      }
    });
  });
});
