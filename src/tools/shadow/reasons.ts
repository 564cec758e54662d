/** Why an endpoint should, or should not, get connections. */
import { addressBytes, formatAddress } from '../../net/address.ts';
import type { ClusterState } from '../../state/store.ts';
import { Condition, type Forwarding } from '../../state/types.ts';

/** Why a Service port should not use an endpoint, in words that follow `which`. */
export function whyNot(
  endpoint: string,
  { family, servicePort }: Pick<Forwarding, 'family' | 'servicePort'>,
  state: ClusterState,
): string {
  const key = `${servicePort.namespace}/${servicePort.name}`;
  const address = endpoint.slice(0, endpoint.lastIndexOf(':')).replace(/^\[|\]$/g, '');
  for (const slice of state.slices(key)) {
    if (slice.family !== family) continue;
    const size = addressBytes[family];
    for (let i = 0; i < slice.length; i += 1) {
      const bytes = Buffer.from(slice.addresses.slice(i * size, (i + 1) * size), 'latin1');
      if (formatAddress(bytes) !== address) continue;
      return reasonOf(slice.conditions.charCodeAt(i));
    }
  }
  return `is in no EndpointSlice of ${key}`;
}

function reasonOf(conditions: number): string {
  if ((conditions & Condition.terminating) !== 0) return 'is terminating';
  if ((conditions & Condition.ready) === 0) return 'is not ready';
  if ((conditions & Condition.local) === 0) {
    return 'is on another node, or hints or the port keep it from this one';
  }
  return 'has another port, or is kept from this node by hints';
}
