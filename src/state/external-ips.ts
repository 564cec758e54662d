/**
 * spec.externalIPs: a user who may write Services can claim any address, and every node redirects
 * it to that Service (CVE-2020-8554). The operator can restrict the addresses that are served, and
 * the namespaces. External IPs that are addresses of the node are reported; ports on which
 * programs of the node listen stay theirs (`NodeSockets.hasProgram`).
 */
import { type Address, type CIDR, cidrContains, formatAddress } from '../net/address.ts';
import type { List } from '../net/list.ts';
import type { AddressKeys, NodeSockets } from './node-sockets.ts';
import { namespaceOf, type Service } from './types.ts';

export interface ExternalIPRules {
  /** Only addresses in these blocks are served; empty = all. */
  readonly cidrs: readonly CIDR[];
  /** Only external IPs of Services in these namespaces are served; empty = all. */
  readonly namespaces: readonly string[];
  /**
   * Addresses of other machines, in a mode that binds addresses: this node would lose all that they
   * say. None is served.
   */
  readonly machines?: AddressKeys;
}

/** A report about an external IP for the operator and the author of the Service. */
interface ExternalIPNotice {
  /** `namespace/name` of the Service. */
  readonly service: string;
  readonly address: Address;
  /** The rule by which it is not served; or `node`, if it is an address of this node. */
  readonly because: keyof ExternalIPRules | 'node';
}

/** The external IPs of a Service that the rules permit. */
export function allowedExternalIPs(
  service: Service,
  rules: ExternalIPRules | undefined,
): List<Address> {
  if (rules === undefined || service.externalIPs.length === 0) return service.externalIPs;
  return service.externalIPs.filter((address) => brokenRule(service, address, rules) === undefined);
}

export function externalIPNotices(
  service: Service,
  rules: ExternalIPRules | undefined,
  sockets: NodeSockets,
): ExternalIPNotice[] {
  const notices: ExternalIPNotice[] = [];
  for (const address of service.externalIPs) {
    const rule = rules && brokenRule(service, address, rules);
    const because = rule ?? (sockets.addresses.has(address.key) ? 'node' : undefined);
    if (because !== undefined) notices.push({ service: service.key, address, because });
  }
  return notices;
}

function brokenRule(
  { namespace }: Service,
  address: Address,
  { cidrs, machines, namespaces }: ExternalIPRules,
): keyof ExternalIPRules | undefined {
  if (machines?.has(address.key)) return 'machines';
  if (namespaces.length > 0 && !namespaces.includes(namespace)) return 'namespaces';
  const isWithin = cidrs.length === 0 || cidrs.some((cidr) => cidrContains(cidr, address));
  return isWithin ? undefined : 'cidrs';
}

/** `external IP 192.168.0.1 is an address of this node: …`: for logs and events. */
export function formatExternalIPNotice({ address, because, service }: ExternalIPNotice): string {
  const what = `external IP ${formatAddress(address.bytes)}`;
  switch (because) {
    case 'cidrs':
      return `${what} is not served: no block of --external-ip-cidrs holds it`;
    case 'namespaces': {
      const namespace = namespaceOf(service);
      return `${what} is not served: --external-ip-namespaces does not name ${namespace}`;
    }
    case 'machines':
      return `${what} is not served: it is another machine, which this node could not hear any more`;
    case 'node':
      return (
        `${what} is an address of this node: the Service gets its ports there but for those on ` +
        'which a program of the node listens; --external-ip-cidrs can give it those, too, or ' +
        'keep such addresses from Services'
      );
  }
}
