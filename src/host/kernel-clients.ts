/**
 * Which clients inside the kernel keep the address that a program at `connect` wrote in place of
 * the one they asked for. Before 0bdf399342c5 "net: Avoid address overwrite in kernel_connect"
 * (Linux 6.6) all did, and those that did not call kernel_connect before cedc019b9f26 (SMB) and
 * 7563cf17dce0 (Ceph). Stable branches and distributions have these changes earlier.
 */
import type { ReadableFiles } from './files.ts';

export type KernelClient = 'NFS' | 'SMB' | 'Ceph';

type Version = readonly [major: number, minor: number, patch: number];

const all: readonly KernelClient[] = ['NFS', 'SMB', 'Ceph'];

/** From these on all are safe, but those that are named. The stable branches' own change logs. */
const stable: readonly (readonly [first: Version, unsafe: readonly KernelClient[]])[] = [
  [[5, 10, 199], ['SMB']],
  [[5, 15, 136], ['SMB']],
  [[6, 1, 59], []],
  [[6, 5, 8], []],
];
const firstSafe: Version = [6, 6, 0];

/** Releases of distributions that count builds, by the list in Cilium's documentation. */
const builds: readonly (readonly [release: RegExp, first: readonly number[]])[] = [
  [/^5\.14\.0-(\d+)(?:\.(\d+))?[.\w]*\.el9/, [427, 31]],
  [/^5\.15\.0-(\d+)-(?:generic|lowlatency)/, [113]],
  [/^6\.5\.0-(\d+)-(?:generic|lowlatency)/, [41]],
];

/** Empty: none. All where the version cannot be read. */
export function clientsAtRisk(host: ReadableFiles): readonly KernelClient[] {
  const release = host.read('/proc/sys/kernel/osrelease') ?? '';
  if (builds.some(([pattern, first]) => isFrom(countsOf(pattern, release), first))) return [];
  const version = upstreamVersion(host, release);
  if (version === undefined) return all;
  if (isFrom(version, firstSafe)) return [];
  const [, unsafe] =
    stable.find(([first]) => isSameBranch(first, version) && isFrom(version, first)) ?? [];
  return unsafe ?? all;
}

/** The upstream version that a kernel is made from: names of Debian's and Ubuntu's end in `.0`. */
function upstreamVersion(host: ReadableFiles, release: string): Version | undefined {
  const debian = / Debian (\S+)/.exec(host.read('/proc/sys/kernel/version') ?? '')?.[1];
  const ubuntu = host.read('/proc/version_signature')?.split(' ').at(-1);
  for (const text of [debian, ubuntu, release]) {
    const [, ...parts] = /^(\d+)\.(\d+)(?:\.(\d+))?/.exec(text ?? '') ?? [];
    const [major, minor, patch = '0'] = parts;
    if (major !== undefined && minor !== undefined) {
      return [Number(major), Number(minor), Number(patch)];
    }
  }
  return undefined;
}

function isSameBranch([major, minor]: Version, [otherMajor, otherMinor]: Version): boolean {
  return major === otherMajor && minor === otherMinor;
}

function countsOf(pattern: RegExp, release: string): number[] | undefined {
  return pattern
    .exec(release)
    ?.slice(1)
    .map((count) => Number(count ?? 0));
}

/** Whether `counts` are `first` or later. */
function isFrom(counts: readonly number[] | undefined, first: readonly number[]): boolean {
  if (counts === undefined) return false;
  const at = first.findIndex((count, i) => count !== counts[i]);
  return at < 0 || counts[at]! > first[at]!;
}
