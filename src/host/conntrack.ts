/** Size and timeouts of connection tracking (behaviour document 3.4). */
import { cpus } from 'node:os';
import type { Config } from '../config/config.ts';
import type { Sysctl } from '../modes/sysctl.ts';
import type { ReadableFiles } from './files.ts';

const sysctls = '/proc/sys/net/netfilter';
const maxPath = `${sysctls}/nf_conntrack_max`;
const countPath = `${sysctls}/nf_conntrack_count`;
const liberalPath = `${sysctls}/nf_conntrack_tcp_be_liberal`;
/** The same as `/sys/module/nf_conntrack/parameters/hashsize`, and for CAP_NET_ADMIN, too. */
const hashSizePath = `${sysctls}/nf_conntrack_buckets`;
const cpusOnlinePath = '/sys/devices/system/cpu/online';

/** Missing without CONFIG_NF_CONNTRACK_TIMESTAMP. */
const timestampPath = `${sysctls}/nf_conntrack_timestamp`;

/** The most that `maxPerCore` asks for, on machines with very many cores. */
const maxCap = 1_048_576;
/** Entries for each bucket of the hash table. */
const entriesPerBucket = 4;

/**
 * The limit of entries; undefined = leave it alone. `min` is a floor for every machine, even when
 * it is above the cap for what is computed from the cores.
 */
export function conntrackMax(
  { maxPerCore, min }: Pick<Config['conntrack'], 'maxPerCore' | 'min'>,
  cores: number,
): number | undefined {
  if (maxPerCore === 0) return undefined;
  return Math.max(Math.min(maxPerCore * cores, maxCap), min);
}

/** Reports whether the limit of entries is configured. The default never lowers the machine's. */
export function isLimitGiven({ given }: Pick<Config, 'given'>): boolean {
  return given.includes('conntrack.maxPerCore') || given.includes('conntrack.min');
}

/**
 * The settings that the configuration asks for; 0 leaves a setting alone. `limit`: whether a higher
 * limit of entries is as good as the one that is asked for.
 */
export function conntrackSysctls(
  config: Config['conntrack'],
  files: ReadableFiles,
  limit: 'exact' | 'at least',
): Sysctl[] {
  const desired: Sysctl[] = [];
  const want = (path: string, value: number, instead: string, atLeast = false): void => {
    const purpose = 'set conntrack parameters from kube-proxy configuration';
    const advice = `conntrack.${instead} leaves it alone`;
    desired.push({ path, value: String(value), atLeast, purpose, advice });
  };
  const max = conntrackMax(config, coresOf(files));
  if (max !== undefined) {
    want(maxPath, max, 'maxPerCore: 0', limit === 'at least');
    want(hashSizePath, Math.floor(max / entriesPerBucket), 'maxPerCore: 0', true);
  }
  if (config.countsBytes) {
    want(`${sysctls}/nf_conntrack_acct`, 1, 'serviceBytes: false');
    if (files.read(timestampPath) !== undefined) want(timestampPath, 1, 'serviceBytes: false');
  }
  if (config.tcpBeLiberal) want(liberalPath, 1, 'tcpBeLiberal: false');
  for (const [name, field, timeoutMs] of [
    ['tcp_timeout_established', 'tcpEstablishedTimeout', config.tcpEstablishedTimeoutMs],
    ['tcp_timeout_close_wait', 'tcpCloseWaitTimeout', config.tcpCloseWaitTimeoutMs],
    ['udp_timeout', 'udpTimeout', config.udpTimeoutMs],
    ['udp_timeout_stream', 'udpStreamTimeout', config.udpStreamTimeoutMs],
  ] as const) {
    // Rounded up, so that a timeout below a second does not become 0.
    const seconds = Math.ceil(timeoutMs / 1000);
    if (timeoutMs > 0) want(`${sysctls}/nf_conntrack_${name}`, seconds, `${field}: 0s`);
  }
  return desired;
}

/** Timers that begin with the last packet; empty: an open connection ends otherwise. */
const timers = [
  ...['', 'tcp_timeout_syn_sent', 'tcp_timeout_syn_recv', '', 'tcp_timeout_fin_wait'],
  ...['tcp_timeout_close_wait', 'tcp_timeout_last_ack', 'tcp_timeout_time_wait'],
  ...['tcp_timeout_close', 'tcp_timeout_syn_sent', 'udp_timeout', 'udp_timeout_stream'],
];

/** Seconds by TCP state (TCP_CONNTRACK_*), then of UDP: without and with IPS_ASSURED. */
export function closingTimers(files: ReadableFiles | undefined): readonly number[] {
  return timers.map((name) => {
    const isTimer = files !== undefined && name !== '';
    return Number((isTimer && readIfPossible(files, `${sysctls}/nf_conntrack_${name}`)) || 0);
  });
}

/** Whether the kernel has connection tracking, and it is loaded. */
export function hasConntrack(files: ReadableFiles): boolean {
  return files.read(maxPath) !== undefined;
}

/**
 * How full connection tracking is; undefined where it cannot be read, or has no limit, as which the
 * kernel takes 0.
 */
export function conntrackUse(files: ReadableFiles): { entries: number; limit: number } | undefined {
  const [entries, limit] = [readIfPossible(files, countPath), readIfPossible(files, maxPath)];
  return entries !== undefined && Number(limit) > 0
    ? { entries: Number(entries), limit: Number(limit) }
    : undefined;
}

/** Undefined also where the process lacks a descriptor: what it asks again and again can wait. */
function readIfPossible(files: ReadableFiles, path: string): string | undefined {
  try {
    return files.read(path);
  } catch {
    return undefined;
  }
}

/** What connection tracking has lost, since the machine started. */
export interface ConntrackLosses {
  /** Packets dropped because no entry could be made for them: the table was full. */
  readonly dropped: number;
  /** Entries deleted before their time, to make room for others. */
  readonly evicted: number;
  /** Packets dropped because another packet had created the same entry first. */
  readonly clashed: number;
}

const statisticsPath = '/proc/net/stat/nf_conntrack';

/** A line for each CPU below the names of the columns; undefined where it cannot be read. */
export function conntrackLosses(files: ReadableFiles): ConntrackLosses | undefined {
  const [names = '', ...lines] = (readIfPossible(files, statisticsPath) ?? '').split('\n');
  const columns = names.split(/\s+/);
  const sum = (name: string): number => {
    const at = columns.indexOf(name);
    return lines.reduce((all, line) => all + Number.parseInt(line.split(/\s+/)[at]!, 16), 0);
  };
  if (!columns.includes('early_drop')) return undefined;
  return { dropped: sum('drop'), evicted: sum('early_drop'), clashed: sum('insert_failed') };
}

/** Whether connection tracking accepts TCP packets outside of their connection's window. */
export function isConntrackLiberal(files: ReadableFiles): boolean {
  return (files.read(liberalPath) ?? '0') !== '0';
}

/** The machine's CPUs that are online, even if this process may use fewer. */
export function coresOf(files: ReadableFiles): number {
  const ranges = (files.read(cpusOnlinePath) ?? '').split(',');
  const counts = ranges.map((range) => {
    const [first, last = first] = range.split('-').map(Number);
    return last! - first! + 1;
  });
  const cores = counts.reduce((sum, count) => sum + count, 0);
  return Number.isInteger(cores) && ranges[0] !== '' ? cores : cpus().length;
}
