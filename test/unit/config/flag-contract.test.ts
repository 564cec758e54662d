import { describe, expect, test } from 'vitest';
import { formerFlags, parseFlags } from '../../../src/config/flags.ts';
import { flagKeys, settingTable } from '../../../src/config/settings/index.ts';
import { errorOf, load, running } from './support.ts';

type Kind = 'string' | 'bool' | 'int32' | 'float32' | 'duration' | 'level' | 'list' | 'other';

/**
 * Section 1.2 of the behaviour document: name, kind, default as `--flagz` shows it, and whether the
 * flag still counts when --config is given.
 */
const contract: readonly (readonly [string, Kind, string, 'kept' | 'dropped'])[] = [
  ['write-config-to', 'string', '', 'kept'],
  ['cleanup', 'bool', 'false', 'kept'],
  ['init-only', 'bool', 'false', 'kept'],
  ['version', 'other', 'false', 'kept'],
  ['feature-gates', 'other', '', 'dropped'],
  ['kubeconfig', 'string', '', 'dropped'],
  ['master', 'string', '', 'kept'],
  ['kube-api-content-type', 'string', 'application/vnd.kubernetes.protobuf', 'dropped'],
  ['kube-api-burst', 'int32', '10', 'dropped'],
  ['kube-api-qps', 'float32', '5', 'dropped'],
  ['hostname-override', 'string', '', 'kept'],
  ['bind-address', 'other', '0.0.0.0', 'dropped'],
  ['healthz-bind-address', 'other', '0.0.0.0:10256', 'dropped'],
  ['metrics-bind-address', 'other', '127.0.0.1:10249', 'dropped'],
  ['healthz-port', 'int32', '10256', 'dropped'],
  ['metrics-port', 'int32', '10249', 'dropped'],
  ['bind-address-hard-fail', 'bool', 'false', 'dropped'],
  ['profiling', 'bool', 'false', 'dropped'],
  ['show-hidden-metrics-for-version', 'string', '', 'dropped'],
  ['proxy-mode', 'string', '', 'dropped'],
  ['iptables-masquerade-bit', 'int32', '14', 'dropped'],
  ['masquerade-all', 'bool', 'false', 'dropped'],
  ['iptables-localhost-nodeports', 'bool', 'true', 'dropped'],
  ['iptables-sync-period', 'duration', '30s', 'dropped'],
  ['iptables-min-sync-period', 'duration', '1s', 'dropped'],
  ['ipvs-sync-period', 'duration', '30s', 'dropped'],
  ['ipvs-min-sync-period', 'duration', '1s', 'dropped'],
  ['ipvs-scheduler', 'string', '', 'dropped'],
  ['ipvs-exclude-cidrs', 'list', '[]', 'dropped'],
  ['ipvs-strict-arp', 'bool', 'false', 'dropped'],
  ['ipvs-tcp-timeout', 'duration', '0s', 'dropped'],
  ['ipvs-tcpfin-timeout', 'duration', '0s', 'dropped'],
  ['ipvs-udp-timeout', 'duration', '0s', 'dropped'],
  ['detect-local-mode', 'string', '', 'dropped'],
  ['pod-bridge-interface', 'string', '', 'dropped'],
  ['pod-interface-name-prefix', 'string', '', 'dropped'],
  ['cluster-cidr', 'string', '', 'dropped'],
  ['nodeport-addresses', 'list', '[]', 'dropped'],
  ['oom-score-adj', 'int32', '-999', 'dropped'],
  ['conntrack-max-per-core', 'int32', '32768', 'dropped'],
  ['conntrack-min', 'int32', '131072', 'dropped'],
  ['conntrack-tcp-timeout-established', 'duration', '24h0m0s', 'dropped'],
  ['conntrack-tcp-timeout-close-wait', 'duration', '1h0m0s', 'dropped'],
  ['conntrack-tcp-be-liberal', 'bool', 'false', 'dropped'],
  ['conntrack-udp-timeout', 'duration', '0s', 'dropped'],
  ['conntrack-udp-timeout-stream', 'duration', '0s', 'dropped'],
  ['config-sync-period', 'duration', '15m0s', 'dropped'],
  ['logging-format', 'string', 'text', 'kept'],
  ['log-flush-frequency', 'duration', '5s', 'kept'],
  ['v', 'level', '0', 'kept'],
  ['vmodule', 'other', '', 'kept'],
  ['log-text-split-stream', 'bool', 'false', 'kept'],
  ['log-json-split-stream', 'bool', 'false', 'kept'],
  ['log-text-info-buffer-size', 'other', '0', 'kept'],
  ['log-json-info-buffer-size', 'other', '0', 'kept'],
  ['boot-id-file', 'string', '/proc/sys/kernel/random/boot_id', 'kept'],
  ['machine-id-file', 'string', '/etc/machine-id,/var/lib/dbus/machine-id', 'kept'],
];

/** A value that the kind takes, how the flag then prints, one that it refuses, in Go's words. */
const samples = {
  string: { good: 'x y', shown: 'x y', bad: '', error: '' },
  bool: {
    good: 'T',
    shown: 'true',
    bad: 'maybe',
    error: 'strconv.ParseBool: parsing "maybe": invalid syntax',
  },
  int32: {
    good: '0x1f',
    shown: '31',
    bad: '2147483648',
    error: 'strconv.ParseInt: parsing "2147483648": value out of range',
  },
  float32: {
    good: '2.5',
    shown: '2.5',
    bad: 'fast',
    error: 'strconv.ParseFloat: parsing "fast": invalid syntax',
  },
  duration: {
    good: '1h1.5s',
    shown: '1h0m1.5s',
    bad: 'PT30S',
    error: 'time: invalid duration "PT30S"',
  },
  level: {
    good: '4',
    shown: '4',
    bad: '-1',
    error: 'strconv.ParseUint: parsing "-1": invalid syntax',
  },
  list: {
    good: 'a,b',
    shown: '[a,b]',
    bad: 'a"b',
    error: 'parse error on line 1, column 2: bare " in non-quoted field',
  },
} as const;

/** The rows whose kind has rules of its own: good value, printed, bad value, error. */
const special: Readonly<Record<string, readonly [string, string, string, string]>> = {
  version: [
    'v1.36.2+vendor',
    'v1.36.2+vendor',
    'maybe',
    'strconv.ParseBool: parsing "maybe": invalid syntax',
  ],
  'feature-gates': ['B=false, A=1', 'A=true,B=false', 'A', 'malformed pair, expect string=bool'],
  'bind-address': ['010.0.0.1', '010.0.0.1', '[::]', '"[::]" is not a valid IP address'],
  'healthz-bind-address': ['[::]:80', '[::]:80', 'host:80', '"host" is not a valid IP address'],
  'metrics-bind-address': ['::1', '::1', '1.2.3.4:http', '"http" is not a valid number'],
  vmodule: ['a*=1,b=2', 'a*=1,b=2', 'a', '"a" does not have the pattern=N format'],
  'log-text-info-buffer-size': [
    '2Ki',
    '2Ki',
    '2 Ki',
    '"2 Ki" is not a quantity such as 512, 1k, 2Ki, 3M or 4Gi',
  ],
  'log-json-info-buffer-size': [
    '1M',
    '1M',
    'M',
    '"M" is not a quantity such as 512, 1k, 2Ki, 3M or 4Gi',
  ],
};

interface Sample {
  readonly good: string;
  readonly shown: string;
  readonly bad: string;
  readonly error: string;
}

function sampleOf(name: string, kind: Kind): Sample {
  if (kind !== 'other') return samples[kind];
  const [good, shown, bad, error] = special[name]!;
  return { good, shown, bad, error };
}

function textOf(argv: readonly string[], name: string): string {
  const flags = parseFlags(argv);
  return flags.ok ? flags.text(flagKeys.get(name)!) : flags.error;
}

function shownName(name: string): string {
  return name === 'v' ? '-v, --v' : `--${name}`;
}

describe.each(contract)('--%s', (name, kind, standard) => {
  const { good, shown } = sampleOf(name, kind);

  test(`holds ${JSON.stringify(standard)} when it is not given`, () => {
    expect(textOf([], name)).toBe(standard);
  });

  test('accepts a value after an equals sign or as the next word', () => {
    expect(textOf([`--${name}=${good}`], name)).toBe(shown);
    const takesNext = kind !== 'bool' && name !== 'version';
    if (takesNext) expect(textOf([`--${name}`, good], name)).toBe(shown);
    else expect(textOf([`--${name}`], name)).toBe('true');
  });

  test('records whether it was given', () => {
    const flags = parseFlags([`--${name}=${good}`]);
    expect(flags.ok && flags.isSet(flagKeys.get(name)!)).toBe(true);
    const none = parseFlags([]);
    expect(none.ok && none.isSet(flagKeys.get(name)!)).toBe(false);
  });

  test('accepts underscores for hyphens', () => {
    expect(textOf([`--${name.replaceAll('-', '_')}=${good}`], name)).toBe(shown);
  });
});

const refusing = contract.filter(([, kind]) => kind !== 'string');

test.each(refusing)('--%s rejects an invalid value with the message of pflag', (name, kind) => {
  const { bad, error } = sampleOf(name, kind);
  expect(parseFlags([`--${name}=${bad}`])).toEqual({
    ok: false,
    error: `invalid argument ${JSON.stringify(bad)} for "${shownName(name)}" flag: ${error}`,
    hint: '',
  });
});

// These end the program before the question comes up.
const ending = ['cleanup', 'init-only', 'write-config-to', 'version'];

test.each(contract.filter(([name]) => !ending.includes(name)))(
  '--%s with a file has the precedence of the contract',
  (name, _kind, standard, withConfig) => {
    // The default is a value that no rule refuses, so only the precedence shows.
    const result = load([`--${name}=${standard.replace('[]', '')}`], 'mode: iptables\n');
    const dropped = `ignored, because --config is given: --${name}`;
    expect(running(result).warnings.includes(dropped)).toBe(withConfig === 'dropped');
  },
);

describe('the set of flags', () => {
  test('is kube-proxy’s, and our own marked flags', () => {
    const known = new Set([...contract.map(([name]) => name), 'config', 'help']);
    const ours = [...flagKeys.keys()].filter((name) => !known.has(name));
    const marked = [...flagKeys].filter(([, key]) => settingTable[key].origin === 'own');
    expect(marked.map(([name]) => name)).toEqual(ours);
  });

  test('has every flag of the contract', () => {
    const missing = contract.filter(([name]) => !flagKeys.has(name));
    expect(missing).toEqual([]);
  });

  test.each(Object.entries(formerFlags))('--%s is unknown, with advice', (name, hint) => {
    const text = errorOf(load([`--${name}=1`]));
    expect(text).toContain(`Error: unknown flag: --${name}\n  ${hint}\n`);
  });
});
