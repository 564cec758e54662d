/** The ids of pools in the maps. */
import { hash } from 'node:crypto';
import type { Forwarding } from '../../state/types.ts';

export const poolIdBytes = 16;

export type PoolId = (forwarding: Forwarding, pool: 'cluster' | 'local') => Uint8Array;

/**
 * Ids are digests, so that a restart needs only the secret. Tenants choose the names that are
 * hashed, and connections of one pool would reach another pool with the same id. Without the secret
 * no tenant can find such names, and ids of 128 bits are not the same by chance: nothing looks for
 * equal ones.
 */
export function poolIds(secret: Uint8Array): PoolId {
  const prefix = Buffer.from(secret).toString('hex');
  // One change computes the same id several times in a row.
  let last: { readonly of: string; readonly id: Uint8Array } | undefined;
  return ({ key }, pool) => {
    const of = `${key} ${pool}`;
    if (last?.of !== of) {
      const digest = hash('sha256', `${prefix} ${of}`, 'buffer');
      last = { of, id: digest.subarray(0, poolIdBytes) };
    }
    return last.id;
  };
}
