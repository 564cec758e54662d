/**
 * Decodes raw Kubernetes JSON into narrow readonly records, once, for every source. Decoders take
 * anything and never throw. A fault is reported with the object's name, the field and the reason,
 * and the rest of the object is used.
 */

import type { CIDR } from '../net/address.ts';
import { specialUseWithin } from '../net/special-address.ts';
import type { Change, Resource } from '../state/change.ts';
import { finish } from '../state/steps.ts';
import { objectKey, type ServiceCIDR } from '../state/types.ts';
import { readCIDR } from './decode/addresses.ts';
import { decodeUnusedSlice, endpointSliceInSteps } from './decode/endpoint-slice.ts';
import { entriesMax } from './decode/entries.ts';
import { type Decoded, isRawObject, open, show } from './decode/field-reader.ts';
import { decodeNode } from './decode/node.ts';
import { decodeUnserved, serviceInSteps } from './decode/service.ts';
import { Interner } from './interner.ts';
import type { SourceProblem, Watched } from './source.ts';

export type { Decoded } from './decode/field-reader.ts';
export { decodeNode, decodeServiceCIDR, endpointSliceInSteps, serviceInSteps };

/** The context of decoding. Each source has one, because it interns strings. */
export interface DecodeContext {
  /** This node's name. */
  readonly nodeName: string;
  /** See `serviceInSteps`. */
  readonly proxyName: string;
  readonly strings: Interner;
}

export function decodeContext(nodeName: string, proxyName = ''): DecodeContext {
  return { nodeName, proxyName, strings: new Interner() };
}

export interface DecodedChange {
  /** Undefined = the object is not relevant, or cannot be used at all. */
  readonly change: Change | undefined;
  readonly problems: readonly SourceProblem[];
}

export const kindOf = {
  services: 'Service',
  endpointslices: 'EndpointSlice',
  nodes: 'Node',
  servicecidrs: 'ServiceCIDR',
  pods: 'Pod',
} as const satisfies Record<Watched, string>;

/** Decodes one raw object of a resource into the change that adds or updates it. */
export function decodeChange(
  resource: Resource,
  raw: unknown,
  context: DecodeContext,
): DecodedChange {
  return finish(changeInSteps(resource, raw, context));
}

/** Like `decodeChange`, in steps: an object may have tens of thousands of entries. */
export function* changeInSteps(
  resource: Resource,
  raw: unknown,
  { nodeName, proxyName, strings }: DecodeContext,
): Generator<undefined, DecodedChange> {
  switch (resource) {
    case 'services': {
      const { record: service, problems } = yield* serviceInSteps(raw, strings, proxyName);
      if (service !== undefined) return { change: { kind: 'service', service }, problems };
      const unserved = problems.length > 0 ? undefined : decodeUnserved(raw, proxyName);
      return { change: unserved && { kind: 'service-unserved', unserved }, problems };
    }
    case 'endpointslices': {
      const { record: slice, problems } = yield* endpointSliceInSteps(raw, strings, nodeName);
      if (slice !== undefined) return { change: { kind: 'slice', slice }, problems };
      const unused = decodeUnusedSlice(raw);
      return { change: unused && { kind: 'slice-unused', unused }, problems };
    }
    case 'nodes': {
      const { record: node, problems } = decodeNode(raw);
      // A proxy may have dropped the selector from the request.
      const isOurs = node?.name === nodeName;
      return { change: isOurs ? { kind: 'node', node } : undefined, problems };
    }
    case 'servicecidrs': {
      const { record: serviceCIDR, problems } = decodeServiceCIDR(raw);
      return { change: serviceCIDR && { kind: 'service-cidr', serviceCIDR }, problems };
    }
  }
}

/** `namespace/name`, or the name of a cluster-scoped object; undefined when the object has none. */
export function keyOfRaw(resource: Watched, raw: unknown): string | undefined {
  const metadata = isRawObject(raw) ? raw.metadata : undefined;
  if (!isRawObject(metadata)) return undefined;
  const { name, namespace } = metadata;
  if (typeof name !== 'string' || name === '') return undefined;
  if (resource === 'nodes' || resource === 'servicecidrs') return name;
  if (typeof namespace !== 'string' || namespace === '') return undefined;
  return objectKey(namespace, name);
}

/** The key of the object that a change is about. */
export function keyOfChange(change: Change): string {
  switch (change.kind) {
    case 'service':
      return change.service.key;
    case 'service-unserved':
      return change.unserved.key;
    case 'slice':
      return change.slice.key;
    case 'slice-unused':
      return change.unused.key;
    case 'node':
      return change.node.name;
    case 'service-cidr':
      return change.serviceCIDR.name;
    case 'service-gone':
    case 'slice-gone':
      return change.key;
    case 'node-gone':
    case 'service-cidr-gone':
      return change.name;
  }
}

/** The change that deletes the object of this key. */
export function goneChange(resource: Resource, key: string): Change {
  switch (resource) {
    case 'services':
      return { kind: 'service-gone', key };
    case 'endpointslices':
      return { kind: 'slice-gone', key };
    case 'nodes':
      return { kind: 'node-gone', name: key };
    case 'servicecidrs':
      return { kind: 'service-cidr-gone', name: key };
  }
}

/**
 * The blocks from which ClusterIPs are allocated; status and deletion are not used (4.1). Packets
 * to unused addresses of a block are dropped, so too wide a block would disconnect the node.
 */
function decodeServiceCIDR(raw: unknown): Decoded<ServiceCIDR> {
  const opened = open('ServiceCIDR', raw, 'cluster');
  const { fields } = opened;
  if (opened.id === undefined) return { record: undefined, problems: fields.problems };
  const spec = fields.object(opened.raw.spec, 'spec') ?? {};
  const cidrs: CIDR[] = [];
  const list = fields.list(spec.cidrs, 'spec.cidrs', entriesMax.others);
  for (const [i, text] of list.entries()) {
    const field = `spec.cidrs[${i}]`;
    const cidr = readCIDR(fields, text, field);
    const special = cidr && specialUseWithin(cidr);
    if (special !== undefined)
      fields.refuse(field, `${show(text)} holds ${special}: it is not used`);
    else if (cidr !== undefined) cidrs.push(cidr);
  }
  const isEmpty = list.length === 0 && Array.isArray(spec.cidrs ?? list);
  if (isEmpty) fields.refuse('spec.cidrs', 'is empty');
  return { record: { name: opened.id.name, cidrs }, problems: fields.problems };
}
