import type { FieldTable } from './spec.ts';

/** Requested modes that take their sync periods from the `iptables` section. */
const iptablesLike = ['', 'iptables', 'userspace'] as const;

const bit = { kind: 'range', min: 0, max: 31 } as const;
const syncPeriod =
  'Longest wait before a Service that the kernel has refused is tried again. /healthz and ' +
  '/livez fail when a sync has been due for twice this time.';
const minSyncPeriod =
  'Least time between two syncs; changes in between go together. ' +
  "1s, which is kube-proxy's default, counts as none.";
const maxSyncPeriod =
  'Longest time between two full syncs, which compare the kernel with what should be there.';
const masqueradeAll = 'Masquerade everything that is sent to a ClusterIP.';
const periodRules = 'not below `minSyncPeriod`';
const maxPeriodRules = 'not below `minSyncPeriod`; 0 = the default, 1h0m0s or `minSyncPeriod`';

/** What carries the traffic, and how it is kept in sync. */
export const modeFields = {
  mode: {
    type: 'string',
    rules: 'nftables, ipvs, iptables, userspace or empty',
    errorPath: 'Mode.ProxyMode',
    meaning:
      'What carries the traffic. Empty: nftables when the kernel can do it, else iptables. A ' +
      'mode that the kernel cannot do falls back: nftables and ipvs to iptables, iptables to ' +
      'userspace, which needs nothing but sockets and addresses.',
  },
  'nftables.masqueradeBit': {
    type: 'int32',
    default: '14',
    keepsZero: true,
    bounds: bit,
    boundsIn: ['nftables'],
    errorPath: 'KubeProxyNFTablesConfiguration.MasqueradeBit',
    meaning: 'Bit of the packet mark that asks for masquerading, in nftables mode.',
  },
  'nftables.masqueradeAll': { type: 'bool', meaning: masqueradeAll },
  'nftables.syncPeriod': {
    type: 'duration',
    default: '30s',
    bounds: { kind: 'positive' },
    boundsIn: ['nftables'],
    rules: periodRules,
    errorPath: 'SyncPeriod',
    meaning: syncPeriod,
  },
  'nftables.minSyncPeriod': {
    type: 'duration',
    default: '1s',
    bounds: { kind: 'not-negative' },
    boundsIn: ['nftables'],
    errorPath: 'MinSyncPeriod',
    meaning: minSyncPeriod,
  },
  'nftables.maxSyncPeriod': {
    type: 'duration',
    bounds: { kind: 'not-negative' },
    boundsIn: ['nftables'],
    rules: maxPeriodRules,
    errorPath: 'MaxSyncPeriod',
    origin: 'own',
    meaning: maxSyncPeriod,
  },
  'iptables.masqueradeBit': {
    type: 'int32',
    default: '14',
    keepsZero: true,
    bounds: bit,
    errorPath: 'KubeProxyIPTablesConfiguration.MasqueradeBit',
    meaning: 'Bit of the packet mark that asks for masquerading, in iptables and ipvs mode.',
  },
  'iptables.masqueradeAll': {
    type: 'bool',
    meaning: `${masqueradeAll} Also holds for ipvs mode.`,
  },
  'iptables.localhostNodePorts': {
    type: 'bool',
    default: 'true',
    keepsZero: true,
    meaning: 'Let node ports answer on 127.0.0.1 too; iptables and userspace mode, IPv4 only.',
  },
  'iptables.syncPeriod': {
    type: 'duration',
    default: '30s',
    bounds: { kind: 'positive' },
    boundsIn: iptablesLike,
    rules: periodRules,
    errorPath: 'SyncPeriod',
    meaning: `${syncPeriod} In userspace mode it is also the longest time between two full syncs.`,
  },
  'iptables.minSyncPeriod': {
    type: 'duration',
    default: '1s',
    bounds: { kind: 'not-negative' },
    boundsIn: iptablesLike,
    errorPath: 'MinSyncPeriod',
    meaning: minSyncPeriod,
  },
  'iptables.maxSyncPeriod': {
    type: 'duration',
    bounds: { kind: 'not-negative' },
    boundsIn: iptablesLike,
    rules: maxPeriodRules,
    errorPath: 'MaxSyncPeriod',
    origin: 'own',
    meaning: maxSyncPeriod,
  },
  'ipvs.syncPeriod': {
    type: 'duration',
    default: '30s',
    bounds: { kind: 'positive' },
    boundsIn: ['ipvs'],
    rules: periodRules,
    errorPath: 'SyncPeriod',
    meaning: `${syncPeriod} In ipvs mode it is also the longest time between two full syncs.`,
  },
  'ipvs.minSyncPeriod': {
    type: 'duration',
    bounds: { kind: 'not-negative' },
    boundsIn: ['ipvs'],
    errorPath: 'MinSyncPeriod',
    meaning: minSyncPeriod,
  },
  'ipvs.scheduler': {
    type: 'string',
    rules: 'a scheduler that the kernel has; asked at start',
    meaning: 'How a virtual service chooses its destination. Empty: rr.',
  },
  'ipvs.excludeCIDRs': {
    type: 'strings',
    rules: 'CIDRs; checked in ipvs mode',
    errorPath: 'KubeProxyIPVSConfiguration.ExcludeCidrs',
    meaning: 'Virtual services with an address in these blocks are never touched.',
  },
  'ipvs.strictARP': {
    type: 'bool',
    meaning: 'Set arp_ignore to 1 and arp_announce to 2, so that only owners answer for a VIP.',
  },
  'ipvs.tcpTimeout': {
    type: 'duration',
    bounds: { kind: 'not-negative' },
    boundsIn: ['ipvs'],
    errorPath: 'KubeProxyIPVSConfiguration.TCPTimeout',
    meaning: "Idle timeout of TCP connections in IPVS. 0: the kernel's value stays.",
  },
  'ipvs.tcpFinTimeout': {
    type: 'duration',
    bounds: { kind: 'not-negative' },
    boundsIn: ['ipvs'],
    errorPath: 'KubeProxyIPVSConfiguration.TCPFinTimeout',
    meaning: "Timeout of TCP connections in IPVS after a FIN. 0: the kernel's value stays.",
  },
  'ipvs.udpTimeout': {
    type: 'duration',
    bounds: { kind: 'not-negative' },
    boundsIn: ['ipvs'],
    errorPath: 'KubeProxyIPVSConfiguration.UDPTimeout',
    meaning: "Timeout of UDP exchanges in IPVS. 0: the kernel's value stays.",
  },
} as const satisfies FieldTable;
