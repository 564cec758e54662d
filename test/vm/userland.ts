import { spawnSync } from 'node:child_process';
import { lstatSync, readlinkSync } from 'node:fs';
import { neededLibraries } from '../lab/elf.ts';
import { CannotRun } from './cannot-run.ts';
import type { Entry } from './cpio.ts';

/** The guest's programs are those of the host, by Debian package. */
export const guestPackages: readonly string[] = [
  'coreutils',
  'util-linux',
  'mount',
  'procps',
  'kmod',
  'dash',
  'bash',
  'grep',
  'sed',
  'mawk',
  'findutils',
  'tar',
  'netbase',
  'iproute2',
  'nftables',
  'iptables',
  'ipset',
  'conntrack',
  'ipvsadm',
];

/** Links that Debian makes at installation (alternatives), so that no package owns them. */
const alternatives: Readonly<Record<string, string>> = {
  '/usr/bin/awk': 'mawk',
  '/usr/sbin/iptables': 'iptables-nft',
  '/usr/sbin/iptables-save': 'iptables-nft-save',
  '/usr/sbin/iptables-restore': 'iptables-nft-restore',
  '/usr/sbin/ip6tables': 'ip6tables-nft',
  '/usr/sbin/ip6tables-save': 'ip6tables-nft-save',
  '/usr/sbin/ip6tables-restore': 'ip6tables-nft-restore',
};

const settings: Readonly<Record<string, string>> = {
  '/etc/passwd': 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n',
  '/etc/group': 'root:x:0:\nnogroup:x:65534:\n',
  '/etc/hosts': '127.0.0.1 localhost\n::1 localhost ip6-localhost\n',
  '/etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\n',
};

/**
 * Those of the packages that are not installed.
 * @throws CannotRun where there is no dpkg
 */
export function missingPackages(packages: readonly string[]): string[] {
  const format = `\${Package} \${db:Status-Status}\n`;
  const query = spawnSync('dpkg-query', ['-W', '-f', format, ...packages], { encoding: 'utf8' });
  if (query.error !== undefined) {
    throw new CannotRun('dpkg is missing: the guest is built from a Debian or Ubuntu host');
  }
  const installed = new Set(query.stdout.split('\n'));
  return packages.filter((name) => !installed.has(`${name} installed`));
}

/** All that is not the project: empty mount points, programs with their plug-ins, settings. */
export function userland(): Entry[] {
  const merged = ['bin', 'sbin', 'lib', 'lib64'];
  const empty = ['/dev', '/proc', '/sys', '/run', '/tmp', '/root', '/usr/lib64'];
  return [
    ...merged.map((name): Entry => ({ kind: 'link', path: `/${name}`, target: `usr/${name}` })),
    ...empty.map((path): Entry => ({ kind: 'directory', path })),
    ...Object.entries(settings).map(([path, text]): Entry => ({ kind: 'text', path, text })),
    ...Object.entries(alternatives).map(
      ([path, target]): Entry => ({ kind: 'link', path, target }),
    ),
    ...packageFiles(guestPackages).flatMap((path) => hostEntry(path, usrPath(path))),
  ];
}

/** The loader, and the shared libraries that the copied programs need, directly or not. */
export function sharedLibraries(entries: readonly Entry[]): Entry[] {
  const ldconfig = spawnSync('ldconfig', ['-p'], { encoding: 'utf8' });
  const pathOf = parseLdconfig(ldconfig.stdout);
  const found = new Set(['/lib64/ld-linux-x86-64.so.2']);
  let pending = entries.flatMap((entry) => (entry.kind === 'copy' ? [entry.hostPath] : []));
  while (pending.length > 0) {
    // Unknown: next to its user in node_modules, or for a C library that the guest has not.
    pending = [...neededLibraries(pending)].flatMap((name) => pathOf.get(name) ?? []);
    pending = pending.filter((library) => !found.has(library));
    for (const library of pending) found.add(library);
  }
  return [...found].map((path) => ({ kind: 'copy', path: usrPath(path), hostPath: path }));
}

/** Name → path from `ldconfig -p`, whose lines are `name (libc6,x86-64) => path`. */
export function parseLdconfig(listing: string): Map<string, string> {
  const lines = listing.matchAll(/^\s+(\S+) \(libc6,x86-64[^)]*\) => (\S+)$/gm);
  const pairs = [...lines].map(([, name = '', path = '']): [string, string] => [name, path]);
  // The loader takes the first of several.
  return new Map(pairs.reverse());
}

/** A host file or link as an entry at `path`; nothing for a directory or a device. */
export function hostEntry(hostPath: string, path: string): Entry[] {
  const stat = lstatSync(hostPath, { throwIfNoEntry: false });
  if (stat?.isSymbolicLink()) return [{ kind: 'link', path, target: readlinkSync(hostPath) }];
  return stat?.isFile() ? [{ kind: 'copy', path, hostPath }] : [];
}

function packageFiles(packages: readonly string[]): string[] {
  const listing = spawnSync('dpkg', ['-L', ...packages], { encoding: 'utf8' }).stdout;
  const wanted = /^\/(usr\/)?s?bin\/|^\/(usr\/)?lib\/(?!systemd)|^\/etc\/(iproute2\/|\w+$)/;
  return listing.split('\n').filter((path) => wanted.test(path));
}

/** Where a path of the host is in the guest, whose /bin, /lib and so on are links into /usr. */
function usrPath(path: string): string {
  return path.replace(/^\/(bin|sbin|lib|lib64)\//, '/usr/$1/');
}
