/** The source addresses of a pod's packets, from the pod or from EndpointSlices. */
import { formatAddress, parseAddress } from '../../net/address.ts';
import type { FoundPod } from '../lookup.ts';
import { isText, objectOf, type RawObject } from './field-reader.ts';
import { serviceNameLabel } from './names.ts';

/** The fields of a Pod. */
export function readPod(raw: RawObject): FoundPod {
  const [spec, status] = [objectOf(raw.spec), objectOf(raw.status)];
  const all = Array.isArray(status.podIPs) ? status.podIPs.map(objectOf) : [];
  const addresses = [...all.map(({ ip }) => ip), status.podIP].filter(isText);
  return { addresses: [...new Set(addresses)], nodeName: textOf(spec.nodeName) };
}

/** A pod from EndpointSlices of which it is an endpoint; undefined = none has it. */
export function podOfSlices(slices: Iterable<RawObject>, name: string): FoundPod | undefined {
  const addresses = new Set<string>();
  let nodeName = '';
  for (const one of podEndpoints(slices)) {
    if (one.pod !== name) continue;
    for (const address of one.addresses) addresses.add(address);
    nodeName = one.nodeName || nodeName;
  }
  return addresses.size === 0 ? undefined : { addresses: [...addresses], nodeName };
}

/** Names of the pods that slices name as endpoints, by address as `formatAddress` writes it. */
export function podNames(slices: Iterable<RawObject>): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const { addresses, pod } of podEndpoints(slices)) {
    for (const text of addresses) {
      const address = parseAddress(text);
      if (address !== undefined) names.set(formatAddress(address.bytes), pod);
    }
  }
  return names;
}

/** The endpoints that are pods. */
function* podEndpoints(slices: Iterable<RawObject>) {
  for (const { endpoints } of slices) {
    for (const endpoint of Array.isArray(endpoints) ? endpoints.map(objectOf) : []) {
      const { kind, name } = objectOf(endpoint.targetRef);
      const { addresses, nodeName } = endpoint;
      if (kind !== 'Pod' || !isText(name) || !Array.isArray(addresses)) continue;
      yield { pod: name, addresses: addresses.filter(isText), nodeName: textOf(nodeName) };
    }
  }
}

/** The Service that a slice belongs to, `namespace/name`. */
export function serviceOfSlice(raw: RawObject): string {
  const { labels, namespace } = objectOf(raw.metadata);
  return [textOf(namespace) || 'default', textOf(objectOf(labels)[serviceNameLabel])].join('/');
}

/** `namespace/name` */
export function keyIn(raw: RawObject): string {
  const { namespace, name } = objectOf(raw.metadata);
  return [textOf(namespace) || 'default', textOf(name)].join('/');
}

function textOf(raw: unknown): string {
  return typeof raw === 'string' ? raw : '';
}
