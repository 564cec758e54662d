import { describe, expect, it } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import { conntrackMax, conntrackSysctls, coresOf } from '../../../src/host/conntrack.ts';
import { type HostFiles, hostFiles } from '../../../src/host/files.ts';
import {
  type SettingChange,
  type SysctlObserver,
  setSysctls,
  sysctlsOf,
} from '../../../src/host/sysctls.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import { userspaceMode } from '../../../src/modes/userspace/mode.ts';
import { configOf, load, loadFile } from '../config/support.ts';
import { contentOf, machine, machineRoot } from './machine.ts';

const sysctls = '/proc/sys/net/netfilter';
const buckets = '/proc/sys/net/netfilter/nf_conntrack_buckets';
const kernelDefaults = {
  '/sys/devices/system/cpu/online': '0-3,8,10-11\n',
  [`${sysctls}/nf_conntrack_max`]: '65536\n',
  [buckets]: '16384\n',
  [`${sysctls}/nf_conntrack_tcp_be_liberal`]: '0\n',
  [`${sysctls}/nf_conntrack_tcp_timeout_established`]: '432000\n',
  [`${sysctls}/nf_conntrack_tcp_timeout_close_wait`]: '60\n',
  [`${sysctls}/nf_conntrack_udp_timeout`]: '30\n',
  [`${sysctls}/nf_conntrack_udp_timeout_stream`]: '120\n',
};

const leaveAlone: Config['conntrack'] = {
  maxPerCore: 0,
  min: 131_072,
  tcpEstablishedTimeoutMs: 0,
  tcpCloseWaitTimeoutMs: 0,
  tcpBeLiberal: false,
  countsBytes: false,
  udpTimeoutMs: 0,
  udpStreamTimeoutMs: 0,
};
const upstreamDefaults: Config['conntrack'] = {
  ...leaveAlone,
  maxPerCore: 32_768,
  tcpEstablishedTimeoutMs: 86_400_000,
  tcpCloseWaitTimeoutMs: 3_600_000,
};

/** What a configuration changes on a machine: path to new content. */
function changes(
  config: Partial<Config['conntrack']>,
  files: Readonly<Record<string, string | undefined>> = {},
): Record<string, string> {
  const root = machineRoot({ ...kernelDefaults, ...files });
  const told: SettingChange[] = [];
  const host = hostFiles(root);
  const sysctls = conntrackSysctls({ ...leaveAlone, ...config }, host, 'exact');
  setSysctls(sysctls, host, { set: (change) => told.push(change) });
  const written = told.map(({ path }) => [path.split('/').pop()!, contentOf(root, path)]);
  expect(told.map(({ to }) => to)).toEqual(written.map(([, text]) => text));
  return Object.fromEntries(written);
}

describe('the limit of connection tracking', () => {
  it.each([
    [{ maxPerCore: 32_768, min: 131_072 }, 2, 131_072],
    [{ maxPerCore: 32_768, min: 131_072 }, 7, 229_376],
    [{ maxPerCore: 32_768, min: 131_072 }, 512, 1_048_576],
    [{ maxPerCore: 1, min: 123_456 }, 8, 123_456],
    [{ maxPerCore: 0, min: 123_456 }, 8, undefined],
    [{ maxPerCore: 32_768, min: 2_000_000 }, 8, 2_000_000],
    [{ maxPerCore: 32_768, min: 2_000_000 }, 512, 2_000_000],
  ])('of %j on %d cores is %j', (config, cores, max) => {
    expect(conntrackMax(config, cores)).toBe(max);
  });

  it('counts the online cores', () => {
    const files = (online: string | undefined) =>
      hostFiles(machineRoot({ '/sys/devices/system/cpu/online': online }));
    expect(coresOf(files('0-3,8,10-11\n'))).toBe(7);
    expect(coresOf(files('0\n'))).toBe(1);
    expect(coresOf(files(undefined))).toBeGreaterThan(0);
    expect(coresOf(files('all of them'))).toBeGreaterThan(0);
  });

  it('sets a hash table of sufficient size, and keeps a larger one', () => {
    expect(changes({ maxPerCore: 32_768 })).toEqual({
      nf_conntrack_max: '229376',
      nf_conntrack_buckets: '57344',
    });
    expect(changes({ maxPerCore: 32_768 }, { [buckets]: '65536\n' })).toEqual({
      nf_conntrack_max: '229376',
    });
  });
});

describe('a limit of connection tracking above the desired one', () => {
  const maxPath = `${sysctls}/nf_conntrack_max`;
  const large = { ...kernelDefaults, [maxPath]: '2000000\n', [buckets]: '500000\n' };

  it.each([
    ['by default', [], undefined, '2000000'],
    ['by other settings', ['--conntrack-udp-timeout=30s'], undefined, '2000000'],
    ['by a flag', ['--conntrack-max-per-core=32768'], undefined, '229376'],
    ['by the floor', ['--conntrack-min=131072'], undefined, '229376'],
    ['by a file', [], 'conntrack: {maxPerCore: 32768}\n', '229376'],
    ['by a file that leaves it out', [], 'conntrack: {maxPerCore: null, min: null}\n', '2000000'],
  ])('%s becomes', (_by, flags, file, limit) => {
    const root = machineRoot(large);
    const host = hostFiles(root);
    const wanted = sysctlsOf(configOf(load(flags, file)), nftablesMode, host);
    setSysctls(wanted, host, { set: () => {} });
    expect(contentOf(root, maxPath).trim()).toBe(limit);
  });
});

describe('the sysctls of connection tracking', () => {
  it('have the values of the configuration', () => {
    expect(changes(upstreamDefaults)).toEqual({
      nf_conntrack_max: '229376',
      nf_conntrack_buckets: '57344',
      nf_conntrack_tcp_timeout_established: '86400',
      nf_conntrack_tcp_timeout_close_wait: '3600',
    });
  });

  it('are not written if the configuration is 0, or the value is already set', () => {
    expect(changes({})).toEqual({});
    expect(changes({ udpTimeoutMs: 30_000, udpStreamTimeoutMs: 120_000 })).toEqual({});
    expect(
      changes({ tcpBeLiberal: true }, { [`${sysctls}/nf_conntrack_tcp_be_liberal`]: '1' }),
    ).toEqual({});
  });

  it('let bytes be counted, and times where the kernel has them', () => {
    const off = { [`${sysctls}/nf_conntrack_acct`]: '0' };
    expect(changes({ countsBytes: true }, off)).toEqual({ nf_conntrack_acct: '1' });
    const timed = { ...off, [`${sysctls}/nf_conntrack_timestamp`]: '0' };
    expect(changes({ countsBytes: true }, timed)).toHaveProperty('nf_conntrack_timestamp', '1');
  });

  it('are rounded up to whole seconds, so that half a second does not become 0', () => {
    expect(changes({ udpTimeoutMs: 500, udpStreamTimeoutMs: 1001 })).toEqual({
      nf_conntrack_udp_timeout: '1',
      nf_conntrack_udp_timeout_stream: '2',
    });
    expect(changes({ tcpBeLiberal: true })).toEqual({ nf_conntrack_tcp_be_liberal: '1' });
  });

  it('cause an error with the file and the remedy if they cannot be set', () => {
    const withoutMax = { [`${sysctls}/nf_conntrack_max`]: undefined };
    expect(() => changes(upstreamDefaults, withoutMax)).toThrow(
      /^could not set conntrack parameters from kube-proxy configuration: \/proc/,
    );
    expect(() => changes(upstreamDefaults, withoutMax)).toThrow(
      /_max to 229376: ENOENT.*conntrack.maxPerCore: 0 leaves it alone\)$/,
    );
    expect(() => changes(upstreamDefaults, { [buckets]: undefined })).toThrow('buckets to 57344');
  });
});

describe('a kernel without connection tracking', () => {
  it('cannot set its sysctls, which only mode userspace does not need', () => {
    const missing = machine({});
    const config = configOf(loadFile(''));
    const wanted = sysctlsOf(config, nftablesMode, missing);
    expect(() => setSysctls(wanted, missing, { set: () => {} })).toThrow(
      'could not set conntrack parameters',
    );
    expect(sysctlsOf(config, userspaceMode(), missing)).toEqual([]);
  });
});

describe('sysctls that cannot be written', () => {
  const files = (code: string): HostFiles => ({
    read: (path) => (path.endsWith('_max') ? '1' : undefined),
    write: (path) => {
      if (path === buckets) return;
      throw Object.assign(new Error(`${code}: ${path}`), { code });
    },
  });
  const set = (code: string, observer: SysctlObserver): void => {
    const wanted = sysctlsOf(configOf(loadFile('')), nftablesMode, files(code));
    setSysctls(wanted, files(code), observer);
  };

  it.each(['EROFS', 'EACCES', 'EPERM', 'ENOENT'])(
    'keep their values, are reported, and do not stop the others (%s)',
    (code) => {
      const seen = { set: [] as string[], denied: [] as string[] };
      set(code, {
        set: ({ path }) => seen.set.push(path),
        denied: ({ path, error }) => seen.denied.push(`${path} ${error.message}`),
      });
      expect(seen.set).toEqual([buckets]);
      expect(seen.denied[0]).toBe(
        `${sysctls}/nf_conntrack_max ${code}: ${sysctls}/nf_conntrack_max`,
      );
      expect(seen.denied.length).toBeGreaterThanOrEqual(3);
    },
  );

  it('cause an error if there is no report, or if the value is invalid', () => {
    expect(() => set('EROFS', { set: () => {} })).toThrow('EROFS');
    const observer = { set: () => {}, denied: () => {} };
    expect(() => set('EINVAL', observer)).toThrow('EINVAL');
  });
});
