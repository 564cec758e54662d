/** Folders as kubelets make them, in a directory: its inodes take the place of ids of cgroups. */
import { mkdirSync, mkdtempSync, renameSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { PodCgroups } from '../../../src/host/pod-cgroups.ts';
import { turnsUntil } from '../turns.ts';

const uid = '6f1c8a5e-0d3b-4c57-9f0e-2f3a4b5c6d7e';
const other = '0a1b2c3d-0d3b-4c57-9f0e-2f3a4b5c6d7e';
const inSlices = uid.replaceAll('-', '_');
const hash = '0123456789abcdef0123456789abcdef';

let root: string;
let changes: number;
let cgroups: PodCgroups;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'fairlead-cgroups-'));
  changes = 0;
  cgroups = new PodCgroups(root, () => {
    changes += 1;
  });
  for (const name of ['init.scope', 'system.slice/kubelet.service', 'user.slice']) folder(name);
  onTestFinished(() => {
    cgroups.close();
    rmSync(root, { recursive: true });
  });
});

/** Makes a cgroup, and returns its number. */
function folder(name: string): bigint {
  const path = join(root, name);
  mkdirSync(path, { recursive: true });
  return statSync(path, { bigint: true }).ino;
}

async function find(...ids: string[]): Promise<Record<string, readonly bigint[]>> {
  return Object.fromEntries(await cgroups.find(new Set(ids)));
}

it.each([
  ['of systemd, guaranteed', `kubepods.slice/kubepods-pod${inSlices}.slice`],
  [
    'of systemd, burstable',
    `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${inSlices}.slice`,
  ],
  [
    'of systemd below another cgroup',
    'kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/' +
      `kubelet-kubepods-besteffort-pod${inSlices}.slice`,
  ],
  ['of cgroupfs, guaranteed', `kubepods/pod${uid}`],
  ['of cgroupfs, burstable', `kubepods/burstable/pod${uid}`],
  ['of cgroupfs below another cgroup', `system.slice/node.scope/kubelet/kubepods/pod${uid}`],
])('finds the cgroup of a pod: %s', async (_, name) => {
  const number = folder(name);
  folder(`${name}/cri-containerd-1.scope`);
  expect(await find(uid, other)).toEqual({ [uid]: [number] });
});

it('the search for cgroups finds a static pod of the kubelet', async () => {
  const number = folder(`kubepods.slice/kubepods-pod${hash}.slice`);
  expect(await find(hash)).toEqual({ [hash]: [number] });
});

it('the search for cgroups reports changes, and finds cgroups again that were recreated', async () => {
  const of = 'kubepods.slice/kubepods-burstable.slice';
  folder(of);
  expect(await find(uid)).toEqual({});
  const name = `${of}/kubepods-burstable-pod${inSlices}.slice`;
  const first = folder(name);
  await turnsUntil(() => changes > 0);
  expect(await find(uid)).toEqual({ [uid]: [first] });
  const before = changes;
  renameSync(join(root, name), join(root, 'gone'));
  await turnsUntil(() => changes > before);
  expect(await find(uid)).toEqual({});
  const second = folder(name);
  expect(second).not.toBe(first);
  expect(await find(uid)).toEqual({ [uid]: [second] });
});

it('the search for cgroups finds those that are created later, and drops deleted ones', async () => {
  expect(await find(uid)).toEqual({});
  const late = folder(`kubepods/besteffort/pod${uid}`);
  expect(await find(uid)).toEqual({ [uid]: [late] });
  for (const name of [`kubepods/besteffort/pod${uid}`, 'kubepods/besteffort', 'kubepods']) {
    rmdirSync(join(root, name));
  }
  expect(await find(uid)).toEqual({});
  const again = folder(`kubepods.slice/kubepods-pod${inSlices}.slice`);
  expect(await find(uid)).toEqual({ [uid]: [again] });
});

it('the whole hierarchy is searched again after a minute for a pod that known folders lack', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const number = folder(`kubepods/pod${uid}`);
  expect(await find(uid)).toEqual({ [uid]: [number] });
  const elsewhere = folder(`kubelet/kubepods/pod${other}`);
  vi.advanceTimersByTime(59_999);
  expect(await find(other)).toEqual({});
  vi.advanceTimersByTime(1);
  expect(await find(other)).toEqual({ [other]: [elsewhere] });
});

it('the search for cgroups finds nothing without a hierarchy', async () => {
  const nowhere = new PodCgroups(join(root, 'nowhere'), () => {});
  expect((await nowhere.find(new Set([uid]))).size).toBe(0);
});
