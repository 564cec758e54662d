/** The ids of pools in the maps. */
import { hash } from 'node:crypto';
import type { Forwarding } from '../../state/types.ts';

export const poolIdBytes = 16;

export type PoolId = (forwarding: Forwarding, pool: 'cluster' | 'local') => Uint8Array;

/**
 * Ids are digests, so that a restart needs to remember no more than the secret. Tenants choose what
 * is hashed, and two pools with one id would lead connections of one to the other. So it takes the
 * secret to look for such names, and ids are too long to meet by chance.
 */
export function poolIds(secret: Uint8Array): PoolId {
  const prefix = Buffer.from(secret).toString('hex');
  return ({ key }, pool) =>
    hash('sha256', `${prefix} ${key} ${pool}`, 'buffer').subarray(0, poolIdBytes);
}
