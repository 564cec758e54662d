/** Changes of the cluster that a source delivers. */
import type {
  EndpointSlice,
  Node,
  Service,
  ServiceCIDR,
  UnservedService,
  UnusedSlice,
} from './types.ts';

export const resources = ['services', 'endpointslices', 'nodes', 'servicecidrs'] as const;
export type Resource = (typeof resources)[number];

/**
 * One object that was added, changed or deleted. Repeating an object changes nothing downstream.
 */
export type Change =
  | { readonly kind: 'service'; readonly service: Service }
  | { readonly kind: 'service-gone'; readonly key: string }
  /** It exists, but this proxy does not serve it. */
  | { readonly kind: 'service-unserved'; readonly unserved: UnservedService }
  | { readonly kind: 'slice'; readonly slice: EndpointSlice }
  /** It exists and names a Service, but has nothing usable. */
  | { readonly kind: 'slice-unused'; readonly unused: UnusedSlice }
  | { readonly kind: 'slice-gone'; readonly key: string }
  | { readonly kind: 'node'; readonly node: Node }
  | { readonly kind: 'node-gone'; readonly name: string }
  | { readonly kind: 'service-cidr'; readonly serviceCIDR: ServiceCIDR }
  | { readonly kind: 'service-cidr-gone'; readonly name: string };

/** What became of a change; `left out`: nothing is kept of the object. */
export type Taken = 'changed' | 'same' | 'left out';
