/** Which frontends of a Service source ranges guard. */
import type { Forwarding, Frontend } from './types.ts';

/** Whether a frontend of the kind has the ranges, if there are any. */
export function guards(guardsAll: true | undefined, kind: Frontend['kind']): boolean {
  return kind === 'loadBalancerIP' || (guardsAll === true && kind !== 'clusterIP');
}

/** Whether only clients in the source ranges may connect to the frontend. */
export function isGuarded(
  { guardsAll, sourceRanges }: Pick<Forwarding, 'guardsAll' | 'sourceRanges'>,
  { kind }: Pick<Frontend, 'kind'>,
): boolean {
  return sourceRanges.length > 0 && guards(guardsAll, kind);
}
