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
  // One change asks for the same id several times in a row.
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
