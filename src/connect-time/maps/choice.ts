/** Checks whether this machine can translate connections at connect time, and removes programs. */
import { randomBytes } from 'node:crypto';
import { isKernelError, isNoAnswer } from '../../kernel/errors.ts';
import { applyAll } from '../../kernel/failures.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import type { Family } from '../../net/address.ts';
import { noPause } from '../../time/pacer.ts';
import { addressFamily, keyBytes, mapNames, valueBytes } from './layout.ts';
import {
  askedOf,
  type Placement,
  type Reach,
  type Room,
  standardLeaseMs,
  standardRoom,
} from './placement.ts';
import { readMap } from './read-map.ts';

/** Where on this machine programs are pinned and attached. */
export interface ConnectTimePaths {
  readonly directory: string;
  /** The bpf file system with `directory` is mounted; the folder itself may be missing. */
  readonly isMounted?: boolean;
  /** Undefined: the root of the cgroup2 hierarchy is mounted nowhere. */
  readonly cgroup: string | undefined;
  /** A folder of that hierarchy to which programs of its root apply, too. */
  readonly anyCgroup?: string | undefined;
  /** Default: `standardRoom`. */
  readonly room?: Room;
  /** Default: `standardLeaseMs`. */
  readonly leaseMs?: number;
}

/** `lack`: the missing feature of the machine. Then rules translate all connections. */
type ConnectTimeChoice =
  | { readonly placement: Placement | undefined; readonly lack?: undefined }
  | { readonly placement: undefined; readonly lack: string };

/** The configured sockets, and whether pods are excluded. */
export interface ConnectTimeWish {
  readonly reach: Reach | 'off';
  readonly excludes: boolean;
}

/** Checks the kernel's features, without any change that stays. */
export async function chooseConnectTime(
  { excludes, reach }: ConnectTimeWish,
  paths: ConnectTimePaths,
  families: readonly Family[],
  kernel: Kernel,
): Promise<ConnectTimeChoice> {
  if (reach === 'off') return { placement: undefined };
  const { cgroup, directory, leaseMs = standardLeaseMs, room = standardRoom } = paths;
  if (cgroup === undefined) {
    const lack =
      'the root of the cgroup2 hierarchy is not mounted (in a container: mount that of the host)';
    return { placement: undefined, lack };
  }
  const secret = (await readSecret(kernel, directory, families)) ?? newSecret();
  const placement: Placement = {
    ...{ directory, cgroup, reach, excludes, room, secret, leaseMs },
  };
  for (const family of families) {
    const lack = await lackOf(kernel, placement, family);
    if (lack !== undefined) return { placement: undefined, lack };
  }
  return { placement };
}

/** See `poolIds`. */
function newSecret(): Uint8Array {
  return new Uint8Array(randomBytes(valueBytes.secret));
}

/** The secret of an earlier process; undefined: there is none, or it cannot be read. */
async function readSecret(
  kernel: Kernel,
  directory: string,
  families: readonly Family[],
): Promise<Uint8Array | undefined> {
  const sizes = { keyBytes: keyBytes.secret, valueBytes: valueBytes.secret };
  let found: Uint8Array | undefined;
  for (const family of families) {
    const map = { directory, map: mapNames[family].secret, ...sizes };
    try {
      await readMap(kernel, map, noPause, (_, value) => {
        // The element of a new array is zero.
        if (value.some((byte) => byte !== 0)) found ??= value;
      });
    } catch (error) {
      // Maps of another version will be replaced.
      if (!isKernelError(error)) throw error;
    }
  }
  return found;
}

async function lackOf(
  kernel: Kernel,
  placement: Placement,
  family: Family,
): Promise<string | undefined> {
  const at = { directory: placement.directory, family: addressFamily[family] };
  try {
    await kernel.dump({ kind: 'bpfProbe', ...at, ...askedOf(placement, false) });
    return undefined;
  } catch (error) {
    if (!isKernelError(error)) throw error;
    // What a kernel refuses later that is short of memory now is tried again then.
    return isNoAnswer(error.code) ? undefined : error.message;
  }
}

/** Detaches the programs and removes the maps. Succeeds if there are none. */
export async function removeConnectTime(kernel: Kernel, directory: string): Promise<void> {
  const out = new RecordWriter(kernelOps);
  for (const family of Object.values(addressFamily)) out.write('bpfRemove', { directory, family });
  await applyAll(kernel, out.finish(), 'bpf.bpfRemove', directory);
}
