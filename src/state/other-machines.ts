/**
 * Addresses of other machines, as EndpointSlices show them: no Node but this one is watched. They
 * are the API servers, endpoints of default/kubernetes, and endpoints in kube-system that name a
 * node and are outside the blocks of pods: pods that use the network of their node. Slices of other
 * namespaces do not count: whoever may write them could take an external IP from another tenant.
 */
import { type AddressKey, type CIDR, cidrContains } from '../net/address.ts';
import type { AddressKeys } from './node-sockets.ts';
import { addressAt, Condition, type EndpointSlice } from './types.ts';

/** The Service of the API servers, and the one whose EndpointSlices name them. */
export const apiServers = 'default/kubernetes';

/** The start of the keys of Services of a namespace that has no tenants. */
export const ofSystem = 'kube-system/';

export class OtherMachines {
  readonly #podCIDRs: readonly CIDR[];
  /** In how many slices each address is. */
  readonly #counts = new Map<AddressKey, number>();
  #keys: AddressKeys | undefined;

  /** `podCIDRs`: where all pods are. Of a family without any, only API servers are known. */
  constructor(podCIDRs: readonly CIDR[]) {
    this.#podCIDRs = podCIDRs;
  }

  /** The same set until it changes. */
  get keys(): AddressKeys {
    this.#keys ??= new Set(this.#counts.keys());
    return this.#keys;
  }

  add(slice: EndpointSlice): void {
    for (const key of this.#of(slice)) {
      const count = this.#counts.get(key) ?? 0;
      this.#counts.set(key, count + 1);
      if (count === 0) this.#keys = undefined;
    }
  }

  remove(slice: EndpointSlice): void {
    for (const key of this.#of(slice)) {
      const count = this.#counts.get(key)! - 1;
      if (count > 0) this.#counts.set(key, count);
      else if (this.#counts.delete(key)) this.#keys = undefined;
    }
  }

  *#of(slice: EndpointSlice) {
    const { conditions, family, length, places, service } = slice;
    const isOfServers = service === apiServers;
    if (!isOfServers && !service.startsWith(ofSystem)) return;
    const podCIDRs = this.#podCIDRs.filter(({ address }) => address.family === family);
    if (!isOfServers && (podCIDRs.length === 0 || places === undefined)) return;
    for (let i = 0; i < length; i += 1) {
      const isHere = (conditions.charCodeAt(i) & Condition.local) !== 0;
      if (isHere || (!isOfServers && places?.[i]?.node === '')) continue;
      const address = addressAt(slice, i);
      if (isOfServers || !podCIDRs.some((cidr) => cidrContains(cidr, address))) yield address.key;
    }
  }
}
