/** Size and timeouts of connection tracking (behaviour document 3.4). */
import { cpus } from 'node:os';
import type { ConntrackConfig } from '../config/config.ts';
import type { HostFiles } from './files.ts';

const sysctls = '/proc/sys/net/netfilter';
const maxPath = `${sysctls}/nf_conntrack_max`;
const hashSizePath = '/sys/module/nf_conntrack/parameters/hashsize';
const cpusOnlinePath = '/sys/devices/system/cpu/online';

/** What `maxPerCore` alone never asks for more than, on machines with very many cores. */
const maxCap = 1_048_576;
/** Entries for each bucket of the hash table. */
const entriesPerBucket = 4;

/** A sysctl that is wanted; nothing was written where both values are the same. */
export interface SettingChange {
  readonly path: string;
  /** Undefined when it could not be read. */
  readonly from: string | undefined;
  readonly to: string;
}

/**
 * The limit of entries; undefined = leave it alone. `min` is a floor whatever the machine: it also
 * counts above the cap of what is computed from the cores.
 */
export function conntrackMax(
  { maxPerCore, min }: Pick<ConntrackConfig, 'maxPerCore' | 'min'>,
  cores: number,
): number | undefined {
  if (maxPerCore === 0) return undefined;
  return Math.max(Math.min(maxPerCore * cores, maxCap), min);
}

/**
 * Writes what differs from the configuration. `changed` is told of each write. Throws an Error of
 * one line that names the file and what to do about it.
 */
export function setConntrack(
  config: ConntrackConfig,
  files: HostFiles,
  changed: (change: SettingChange) => void,
): void {
  for (const { path, value, atLeast, advice } of wantedSettings(config, coresOf(files))) {
    const to = String(value);
    try {
      const from = files.read(path);
      if (from === to || (atLeast && Number(from) >= value)) continue;
      files.write(path, to);
      changed({ path, from, to });
    } catch (error) {
      const reason = `${(error as Error).message} (${advice} leaves it alone)`;
      throw new Error(
        `could not set conntrack parameters from kube-proxy configuration: ${path} to ${to}: ${reason}`,
      );
    }
  }
}

interface Setting {
  readonly path: string;
  readonly value: number;
  /** A larger value is as good. */
  readonly atLeast: boolean;
  /** How an operator says that it is none of our business. */
  readonly advice: string;
}

function wantedSettings(config: ConntrackConfig, cores: number): Setting[] {
  const settings: Setting[] = [];
  const max = conntrackMax(config, cores);
  if (max !== undefined) {
    const advice = 'conntrack.maxPerCore: 0';
    settings.push({ path: maxPath, value: max, atLeast: false, advice });
    const buckets = Math.floor(max / entriesPerBucket);
    settings.push({ path: hashSizePath, value: buckets, atLeast: true, advice });
  }
  if (config.tcpBeLiberal) {
    const path = `${sysctls}/nf_conntrack_tcp_be_liberal`;
    const advice = 'conntrack.tcpBeLiberal: false';
    settings.push({ path, value: 1, atLeast: false, advice });
  }
  for (const [name, field, timeoutMs] of [
    ['tcp_timeout_established', 'tcpEstablishedTimeout', config.tcpEstablishedTimeoutMs],
    ['tcp_timeout_close_wait', 'tcpCloseWaitTimeout', config.tcpCloseWaitTimeoutMs],
    ['udp_timeout', 'udpTimeout', config.udpTimeoutMs],
    ['udp_timeout_stream', 'udpStreamTimeout', config.udpStreamTimeoutMs],
  ] as const) {
    if (timeoutMs <= 0) continue;
    const path = `${sysctls}/nf_conntrack_${name}`;
    // Rounded up: a timeout below a second must not become none at all.
    const value = Math.ceil(timeoutMs / 1000);
    settings.push({ path, value, atLeast: false, advice: `conntrack.${field}: 0s` });
  }
  return settings;
}

/** Whether the kernel has connection tracking, and it is loaded. */
export function hasConntrack(files: HostFiles): boolean {
  return files.read(maxPath) !== undefined;
}

/** Whether TCP packets outside of their connection's window are no reason to call them invalid. */
export function isConntrackLiberal(files: HostFiles): boolean {
  return (files.read(`${sysctls}/nf_conntrack_tcp_be_liberal`) ?? '0') !== '0';
}

/** CPUs of the machine that are online, whatever part of them this process may use. */
export function coresOf(files: HostFiles): number {
  const ranges = (files.read(cpusOnlinePath) ?? '').split(',');
  const counts = ranges.map((range) => {
    const [first, last = first] = range.split('-').map(Number);
    return last! - first! + 1;
  });
  const cores = counts.reduce((sum, count) => sum + count, 0);
  return Number.isInteger(cores) && ranges[0] !== '' ? cores : cpus().length;
}
