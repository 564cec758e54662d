import { addressBytes, type Family } from '../net/address.ts';
import { Condition, type EndpointSlice } from './types.ts';

const readyHere = Condition.ready | Condition.local;

/**
 * The number of addresses on this node that are ready to serve a Service on some port, which is
 * what its health-check node port answers (behaviour document 10.2). Unlike the local pool, it
 * never falls back to terminating endpoints. `slices` are the Service's.
 */
export function countLocalReady(slices: readonly EndpointSlice[], family: Family): number {
  const width = addressBytes[family];
  const found = new Set<string>();
  for (const slice of slices) {
    if (slice.family !== family || slice.ports.length === 0) continue;
    for (let i = 0; i < slice.length; i += 1) {
      if ((slice.conditions.charCodeAt(i) & readyHere) !== readyHere) continue;
      found.add(slice.addresses.slice(i * width, (i + 1) * width));
    }
  }
  return found.size;
}
