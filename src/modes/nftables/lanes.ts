/** What this mode's lanes have besides keys and endpoints. */
import { VERDICT } from '../../kernel/nft/constants.ts';
import type { Lane, SetLanes } from '../../kernel/nft/lane.ts';
import { rejectChain } from './chains.ts';
import type { SetName } from './layout.ts';

export type Lanes = SetLanes<SetName>;

/** VERDICT_* of the chains that a map sends packets to. Who is not remembered comes back. */
export function verdictOfMap(map: SetName): number {
  return map === 'sticky-services' || map === 'sticky-nodeports' ? VERDICT.jump : VERDICT.goto;
}

/** Writes a no-endpoint element. */
export function writeRefusal(lane: Lane, key: Uint8Array, refusal: 'reject' | 'drop'): void {
  if (refusal === 'drop') lane.verdict(key, VERDICT.drop, '');
  else lane.verdict(key, VERDICT.goto, rejectChain);
}
