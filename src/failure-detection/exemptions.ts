/**
 * Which endpoints are neither probed nor ejected. Whoever writes EndpointSlices must not make the
 * node connect to itself, to other Services, or to anything that is not a pod. A `targetRef` proves
 * nothing: the same tenant writes it.
 */
import { type Address, type CIDR, cidrContains, type Family } from '../net/address.ts';
import { specialUse } from '../net/special-address.ts';
import { type AddressKeys, keysOf } from '../state/node-sockets.ts';

/** What is known at present. It is asked for each decision, and is the same until it changes. */
export interface Known {
  /** The addresses of this machine. */
  readonly interfaces: () => readonly Address[];
  /** Where pods may be. */
  readonly podCIDRs: () => readonly CIDR[];
  readonly serviceCIDRs: (family: Family) => readonly CIDR[];
  /** The Service (`namespace/name`) that has this frontend of TCP. */
  readonly ownerOf: (address: Address, port: number) => string | undefined;
}

export class Exemptions {
  readonly #known: Known;
  #interfaces: readonly Address[] = [];
  /** Keys of `#interfaces`: a node may have thousands. */
  #own: AddressKeys = new Set();

  constructor(known: Known) {
    this.#known = known;
  }

  /** Why the endpoint is neither probed nor ejected at present; undefined: it may be. */
  reasonOf(address: Address, port: number): string | undefined {
    const { ownerOf, podCIDRs, serviceCIDRs } = this.#known;
    const isIn = (cidr: CIDR): boolean => cidrContains(cidr, address);
    const special = specialUse(address);
    if (special !== undefined) return `it is ${special}`;
    if (this.#isOwn(address)) return 'it is an address of this node';
    if (serviceCIDRs(address.family).some(isIn)) return 'it is in a ServiceCIDR';
    const owner = ownerOf(address, port);
    if (owner !== undefined) return `it is an address of Service ${owner}`;
    return podCIDRs().some(isIn) ? undefined : 'it is in no pod CIDR that this node knows';
  }

  #isOwn({ key }: Address): boolean {
    const interfaces = this.#known.interfaces();
    if (interfaces !== this.#interfaces) {
      this.#interfaces = interfaces;
      this.#own = keysOf(interfaces);
    }
    return this.#own.has(key);
  }
}
