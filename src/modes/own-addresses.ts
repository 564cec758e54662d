/**
 * The addresses that modes bind, and those that Services ask for and that are this machine's own:
 * modes that bind addresses leave these alone, and report each once.
 */
import { NFPROTO } from '../kernel/nft/constants.ts';
import { type Address, addressBytes, type Family } from '../net/address.ts';
import { difference, keysOf } from '../state/node-sockets.ts';
import { isByClient } from '../state/paths.ts';
import type { Forwarding, Frontend } from '../state/types.ts';
import type { Environment, RefusedAddress } from './mode.ts';

/**
 * Whether a change of environment changes the objects of a Forwarding. It does when the Forwarding
 * has a frontend at an address that comes or goes; when it has a node port and the addresses that
 * accept node ports change; and when it treats this node differently from other clients and the
 * node's addresses change.
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
    frontends.some(({ address, paths }) => {
      if (own.size > 0 && isByClient(paths)) return true;
      if (address === undefined) return nodePorts.size > 0;
      const key = address.key;
      return own.has(key) || nodePorts.has(key);
    });
}

/** The addresses to bind, one for each frontend that has an address. */
export function boundAddresses(forwarding: Forwarding, environment: Environment): Address[] {
  return addressesOf(forwarding).filter((address) => !isHostAddress(environment, address));
}

/** The fields of an op that adds addresses to a link or deletes them, each without a network. */
export function addressFields(family: Family, link: string, addresses: readonly Uint8Array[]) {
  const prefixLength = addressBytes[family] * 8;
  const packed = Buffer.concat(addresses);
  return { family: NFPROTO[family], link, index: 0, prefixLength, addresses: packed };
}

/** See `ModeFrontend.claimKind`. */
export function claimKindOf(
  { address, kind }: Frontend,
  { nodePortAddresses }: Environment,
): Frontend['kind'] | undefined {
  if (address === undefined) return kind;
  if (nodePortAddresses === 'all') return undefined;
  return nodePortAddresses.some(({ key }) => key === address.key) ? kind : undefined;
}

/** Addresses of Services that are this machine's own. They are never bound, and never unbound. */
export function refusedAddresses(forwarding: Forwarding, environment: Environment): Address[] {
  return addressesOf(forwarding).filter((address) => isHostAddress(environment, address));
}

function addressesOf({ frontends }: Forwarding): Address[] {
  return frontends.flatMap(({ address }) => address ?? []);
}

function isHostAddress({ hostAddresses = [] }: Environment, { key }: Address): boolean {
  return hostAddresses.some((own) => own.key === key);
}

/** Addresses that Forwardings may not have, and which of them are not reported yet. */
export class RefusedAddresses {
  /** The refused addresses of each Forwarding. */
  readonly #known = new Map<string, readonly Address[]>();
  #unreported: RefusedAddress[] = [];

  note(forwarding: Forwarding, environment: Environment): void {
    const { key, servicePort } = forwarding;
    const refused = refusedAddresses(forwarding, environment);
    const known = this.#known.get(key) ?? [];
    if (refused.length === 0) this.#known.delete(key);
    else this.#known.set(key, refused);
    for (const address of refused) {
      const isKnown = known.some((other) => other.key === address.key);
      if (!isKnown) this.#unreported.push({ servicePort, address });
    }
  }

  /** The Forwarding has gone. */
  forget({ key }: Forwarding): void {
    this.#known.delete(key);
  }

  /** Those refused since the last call. */
  take(): readonly RefusedAddress[] {
    const unreported = this.#unreported;
    this.#unreported = [];
    return unreported;
  }
}
