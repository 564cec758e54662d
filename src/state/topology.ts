/** Which endpoints topology hints allow (behaviour document 5.3, step 2; KEP-2433, KEP-3015). */
import { EndpointFlag } from './candidates.ts';

export type TopologyMode = 'SameNode' | 'SameZone' | 'none';

/** The flag that an endpoint must have in each topology mode; 0 = none. */
export const topologyFlag = {
  SameNode: EndpointFlag.nodeHintedHere,
  SameZone: EndpointFlag.zoneHintedHere,
  none: 0,
} as const satisfies Record<TopologyMode, number>;

/**
 * Hints are used only if every ready endpoint has one and at least one names this node; otherwise
 * the same for its zone. Endpoints that are not ready do not matter. `flags` are `EndpointFlag`
 * bits.
 */
export function topologyMode(flags: Iterable<number>): TopologyMode {
  const { every, some } = survey(flags);
  if ((every & EndpointFlag.nodeHinted) !== 0 && (some & topologyFlag.SameNode) !== 0) {
    return 'SameNode';
  }
  if ((every & EndpointFlag.zoneHinted) !== 0 && (some & topologyFlag.SameZone) !== 0) {
    return 'SameZone';
  }
  return 'none';
}

/** The hint flags that every ready endpoint has, and those that at least one has. */
function survey(flags: Iterable<number>): { readonly every: number; readonly some: number } {
  let every: number = EndpointFlag.nodeHinted | EndpointFlag.zoneHinted;
  let some = 0;
  for (const flag of flags) {
    if ((flag & EndpointFlag.ready) === 0) continue;
    every &= flag;
    some |= flag;
  }
  return { every, some };
}

/** Why hints are ignored; undefined = they are used, or there are none. */
export function whyIgnored(flags: Uint16Array, zone: string): string | undefined {
  const { every, some } = survey(flags);
  if (topologyMode(flags) !== 'none') return undefined;
  if ((some & EndpointFlag.zoneHinted) !== 0) {
    if ((every & EndpointFlag.zoneHinted) === 0) return 'a ready endpoint has no hint for a zone';
    if (zone === '') return 'this node has no label topology.kubernetes.io/zone';
    return `no ready endpoint is hinted for zone ${zone}`;
  }
  if ((some & EndpointFlag.nodeHinted) === 0) return undefined;
  if ((every & EndpointFlag.nodeHinted) === 0) return 'a ready endpoint has no hint for a node';
  return 'no ready endpoint is hinted for this node';
}
