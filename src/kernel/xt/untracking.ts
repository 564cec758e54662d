/** Which statements of rules keep packets from connection tracking. */
import type { Clause } from '../nft/clauses.ts';

/** XT_CT_NOTRACK */
const noTracking = 1;

/** `info` of CT: struct xt_ct_target_info_v1, whose first bytes are flags. */
export function isUntracking(clause: Clause): boolean {
  if (clause.kind === 'unknown') return clause.name === 'notrack';
  if (clause.kind !== 'target') return false;
  const { info, name } = clause;
  return name === 'NOTRACK' || (name === 'CT' && (info[0]! & noTracking) !== 0);
}
