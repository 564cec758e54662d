/** Why a Service port has no endpoint that can be used. */
import { portKey } from '../../../state/candidates.ts';
import type { ClusterState } from '../../../state/store.ts';
import type { Forwarding } from '../../../state/types.ts';
import { counted } from './scene.ts';

/** `key` is the Service's. The sentence follows a colon. */
export function whyEmpty(
  state: ClusterState,
  key: string,
  { family, servicePort }: Forwarding,
): string {
  const all = state.slices(key);
  if (all.length === 0) return 'it has no EndpointSlice: its selector may match no pod';
  const slices = all.filter((slice) => slice.family === family);
  if (slices.length === 0) return `it has no EndpointSlice of ${family}`;
  const total = slices.reduce((sum, { length }) => sum + length, 0);
  if (total === 0) return 'its EndpointSlices are empty: its selector may match no pod';
  const wanted = portKey({ name: servicePort.port, protocol: servicePort.protocol });
  const fitting = slices.filter(({ ports }) => ports.some((port) => portKey(port) === wanted));
  if (fitting.length === 0) {
    const names = new Set(slices.flatMap(({ ports }) => ports.map(nameText)));
    const own = nameText({ name: servicePort.port, protocol: servicePort.protocol });
    return `its EndpointSlices have no port ${own}, but ${[...names].join(', ') || 'none'}`;
  }
  const count = fitting.reduce((sum, { length }) => sum + length, 0);
  return `none of its ${counted(count, 'endpoint')} is ready`;
}

function nameText({
  name,
  protocol,
}: {
  readonly name: string;
  readonly protocol: string;
}): string {
  return `${name === '' ? 'without a name' : `"${name}"`} (${protocol})`;
}
