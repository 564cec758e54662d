import { expect, it } from 'vitest';
import { connectTimeHere, connectTimePaths } from '../../../src/connect-time/cgroup.ts';

const mounts = `24 30 0:22 / /proc rw,nosuid - proc proc rw
36 30 0:32 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
37 30 0:32 /../.. /host/c\\040group rw - cgroup2 cgroup2 rw
38 30 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu`;

function cgroupOf(numbers: Readonly<Record<string, number>>): string | undefined {
  const host = { read: () => mounts };
  return connectTimePaths(host, (path) => numbers[path]).cgroup;
}

it('the search for cgroup2 finds the root of the hierarchy', () => {
  expect(cgroupOf({ '/sys/fs/cgroup': 1, '/sys/fs/cgroup/cpu': 1 })).toBe('/sys/fs/cgroup');
});

it('the search for cgroup2 is not misled by the subtree that a container sees as its root', () => {
  expect(cgroupOf({ '/sys/fs/cgroup': 4711, '/host/c group': 1 })).toBe('/host/c group');
  expect(cgroupOf({ '/sys/fs/cgroup': 4711 })).toBeUndefined();
});

it('the search for cgroup2 names any part of the hierarchy, to ask for its programs', () => {
  const host = { read: () => mounts };
  expect(connectTimePaths(host, () => 4711).anyCgroup).toBe('/sys/fs/cgroup');
});

it.each([
  ['no bpf file system', '', '/sys/fs/bpf/fairlead', false],
  ['that of the node', '40 30 0:40 / /sys/fs/bpf rw - bpf bpf rw', '/sys/fs/bpf/fairlead', true],
  ['only our folder', '40 30 0:40 /fairlead /host/bpf rw - bpf bpf rw', '/host/bpf', true],
  ['another folder', '40 30 0:40 /cilium /host/bpf rw - bpf bpf rw', '/sys/fs/bpf/fairlead', false],
])(
  'the search for cgroup2 finds the folder of pins if %s is mounted',
  (_, line, directory, isMounted) => {
    const host = { read: () => `${mounts}\n${line}` };
    expect(connectTimePaths(host, () => 1)).toMatchObject({ directory, isMounted });
  },
);

it.each([
  ['the first user namespace', '0          0 4294967295', true],
  ['a user namespace of its own', '0       1000          1', false],
  ['a kernel without user namespaces', undefined, true],
])('there may be programs of ours in %s: %s', (_, map, isPossible) => {
  const read = (path: string) => (path === '/proc/self/uid_map' ? map : mounts);
  expect(connectTimeHere({ read }) !== undefined).toBe(isPossible);
});
