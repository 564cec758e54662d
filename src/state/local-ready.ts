import { addressBytes, type Family } from '../net/address.ts';
import { Condition, type EndpointSlice } from './types.ts';

const readyHere = Condition.ready | Condition.local;

/**
 * The number of ready addresses on this node that serve a Service on some port, which is the answer
 * of its health-check node port (behaviour document 10.2). Unlike the local pool, it never includes
 * terminating endpoints. `slices` are the Service's.
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
