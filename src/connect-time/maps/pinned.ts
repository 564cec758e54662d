/** Compares pinned maps and links with the desired ones. */
import { BPFState } from '../../kernel/bpf-ops.ts';
import { KernelError } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Family } from '../../net/address.ts';
import { addressFamily } from './layout.ts';
import { askedOf, type Placement } from './placement.ts';

export type Pinned = keyof typeof BPFState;

export interface PinnedStates {
  readonly maps: Pinned;
  readonly links: Pinned;
}

export async function readPinned(
  kernel: Kernel,
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

/** Whether the existing maps have elements in the form of this version. */
export function isReadable(maps: Pinned): boolean {
  return maps === 'right' || maps === 'incomplete';
}

function pinnedOf(state: number): Pinned {
  const found = Object.entries(BPFState).find(([, value]) => value === state);
  return (found?.[0] as Pinned | undefined) ?? 'wrong';
}
