import { defaultUserspaceSettings } from '../../modes/mode.ts';
import { toMs } from '../duration.ts';
import type { Quantity } from '../go-values.ts';
import { areVModules, isLogFormat, isPortRange, needsAlphaOptions } from './checks.ts';
import { bool, duration, grouped, other, positive, string } from './spec.ts';

/** What the program is to do; only flags say it. */
export const runSettings = grouped('run', {
  '--config': string(
    'Path of a KubeProxyConfiguration file. With it, only flags of start and logging, ' +
      '--master, --manifests and --hostname-override count (docs/flags.md).',
    { offers: 'files' },
  ),
  '--write-config-to': string('Write the effective configuration to this file and exit.', {
    offers: 'files',
    withConfig: 'kept',
  }),
  '--cleanup': bool('Remove the rules of every mode and exit.', { withConfig: 'kept' }),
  '--dry-run': bool(
    'Print what a start would write, set and take over, or what --cleanup would remove, ' +
      'and exit.',
    { withConfig: 'kept', origin: 'own' },
  ),
  '--ignore-other-instance': bool(
    'Start or clean up although another Fairlead runs in this network namespace. Two ' +
      "instances undo each other's changes.",
    { config: 'ignoreOtherInstance', withConfig: 'kept', origin: 'own' },
  ),
  '--init-only': bool(
    'Do what needs full privileges and exit; afterwards CAP_NET_ADMIN is enough.',
    { withConfig: 'kept' },
  ),
  '--version': other('version')(
    'Print the version and exit; raw: all of it. vX.Y.Z: report that version instead ' +
      'and continue.',
    { default: 'false', bare: 'true', withConfig: 'kept' },
  ),
  '--help': bool('Print this text and exit.', { shorthand: 'h', withConfig: 'kept' }),
});

const alpha = { rules: 'needs feature gate LoggingAlphaOptions', withConfig: 'kept' } as const;
const splitStream = (format: 'text' | 'json') =>
  bool(`Format ${format}: errors to stderr, the rest to stdout. Checked, without effect.`, {
    ...alpha,
    check: needsAlphaOptions((isSplit: boolean) => isSplit),
    omitted: true,
    restart: 'always',
  });
const infoBufferSize = (format: 'text' | 'json') =>
  other('quantity')(
    `Format ${format}, split: how much of the rest may be buffered. Checked, without effect.`,
    {
      ...alpha,
      default: '0',
      check: needsAlphaOptions(({ bytes }: Quantity) => bytes !== 0),
      restart: 'always',
    },
  );

export const loggingSettings = grouped('logging', {
  'logging.format --logging-format': string(
    'How log lines look. Not given: text at a terminal, json elsewhere.',
    {
      offers: ['text', 'json'],
      default: 'text',
      rules: 'text or json',
      check: isLogFormat,
      withConfig: 'kept',
      restart: 'always',
    },
  ),
  'logging.flushFrequency --log-flush-frequency': other('nanoseconds')('Checked, without effect.', {
    default: '5s',
    bounds: positive,
    withConfig: 'kept',
  }),
  'logging.verbosity --v': other('level')(
    '0 is least; 2 includes syncs, 4 every Service that changes.',
    { config: 'logging.verbosity', shorthand: 'v', withConfig: 'kept' },
  ),
  'logging.vmodule --vmodule': other('vmodule')('Checked, without effect.', {
    rules: 'format text only; file patterns without = and comma',
    check: areVModules,
    withConfig: 'kept',
    omitted: true,
  }),
  'logging.options.text.splitStream --log-text-split-stream': splitStream('text'),
  'logging.options.text.infoBufferSize --log-text-info-buffer-size': infoBufferSize('text'),
  'logging.options.json.splitStream --log-json-split-stream': splitStream('json'),
  'logging.options.json.infoBufferSize --log-json-info-buffer-size': infoBufferSize('json'),
});

const ignored = (standard: string) =>
  string('Accepted, without effect.', { default: standard, withConfig: 'kept' });

const windows = { origin: 'windows' } as const;

/** Gates, what mode userspace once needed, and what Windows nodes have. */
export const otherSettings = grouped('other', {
  'featureGates --feature-gates': other('bool-map')('Switches features, by name (below).', {
    rules: 'known gates; a locked gate keeps its value',
    errorPath: 'featureGates',
    omitted: true,
    restart: 'always',
  }),
  portRange: string(
    'Checked, without effect: mode userspace listens at the addresses and ports of ' +
      'Services themselves.',
    {
      rules: 'first-last, first+count or one port',
      check: isPortRange,
      checkedIn: ['userspace'],
      origin: 'older',
    },
  ),
  udpIdleTimeout: duration(
    'How long mode userspace waits for either side of a UDP exchange. Later answers are lost.',
    {
      config: 'userspace.udpIdleTimeoutMs',
      make: (ns) => (ns > 0n ? toMs(ns) : defaultUserspaceSettings.udpIdleTimeoutMs),
      default: '250ms',
      bounds: positive,
      checkedIn: ['userspace'],
      errorPath: 'UDPIdleTimeout',
      origin: 'older',
    },
  ),
  windowsRunAsService: bool('Run under the service control manager.', {
    ...windows,
    omitted: true,
  }),
  'winkernel.networkName': string('Name of the HNS network.', windows),
  'winkernel.sourceVip': string('Source address for NAT.', windows),
  'winkernel.enableDSR': bool('Direct server return.', windows),
  'winkernel.rootHnsEndpointName': string('Endpoint of the root network namespace.', windows),
  'winkernel.forwardHealthCheckVip': bool('Forward the VIP of health checks.', windows),
  '--boot-id-file': ignored('/proc/sys/kernel/random/boot_id'),
  '--machine-id-file': ignored('/etc/machine-id,/var/lib/dbus/machine-id'),
});
