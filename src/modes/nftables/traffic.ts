import type { Kernel } from '../../kernel/kernel.ts';
import type { Family } from '../../net/address.ts';
import type { Pause } from '../../time/pacer.ts';
import {
  type Counting,
  frontendParts,
  readCountings,
  refusalCountings,
} from '../nft-table/traffic.ts';
import type { CountTaker } from '../traffic-counts.ts';
import { type SetName, tableLayout } from './layout.ts';

const countings: readonly Counting<SetName>[] = [
  { set: 'connections', parts: frontendParts, of: 'connections' },
  { set: 'nodeport-connections', parts: ['protocol', 'port'], of: 'connections' },
  { set: 'endpoint-connections', parts: frontendParts, of: 'endpoint' },
  // After those, so that no connection is read whose answer is not.
  { set: 'endpoint-answers', parts: frontendParts, of: 'answers' },
  { set: 'endpoint-resets', parts: frontendParts, of: 'resets' },
  ...refusalCountings,
];

/** Rejects with KernelError when the kernel can't be read. */
export function readTraffic(
  kernel: Kernel,
  family: Family,
  pause: Pause,
  report: CountTaker,
): Promise<void> {
  return readCountings(kernel, tableLayout(family, true), countings, pause, report);
}
