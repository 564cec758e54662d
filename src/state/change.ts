/** What a source tells of the cluster. */
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

/** One object that came, changed or went. A repeated object is no change to anyone downstream. */
export type Change =
  | { readonly kind: 'service'; readonly service: Service }
  | { readonly kind: 'service-gone'; readonly key: string }
  /** It is there, and this proxy has nothing to do for it. */
  | { readonly kind: 'service-unserved'; readonly unserved: UnservedService }
  | { readonly kind: 'slice'; readonly slice: EndpointSlice }
  /** It is there for a Service, and has nothing that can be used. */
  | { readonly kind: 'slice-unused'; readonly unused: UnusedSlice }
  | { readonly kind: 'slice-gone'; readonly key: string }
  | { readonly kind: 'node'; readonly node: Node }
  | { readonly kind: 'node-gone'; readonly name: string }
  | { readonly kind: 'service-cidr'; readonly serviceCIDR: ServiceCIDR }
  | { readonly kind: 'service-cidr-gone'; readonly name: string };
