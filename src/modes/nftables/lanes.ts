/** What this mode's lanes have besides keys and endpoints. */
import { VERDICT } from '../../kernel/nft/constants.ts';
import type { Lane, SetLanes } from '../../kernel/nft/lane.ts';
import { rejectChain } from './chains.ts';
import type { SetName } from './layout.ts';

export type Lanes = SetLanes<SetName>;

/** Writes a no-endpoint element. */
export function writeRefusal(lane: Lane, key: Uint8Array, refusal: 'reject' | 'drop'): void {
  if (refusal === 'drop') lane.verdict(key, VERDICT.drop, '');
  else lane.verdict(key, VERDICT.goto, rejectChain);
}
