/** Equality of the records of the state. The order of pools and of all lists matters. */
import type { Address, CIDR } from '../net/address.ts';
import { equality, listEquality, sameValue } from '../net/equality.ts';
import type { Balancing, Deal } from './deal.ts';
import type { Detection } from './detection.ts';
import type { Endings, PortEndings } from './endings.ts';
import type { Limits } from './limits.ts';
import type {
  EndpointSlice,
  Forwarding,
  Frontend,
  Place,
  PortRange,
  Service,
  ServicePort,
  ServicePortName,
  SlicePort,
} from './types.ts';

function sameAddress(a: Address | undefined, b: Address | undefined): boolean {
  return a?.key === b?.key;
}

export const sameCIDR = equality<CIDR>({ address: sameAddress, prefixLength: 'is' });
export const sameAddresses = listEquality(sameAddress);
export const sameRanges = listEquality(sameCIDR);

const sameFrontend = equality<Frontend>({
  kind: 'is',
  address: sameAddress,
  port: 'is',
  lastPort: 'is',
  isInRange: 'is',
  paths: 'is',
});
export const sameFrontends = listEquality(sameFrontend);

export const sameDeal = equality<Deal>({
  asked: 'is',
  balance: 'is',
  because: 'is',
  cluster: sameValue,
  local: sameValue,
  leftOut: 'ignored',
});

export const sameForwarding = equality<Forwarding>({
  key: 'is',
  family: 'is',
  servicePort: equality<ServicePortName>({
    namespace: 'is',
    name: 'is',
    port: 'is',
    protocol: 'is',
  }),
  frontends: sameFrontends,
  cluster: sameValue,
  local: sameValue,
  hairpin: sameValue,
  maybeLocal: sameValue,
  serving: sameValue,
  affinityTimeoutSeconds: 'is',
  sourceRanges: sameRanges,
  guardsAll: 'is',
  nodeInSourceRanges: 'is',
  healthCheckNodePort: 'is',
  rulesOnly: 'is',
  deal: sameDeal,
  endings: equality<PortEndings>({
    endAfterMs: 'is',
    maxAgeMs: 'is',
    keepsFlows: 'is',
    kept: sameValue,
  }),
});

export const sameService = equality<Service>({
  key: 'is',
  namespace: 'is',
  name: 'is',
  uid: 'is',
  createdMs: 'is',
  type: 'is',
  clusterIPs: sameAddresses,
  externalIPs: sameAddresses,
  loadBalancerIPs: sameAddresses,
  loadBalancerSourceRanges: sameRanges,
  guardsAll: 'is',
  internalTrafficPolicy: 'is',
  externalTrafficPolicy: 'is',
  healthCheckNodePort: 'is',
  affinityTimeoutSeconds: 'is',
  rulesOnly: 'is',
  isFastPathOff: 'is',
  hasSelector: 'is',
  balancing: equality<Balancing>({ balance: 'is', slowStartMs: 'is' }),
  detection: equality<Detection>({ mode: 'is', probes: 'is' }),
  endings: equality<Endings>({ endAfterMs: 'is', maxAgeMs: 'is', keepsFlows: 'is' }),
  limits: equality<Limits>({
    max_connections: 'is',
    max_connections_per_client: 'is',
    new_connections_per_second: 'is',
    new_connections_per_second_per_client: 'is',
  }),
  portRange: equality<PortRange>({ first: 'is', last: 'is' }),
  awaitedLoadBalancer: 'is',
  ports: listEquality(
    equality<ServicePort>({ name: 'is', protocol: 'is', port: 'is', nodePort: 'is' }),
  ),
});

export const sameSlice = equality<EndpointSlice>({
  key: 'is',
  service: 'is',
  family: 'is',
  length: 'is',
  addresses: 'is',
  conditions: 'is',
  pods: 'is',
  weight: 'is',
  triggerTimeMs: 'is',
  ports: listEquality(equality<SlicePort>({ name: 'is', protocol: 'is', port: 'is' })),
  zoneHints: listEquality(listEquality<string>(Object.is)),
  places: listEquality(equality<Place>({ node: 'is', zone: 'is' })),
});
