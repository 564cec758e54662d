import { modeNames, modeTable } from '../../modes/mode-table.ts';
import { configuredDetections } from '../../state/detection.ts';
import { areCIDRs, isMode, isOneOf, isSelector } from './checks.ts';
import { inMode, oneOf, toCIDRs, toSeconds } from './makers.ts';
import {
  bool,
  duration,
  grouped,
  int32,
  notNegative,
  other,
  own,
  positive,
  string,
  strings,
} from './spec.ts';

export const connectTimes = ['off', 'host', 'all'] as const;
const fastPaths = ['off', 'flowtable'] as const;

/** Requested modes that take their sync periods from the `iptables` section. */
const iptablesLike = ['', ...modeNames.filter((name) => modeTable[name].section === 'iptables')];

const bit = {
  default: '14',
  keepsZero: true,
  bounds: { min: 0, max: 31 },
} as const;
const syncPeriodMeaning =
  'Longest wait before a refused Service is tried again; /healthz and /livez fail at ' +
  'twice this time.';
const alsoFullSync = (mode: string): string =>
  `${syncPeriodMeaning} In mode ${mode} also of full comparisons.`;
const masqueradeAll = 'Masquerade everything that is sent to a ClusterIP.';

/** The periods of the section of some requested modes. */
const period = (checkedIn: readonly string[], meaning = syncPeriodMeaning) =>
  duration(meaning, {
    default: '30s',
    bounds: positive,
    checkedIn,
    rules: 'not below `minSyncPeriod`',
    errorPath: 'SyncPeriod',
  });
const minPeriod = (checkedIn: readonly string[], standard?: '1s') =>
  duration(
    "Least time between two syncs. With 0 or 1s (kube-proxy's default), it follows what " +
      'syncs cost.',
    {
      ...(standard && { default: standard }),
      bounds: notNegative,
      checkedIn,
      errorPath: 'MinSyncPeriod',
    },
  );
const maxPeriod = (checkedIn: readonly string[]) =>
  duration('Longest time between two comparisons with the kernel.', {
    bounds: notNegative,
    checkedIn,
    rules: 'not below `minSyncPeriod`; 0 = the default, 1h0m0s or `minSyncPeriod`',
    errorPath: 'MaxSyncPeriod',
    origin: 'own',
    omitted: true,
  });

/** What carries the traffic, and how it is kept in sync. */
export const modeSettings = grouped('mode', {
  'mode --proxy-mode': string(
    'What carries the traffic. Empty: nftables or, where the kernel cannot do it, ' +
      'iptables. Fallbacks: from nftables and ipvs to iptables, from there to userspace.',
    {
      config: 'mode',
      make: oneOf(['', ...modeNames]),
      offers: modeNames,
      rules: `${modeNames.join(', ')} or empty`,
      check: isMode,
      forIpvs: {
        kept:
          'Mode ipvs: Services are virtual services of IPVS; filters are in one table of nf_tables, ' +
          'without ipset and iptables.',
        nftables: 'Set it to nftables. Connections that IPVS carries end first.',
      },
      errorPath: 'Mode.ProxyMode',
    },
  ),
  'nftables.masqueradeBit': int32(
    'Bit of the packet mark that asks for masquerading, in nftables mode.',
    { ...bit, checkedIn: ['nftables'] },
  ),
  'nftables.masqueradeAll': bool(masqueradeAll),
  'nftables.syncPeriod': period(['nftables']),
  'nftables.minSyncPeriod': minPeriod(['nftables'], '1s'),
  'nftables.maxSyncPeriod': maxPeriod(['nftables']),
  '--masquerade-all': bool('Masquerade everything that is sent to a ClusterIP, in every mode.'),
  'iptables.masqueradeBit --iptables-masquerade-bit': int32(
    'Bit of the packet mark that asks for masquerading, in iptables and ipvs mode.',
    {
      ...bit,
      forIpvs: { kept: 'Is used in mode ipvs, too.', nftables: '`nftables.masqueradeBit`' },
      flagMeaning:
        'Bit of the packet mark that asks for masquerading, in modes iptables and ipvs. ' +
        'Mode nftables: only in a file.',
    },
  ),
  'iptables.masqueradeAll': bool(`${masqueradeAll} Also holds for ipvs mode.`, {
    forIpvs: { kept: 'Is used in mode ipvs, too.', nftables: '`nftables.masqueradeAll`' },
  }),
  'iptables.localhostNodePorts --iptables-localhost-nodeports': bool(
    'Let node ports answer on 127.0.0.1 too, in modes iptables and userspace.',
    {
      config: 'iptables.localhostNodePorts',
      default: 'true',
      keepsZero: true,
      restart: 'in its mode',
    },
  ),
  'iptables.syncPeriod': period(iptablesLike, alsoFullSync('userspace')),
  'iptables.minSyncPeriod': minPeriod(iptablesLike, '1s'),
  'iptables.maxSyncPeriod': maxPeriod(iptablesLike),
  '--iptables-sync-period': duration(
    'Sets iptables.syncPeriod, or nftables.syncPeriod in mode nftables. Above 0.',
    { default: '30s' },
  ),
  '--iptables-min-sync-period': duration(
    'Sets iptables.minSyncPeriod, or nftables.minSyncPeriod in mode nftables.',
    { default: '1s' },
  ),
  '--iptables-max-sync-period': duration(
    'Sets iptables.maxSyncPeriod, or nftables.maxSyncPeriod in mode nftables.',
    { origin: 'own' },
  ),
  ...own({
    'connectTime --connect-time': other('string-or-off')(
      'TCP connections that eBPF sends to an endpoint at connect time: none, those of the ' +
        "node's network namespace, or also those of pods (docs/connect-time.md).",
      {
        make: oneOf(connectTimes),
        default: 'off',
        rules: 'off, host or all',
        check: isOneOf(connectTimes),
      },
    ),
    'connectTimeExcludedPods --connect-time-excluded-pods': string(
      'Pods without connect time, such as `mesh=on,app!=web`. Needs the right to list and ' +
        'watch pods. Empty: none.',
      { rules: 'a label selector', check: isSelector },
    ),
    'fastPath --fast-path': other('string-or-off')(
      'How established connections travel in modes nftables and iptables: by the rules, ' +
        'or by a flowtable from device to device (docs/fast-path.md).',
      {
        make: oneOf(fastPaths),
        default: 'off',
        rules: 'off or flowtable',
        check: isOneOf(fastPaths, ' or '),
      },
    ),
    'fastPathPackets --fast-path-packets': int32(
      'Packets of both directions after which a connection goes to the flowtable.',
      { default: '20', bounds: { min: 0 } },
    ),
    'failureDetection --failure-detection': other('string-or-off')(
      'Silent endpoints (docs/balancing.md). off: not counted. by-annotation: as Services ' +
        'say. observe: counted. eject: also no new connections. Annotations win, except ' +
        'over off.',
      {
        make: oneOf(configuredDetections),
        default: 'off',
        rules: 'off, by-annotation, observe or eject',
        check: isOneOf(configuredDetections),
      },
    ),
    'failureDetectionMaxEjected --failure-detection-max-ejected': int32(
      "Percent of a pool's endpoints that may get no new connections because they do not " +
        'answer. One endpoint always gets them.',
      { default: '50', bounds: { min: 0, max: 100 } },
    ),
  }),
  '--own-tables': bool(
    'Let the kernel refuse changes of others to our tables of nf_tables (Linux 6.9 and ' +
      'newer). Otherwise, changes are repaired.',
    { config: 'ownTables', default: 'true', withConfig: 'kept', origin: 'own' },
  ),
});

const ipvsTimeout = <Name extends string>(name: Name, meaning: string, instead: string) =>
  duration(`${meaning} 0: the kernel's value stays.`, {
    config: `ipvs.${name}TimeoutSeconds`,
    make: inMode('ipvs', toSeconds, 0),
    forIpvs: {
      kept: 'Is set in IPVS, in whole seconds, rounded up.',
      nftables: `No effect. Connection tracking has ${instead}.`,
    },
    bounds: notNegative,
    checkedIn: ['ipvs'],
    restart: 'in its mode',
  });

export const ipvsSettings = grouped('ipvs', {
  'ipvs.syncPeriod': {
    ...period(['ipvs'], alsoFullSync('ipvs')),
    forIpvs: {
      kept:
        'Is the time between two full comparisons, and the longest wait before a Service that the ' +
        'kernel has refused is tried again.',
      nftables: '`nftables.syncPeriod`, and `nftables.maxSyncPeriod` for full comparisons.',
    },
  },
  'ipvs.minSyncPeriod': {
    ...minPeriod(['ipvs']),
    forIpvs: { kept: 'Is kept; 1s counts as none.', nftables: '`nftables.minSyncPeriod`' },
  },
  '--ipvs-sync-period': duration('Longest time between two full syncs in mode ipvs. Above 0.', {
    default: '30s',
  }),
  '--ipvs-min-sync-period': duration('Least time between two syncs in mode ipvs. 0 and 1s: none.', {
    default: '1s',
  }),
  'ipvs.scheduler --ipvs-scheduler': string(
    'How a virtual service chooses its destination. Empty: rr.',
    {
      config: 'ipvs.scheduler',
      make: (name) => name || 'rr',
      forIpvs: {
        kept: 'Every scheduler that the kernel has. All weights are 1, as in kube-proxy.',
        nftables: 'No effect: each connection gets an endpoint at random.',
      },
      rules: 'a scheduler that the kernel has; asked at start',
      restart: 'in its mode',
    },
  ),
  'ipvs.excludeCIDRs --ipvs-exclude-cidrs': strings(
    'Virtual services with an address in these blocks are never touched.',
    {
      config: 'ipvs.excludeCIDRs',
      make: inMode('ipvs', toCIDRs, []),
      forIpvs: {
        kept:
          'Virtual services in these blocks are left alone. Others are touched only if Fairlead made ' +
          'them, or if they are at an address of `kube-ipvs0`.',
        nftables: 'No effect: mode nftables has no virtual services.',
      },
      rules: 'CIDRs',
      check: areCIDRs,
      checkedIn: ['ipvs'],
      errorPath: 'KubeProxyIPVSConfiguration.ExcludeCidrs',
      restart: 'in its mode',
    },
  ),
  'ipvs.strictARP --ipvs-strict-arp': bool(
    'Set arp_ignore to 1 and arp_announce to 2, so that only owners answer for a VIP.',
    {
      config: 'ipvs.strictARP',
      forIpvs: {
        kept: 'The two sysctls are set.',
        nftables: 'Not needed: no address of a Service is put on a link.',
      },
      restart: 'in its mode',
    },
  ),
  'ipvs.tcpTimeout --ipvs-tcp-timeout': ipvsTimeout(
    'tcp',
    'Idle timeout of TCP connections in IPVS.',
    '`conntrack.tcpEstablishedTimeout`',
  ),
  'ipvs.tcpFinTimeout --ipvs-tcpfin-timeout': ipvsTimeout(
    'tcpFin',
    'Timeout of TCP connections in IPVS after a FIN.',
    '`conntrack.tcpCloseWaitTimeout`',
  ),
  'ipvs.udpTimeout --ipvs-udp-timeout': ipvsTimeout(
    'udp',
    'Timeout of UDP exchanges in IPVS.',
    '`conntrack.udpTimeout` and `conntrack.udpStreamTimeout`',
  ),
  '--ipvs-counters': bool(
    'Metrics of what each virtual service and each real server has carried.',
    { config: 'ipvs.counters', withConfig: 'kept', origin: 'own' },
  ),
});
