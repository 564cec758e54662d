/** What this mode's lanes have besides keys and endpoints. */
import { VERDICT } from '../../kernel/nft/constants.ts';
import type { Lane, SetLanes } from '../../kernel/nft/lane.ts';
import { isConcatInterval } from '../../kernel/nft/sets.ts';
import type { Interval } from '../../state/interval.ts';
import { rejectChain } from './chains.ts';
import type { SetName } from './layout.ts';

export type Lanes = SetLanes<SetName>;

/** Writes a no-endpoint element. */
export function writeRefusal(lane: Lane, key: Uint8Array, refusal: 'reject' | 'drop'): void {
  if (refusal === 'drop') lane.verdict(key, VERDICT.drop, '');
  else lane.verdict(key, VERDICT.goto, rejectChain);
}

/** Writes the ranges of `clients` for the frontend `key` into a `source-ranges` lane. */
export function writeClients(lane: Lane, key: Uint8Array, clients: readonly Interval[]): void {
  if (!isConcatInterval(lane.set)) throw new Error(`set ${lane.set.name} holds no ranges`);
  for (const range of clients) lane.concatRange(key, range);
}
