/** Compares pinned maps and links with the desired ones. */
import { readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { BPFState } from '../../kernel/bpf-ops.ts';
import { KernelError } from '../../kernel/errors.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { Family } from '../../net/address.ts';
import { addressFamily } from './layout.ts';
import { askedOf, type Placement } from './placement.ts';

export type Pinned = keyof typeof BPFState;

export interface PinnedStates {
  readonly maps: Pinned;
  readonly links: Pinned;
}

export async function readPinned(
  kernel: KernelReader,
  placement: Placement,
  family: Family,
  countsTraffic: boolean,
): Promise<PinnedStates> {
  const { directory } = placement;
  const { records } = await kernel.dump({
    kind: 'bpfStateGet',
    directory,
    family: addressFamily[family],
    ...askedOf(placement, countsTraffic),
  });
  const state = records.find((one) => one.kind === 'bpfState');
  if (state !== undefined) return { maps: pinnedOf(state.maps), links: pinnedOf(state.links) };
  const words = 'the answer has no state';
  const operation = 'bpf.bpfStateGet';
  throw new KernelError({ operation, subject: directory, code: 'EPROTO', words });
}

/** Pins of links, in `native/bpf/programs.cc`; programs at getpeername have one, too. */
const linkNames = {
  IPv4: ['connect4', 'mapped4', 'peer4', 'mapped_peer4'],
  IPv6: ['connect6', 'peer6'],
} as const satisfies Record<Family, readonly string[]>;

export type Unpin = (directory: string, family: Family) => Promise<void>;

/**
 * Removes the pins of the family's maps, of whatever version, so that others can be created.
 * Attached programs keep the maps that they were loaded with. Rejects with an error with `code`.
 */
export async function unpinMaps(directory: string, family: Family): Promise<void> {
  // In every version, the last character of a pin's name is its family.
  const digit = family === 'IPv4' ? '4' : '6';
  const links: readonly string[] = linkNames[family];
  for (const name of await namesIn(directory)) {
    if (name.endsWith(digit) && !links.includes(name)) await unlink(join(directory, name));
  }
}

/** None if there is no such folder. */
function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
}

/** Whether the existing maps have elements in the form of this version. */
export function isReadable(maps: Pinned): boolean {
  return maps === 'right' || maps === 'incomplete';
}

function pinnedOf(state: number): Pinned {
  const found = Object.entries(BPFState).find(([, value]) => value === state);
  return (found?.[0] as Pinned | undefined) ?? 'wrong';
}
