/** Writes what takes one frontend from one state to another. */
import { IP_VS_CONN_F, IP_VS_SVC_F } from '../../kernel/ipvs-ops.ts';
import { IPPROTO, NFPROTO, VERDICT } from '../../kernel/nft/constants.ts';
import { addressBytes, type Family } from '../../net/address.ts';
import { type EndpointKey, type EndpointList, endpointKey } from '../../net/endpoint-list.ts';
import type { FrontendChange } from '../changes.ts';
import type { BatchWriter } from './batch-writer.ts';
import type { Draining, VirtualService } from './draining.ts';
import type { IPVSFrontend } from './frontends.ts';

/** New connections are dealt out evenly, as upstream does. */
export const fullWeight = 1;

export class ServiceWriter {
  readonly #family: Family;
  readonly #scheduler: string;
  readonly #batch: BatchWriter;
  readonly #draining: Draining;

  constructor(family: Family, scheduler: string, batch: BatchWriter, draining: Draining) {
    this.#family = family;
    this.#scheduler = scheduler;
    this.#batch = batch;
    this.#draining = draining;
  }

  write({ owner, before, after }: FrontendChange<IPVSFrontend>): void {
    if (after === undefined) {
      if (before !== undefined) this.#remove(owner, before);
      return;
    }
    if (before === undefined) this.putService(owner, after, 'add');
    else if (before.timeoutSeconds !== after.timeoutSeconds) this.putService(owner, after, 'set');
    this.#elements(owner, before, after);
    this.#pool(owner, before, after);
  }

  /** Makes the virtual service, or gives it the settings that are wanted. */
  putService(owner: string, frontend: IPVSFrontend, how: 'add' | 'set'): void {
    const fields = { ...this.#keyOf(frontend), ...settingsOf(frontend, this.#scheduler) };
    const kind = how === 'add' ? 'virtualServiceAdd' : 'virtualServiceSet';
    this.#batch.additions.push({ owner, write: (out) => out.write(kind, fields) });
  }

  removeService(owner: string, service: VirtualService): void {
    const fields = this.#keyOf(service);
    this.#draining.forget(service.id);
    const { removals } = this.#batch;
    removals.push({ owner, write: (out) => out.write('virtualServiceDelete', fields) });
  }

  /** A real server that the kernel has is given its weight again, or for the first time. */
  putServer(owner: string, service: VirtualService, packed: Uint8Array, how: 'add' | 'set'): void {
    const fields = { ...this.#serverKey(service, packed), ...serverSettings(fullWeight) };
    const kind = how === 'add' ? 'destinationAdd' : 'destinationSet';
    this.#batch.additions.push({ owner, write: (out) => out.write(kind, fields) });
    this.#draining.remove(service.id, endpointKey(this.#family, packed, 0));
  }

  /**
   * No new connections for it; those that it has may end in peace. UDP has no connections to end:
   * a client that never stops sending would keep its own forever.
   */
  retireServer(owner: string, service: VirtualService, packed: Uint8Array): void {
    if (service.protocol === 'UDP') {
      this.deleteServer(owner, service, packed);
      return;
    }
    const fields = { ...this.#serverKey(service, packed), ...serverSettings(0) };
    const { removals } = this.#batch;
    removals.push({ owner, write: (out) => out.write('destinationSet', fields) });
    this.#draining.put(service, packed);
  }

  deleteServer(owner: string, service: VirtualService, packed: Uint8Array): void {
    const fields = this.#serverKey(service, packed);
    const { removals } = this.#batch;
    removals.push({ owner, write: (out) => out.write('destinationDelete', fields) });
    this.#draining.remove(service.id, endpointKey(this.#family, packed, 0));
  }

  #remove(owner: string, frontend: IPVSFrontend): void {
    this.removeService(owner, frontend);
    const { last } = this.#batch;
    for (const set of frontend.sets) last.to('delete', set, owner).key(frontend.key);
    if (frontend.firewall !== undefined) {
      last.to('delete', 'firewall-ips', owner).key(frontend.key);
    }
  }

  #elements(owner: string, before: IPVSFrontend | undefined, after: IPVSFrontend): void {
    const { first, last } = this.#batch;
    const had = before?.sets ?? [];
    for (const set of after.sets) {
      if (!had.includes(set)) first.to('add', set, owner).key(after.key);
    }
    for (const set of had) {
      if (!after.sets.includes(set)) last.to('delete', set, owner).key(after.key);
    }
    const [was, is] = [before?.firewall?.chain, after.firewall?.chain];
    if (was !== is) this.putFirewall(owner, after.key, was !== undefined, is);
  }

  /** Sends clients to the chain that judges them; undefined = all may connect. */
  putFirewall(owner: string, key: Uint8Array, isThere: boolean, chain: string | undefined): void {
    const { first } = this.#batch;
    if (isThere) first.to('delete', 'firewall-ips', owner).key(key);
    if (chain === undefined) return;
    first.to('add', 'firewall-ips', owner).verdict(key, VERDICT.goto, chain);
  }

  #pool(owner: string, before: IPVSFrontend | undefined, after: IPVSFrontend): void {
    if (before?.pool.equals(after.pool)) return;
    const had = before === undefined ? noServers : serversOf(before.pool);
    const wanted = serversOf(after.pool);
    for (const [key, packed] of wanted) {
      if (had.has(key)) continue;
      const how = this.#draining.has(after.id, key) ? 'set' : 'add';
      this.putServer(owner, after, packed, how);
    }
    for (const [key, packed] of had) {
      if (!wanted.has(key)) this.retireServer(owner, after, packed);
    }
  }

  /** What names the virtual service in ops. */
  #keyOf({ address, protocol, port }: Omit<VirtualService, 'id'>) {
    const family = NFPROTO[this.#family];
    return { family, protocol: IPPROTO[protocol], address: address.bytes, port };
  }

  #serverKey(service: VirtualService, packed: Uint8Array) {
    const length = addressBytes[this.#family];
    return {
      ...this.#keyOf(service),
      destination: packed.subarray(0, length),
      destinationPort: (packed[length]! << 8) | packed[length + 1]!,
    };
  }
}

const noServers: ReadonlyMap<EndpointKey, Uint8Array> = new Map();

/** The endpoints of a pool by their keys. */
export function serversOf(pool: EndpointList): Map<EndpointKey, Uint8Array> {
  const servers = new Map<EndpointKey, Uint8Array>();
  for (let i = 0; i < pool.length; i += 1) servers.set(pool.key(i), pool.packed(i));
  return servers;
}

/** The settings that a virtual service is to have; dumps show the same. */
export function settingsOf(
  { address, timeoutSeconds }: Pick<IPVSFrontend, 'address' | 'timeoutSeconds'>,
  scheduler: string,
) {
  const persistence = timeoutSeconds > 0 ? IP_VS_SVC_F.PERSISTENT : 0;
  // As upstream: what `mh` takes the source port into account by (IP_VS_SVC_F_SCHED_MH_PORT).
  const hashing = scheduler === 'mh' ? IP_VS_SVC_F.SCHED2 : 0;
  return {
    scheduler,
    flags: persistence | hashing,
    timeoutSeconds,
    prefixLength: address.bytes.length * 8,
  };
}

/** The settings of a real server. */
export function serverSettings(weight: number) {
  return { forwarding: IP_VS_CONN_F.MASQ, weight, upperThreshold: 0, lowerThreshold: 0 };
}
