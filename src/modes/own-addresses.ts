/**
 * Addresses that Services ask for but that are this machine's own: modes that bind addresses leave
 * these alone, and tell of each once.
 */
import { type Address, addressKey } from '../net/address.ts';
import { sameBytes } from '../net/bytes.ts';
import { difference, keysOf } from '../state/node-sockets.ts';
import { type Forwarding, forwardingKey } from '../state/types.ts';
import type { Environment, RefusedAddress } from './mode.ts';

/**
 * Whether a Forwarding means something else in `after` than in `before`: it has a frontend at an
 * address that comes or goes, a node port while those that accept node ports change, or serves this
 * node itself otherwise than others while the node's addresses change.
 */
export function concernedBy(
  before: Environment,
  after: Environment,
): (forwarding: Forwarding) => boolean {
  const keys = (addresses: Environment['nodePortAddresses']) =>
    addresses === 'all' ? keysOf([]) : keysOf(addresses);
  const own = difference(keysOf(before.hostAddresses ?? []), keysOf(after.hostAddresses ?? []));
  const nodePorts = difference(keys(before.nodePortAddresses), keys(after.nodePortAddresses));
  if (own.size === 0 && nodePorts.size === 0) return () => false;
  return ({ frontends }) =>
    frontends.some(({ address, treatment }) => {
      if (own.size > 0 && treatment === 'external-local') return true;
      if (address === undefined) return nodePorts.size > 0;
      const key = addressKey(address);
      return own.has(key) || nodePorts.has(key);
    });
}

/** Addresses that have to be made local, one for each frontend that has one. */
export function boundAddresses(forwarding: Forwarding, environment: Environment): Address[] {
  return addressesOf(forwarding).filter((address) => !isHostAddress(environment, address));
}

/** The rank of a Service's frontend at this address, which may be one that accepts node ports. */
export function rankAt({ nodePortAddresses }: Environment, { bytes }: Address) {
  if (nodePortAddresses === 'all') return undefined;
  const isNodePorts = nodePortAddresses.some((own) => sameBytes(own.bytes, bytes));
  return isNodePorts ? ('address' as const) : undefined;
}

/** Addresses of Services that are this machine's own: these are not bound, nor unbound ever. */
export function refusedAddresses(forwarding: Forwarding, environment: Environment): Address[] {
  return addressesOf(forwarding).filter((address) => isHostAddress(environment, address));
}

function addressesOf({ frontends }: Forwarding): Address[] {
  return frontends.flatMap(({ address }) => address ?? []);
}

function isHostAddress({ hostAddresses = [] }: Environment, { bytes }: Address): boolean {
  return hostAddresses.some((own) => sameBytes(own.bytes, bytes));
}

/** Addresses that Forwardings may not have, and of which of them nobody was told yet. */
export class RefusedAddresses {
  /** As each Forwarding was told last. */
  readonly #known = new Map<string, readonly Address[]>();
  #untold: RefusedAddress[] = [];

  note(forwarding: Forwarding, environment: Environment): void {
    const { servicePort } = forwarding;
    const key = forwardingKey(servicePort);
    const refused = refusedAddresses(forwarding, environment);
    const known = this.#known.get(key) ?? [];
    if (refused.length === 0) this.#known.delete(key);
    else this.#known.set(key, refused);
    for (const address of refused) {
      const isKnown = known.some(({ bytes }) => sameBytes(bytes, address.bytes));
      if (!isKnown) this.#untold.push({ servicePort, address });
    }
  }

  /** The Forwarding has gone. */
  forget({ servicePort }: Forwarding): void {
    this.#known.delete(forwardingKey(servicePort));
  }

  /** Since the last call. */
  take(): readonly RefusedAddress[] {
    const untold = this.#untold;
    this.#untold = [];
    return untold;
  }
}
