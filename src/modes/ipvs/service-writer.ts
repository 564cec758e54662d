/** Writes the difference of one frontend. */
import { IP_VS_CONN_F, IP_VS_SVC_F } from '../../kernel/ipvs-ops.ts';
import { IPPROTO, NFPROTO, VERDICT } from '../../kernel/nft/constants.ts';
import type { ElementBuffers } from '../../kernel/nft/element-buffer.ts';
import { printVerdict } from '../../kernel/nft/print-verdict.ts';
import type { kernelOps } from '../../kernel/ops.ts';
import type { RecordWriter } from '../../kernel/records.ts';
import { addressBytes, type Family } from '../../net/address.ts';
import { type EndpointKey, type EndpointList, endpointKey } from '../../net/endpoint-list.ts';
import { type Counts, type Difference, noCounts } from '../backend.ts';
import type { Draining } from './draining.ts';
import type { IPVSFrontend } from './frontends.ts';
import type { HeldFrontend, IPVSObjects, VirtualService } from './held.ts';
import type { SetName } from './layout.ts';
import type { ObservedServer } from './observed-servers.ts';

/** All real servers have the same weight, as in kube-proxy. */
const fullWeight = 1;

/** What a writer of frontends needs to know. */
export interface ServiceSettings {
  readonly family: Family;
  /** As the kernel names it: `rr`. */
  readonly scheduler: string;
  readonly draining: Draining;
  /** Whether it is a virtual service of others that is left alone. */
  readonly isForeign: (id: string) => boolean;
}

/** Appends one op. */
export type PlannedOp = (out: RecordWriter<typeof kernelOps>) => void;

/** The parts of a batch that a frontend is written to, in an order that is safe at each step. */
export interface ServiceBatch {
  /** Elements that the first transaction changes. */
  readonly first: ElementBuffers<SetName>;
  /** Elements that the last transaction changes. */
  readonly last: ElementBuffers<SetName>;
  /** New virtual services and real servers: before new addresses. */
  readonly additions: PlannedOp[];
  /** Those to delete: after addresses, and after what replaces them. */
  readonly removals: PlannedOp[];
}

/** A real server in the kernel. */
type Server = Pick<ObservedServer, 'packed' | 'weight' | 'forwarding'>;

/** A frontend in the kernel, as it was read or as it is in force. */
interface Held extends Omit<HeldFrontend, 'service'> {
  readonly service: (VirtualService & ReturnType<typeof settingsOf>) | undefined;
  readonly servers: ReadonlyMap<EndpointKey, Server>;
}

export class ServiceWriter {
  readonly #settings: ServiceSettings;
  readonly #batch: ServiceBatch;

  constructor(settings: ServiceSettings, batch: ServiceBatch) {
    this.#settings = settings;
    this.#batch = batch;
  }

  write(difference: Difference<IPVSObjects>): void {
    const { owner, before, after } = difference;
    const id = (after ?? before)?.id;
    if (id === undefined || this.#settings.isForeign(id)) return;
    if (difference.from === 'kernel') {
      // What was read from the kernel replaces what we remember.
      this.#settings.draining.forget(id);
      this.#difference(owner, heldOf(difference.before), after, difference.drift);
    } else {
      const held = difference.before && this.#believed(difference.before, after);
      this.#difference(owner, held, after, noCounts());
    }
  }

  /** The frontend that is in force. Servers that stay in `after` are left out. */
  #believed(before: IPVSFrontend, after: IPVSFrontend | undefined): Held {
    const { id, key, sets, firewall, pool } = before;
    const isSamePool = after !== undefined && pool.equals(after.pool);
    return {
      id,
      key,
      sets,
      firewall: firewall && verdictTo(firewall.chain),
      service: { ...before, ...settingsOf(before, this.#settings.scheduler) },
      servers: isSamePool ? sameServers : this.#serversOf(before),
    };
  }

  #serversOf({ id, pool }: IPVSFrontend): Map<EndpointKey, Server> {
    const servers = new Map<EndpointKey, Server>();
    for (const [key, packed] of this.#settings.draining.serversOf(id)) {
      servers.set(key, { packed, ...serverSettings(0) });
    }
    for (const [key, packed] of endpointsOf(pool)) {
      servers.set(key, { packed, ...serverSettings(fullWeight) });
    }
    return servers;
  }

  #difference(
    owner: string,
    held: Held | undefined,
    after: IPVSFrontend | undefined,
    drift: Counts,
  ): void {
    if (after === undefined) {
      if (held !== undefined) this.#remove(owner, held, drift);
      return;
    }
    const settings = settingsOf(after, this.#settings.scheduler);
    if (held?.service === undefined) {
      this.#putService(owner, after, 'add');
      drift.missing += 1;
    } else if (!hasSettings(held.service, settings)) {
      this.#putService(owner, after, 'set');
      drift.wrong += 1;
    }
    this.#elements(owner, held, after, drift);
    if (held?.servers !== sameServers) this.#servers(owner, held?.servers, after, drift);
  }

  /** Makes the virtual service, or changes its settings. */
  #putService(owner: string, frontend: IPVSFrontend, how: 'add' | 'set'): void {
    const fields = { ...this.#keyOf(frontend), ...settingsOf(frontend, this.#settings.scheduler) };
    const kind = how === 'add' ? 'virtualServiceAdd' : 'virtualServiceSet';
    this.#batch.additions.push((out) => out.write(kind, fields, owner));
  }

  /** Makes the real server, or gives one that exists its weight again. */
  #putServer(owner: string, service: VirtualService, packed: Uint8Array, how: 'add' | 'set'): void {
    const fields = { ...this.#serverKey(service, packed), ...serverSettings(fullWeight) };
    const kind = how === 'add' ? 'destinationAdd' : 'destinationSet';
    this.#batch.additions.push((out) => out.write(kind, fields, owner));
    this.#settings.draining.remove(service.id, endpointKey(this.#settings.family, packed, 0));
  }

  /**
   * The real server gets no new connections and keeps those that it has. For UDP it is deleted: a
   * client that never stops sending would keep its entry forever.
   */
  #retireServer(owner: string, service: VirtualService, packed: Uint8Array): void {
    if (service.protocol === 'UDP') {
      this.deleteServer(owner, service, packed);
      return;
    }
    const fields = { ...this.#serverKey(service, packed), ...serverSettings(0) };
    const { removals } = this.#batch;
    removals.push((out) => out.write('destinationSet', fields, owner));
    this.#settings.draining.put(service, packed);
  }

  deleteServer(owner: string, service: VirtualService, packed: Uint8Array): void {
    const fields = this.#serverKey(service, packed);
    const { removals } = this.#batch;
    removals.push((out) => out.write('destinationDelete', fields, owner));
    this.#settings.draining.remove(service.id, endpointKey(this.#settings.family, packed, 0));
  }

  #remove(owner: string, { id, key, service, sets, firewall }: Held, drift: Counts): void {
    const { last, removals } = this.#batch;
    if (service !== undefined) {
      const fields = this.#keyOf(service);
      this.#settings.draining.forget(id);
      removals.push((out) => out.write('virtualServiceDelete', fields, owner));
      drift.unwanted += 1;
    }
    for (const set of sets) last.to('delete', set, owner).key(key);
    drift.unwanted += sets.length;
    if (firewall === undefined) return;
    last.to('delete', 'firewall-ips', owner).key(key);
    drift.unwanted += 1;
  }

  #elements(owner: string, held: Held | undefined, after: IPVSFrontend, drift: Counts): void {
    const { first, last } = this.#batch;
    const { key } = after;
    const had = held?.sets ?? [];
    for (const set of after.sets) {
      if (had.includes(set)) continue;
      first.to('add', set, owner).key(key);
      drift.missing += 1;
    }
    for (const set of had) {
      if (after.sets.includes(set)) continue;
      last.to('delete', set, owner).key(key);
      drift.unwanted += 1;
    }
    const chain = after.firewall?.chain;
    const [was, is] = [held?.firewall, chain && verdictTo(chain)];
    if (was === is) return;
    if (was !== undefined) first.to('delete', 'firewall-ips', owner).key(key);
    if (chain !== undefined) {
      first.to('add', 'firewall-ips', owner).verdict(key, VERDICT.goto, chain);
    }
    drift[was === undefined ? 'missing' : is === undefined ? 'unwanted' : 'wrong'] += 1;
  }

  #servers(
    owner: string,
    held: ReadonlyMap<EndpointKey, Server> = sameServers,
    after: IPVSFrontend,
    drift: Counts,
  ): void {
    const desired = endpointsOf(after.pool);
    for (const [key, packed] of desired) {
      const server = held.get(key);
      if (server !== undefined && isServing(server)) continue;
      this.#putServer(owner, after, packed, server === undefined ? 'add' : 'set');
      drift[server === undefined ? 'missing' : 'wrong'] += 1;
    }
    for (const [key, { packed, weight }] of held) {
      if (desired.has(key)) continue;
      if (weight === 0 && after.protocol !== 'UDP') {
        this.#settings.draining.put(after, packed);
        continue;
      }
      this.#retireServer(owner, after, packed);
      drift.unwanted += 1;
    }
  }

  /** What names the virtual service in ops. */
  #keyOf({ address, protocol, port }: Omit<VirtualService, 'id'>) {
    const family = NFPROTO[this.#settings.family];
    return { family, protocol: IPPROTO[protocol], address: address.bytes, port };
  }

  #serverKey(service: VirtualService, packed: Uint8Array) {
    const length = addressBytes[this.#settings.family];
    return {
      ...this.#keyOf(service),
      destination: packed.subarray(0, length),
      destinationPort: (packed[length]! << 8) | packed[length + 1]!,
    };
  }
}

/** No server changes. */
const sameServers: ReadonlyMap<EndpointKey, Server> = new Map();

function heldOf(held: HeldFrontend | undefined): Held | undefined {
  return held && { ...held, servers: new Map(held.service?.servers.entries()) };
}

/** In nft's words. */
function verdictTo(chain: string): string {
  return printVerdict(VERDICT.goto, chain);
}

function endpointsOf(pool: EndpointList): Map<EndpointKey, Uint8Array> {
  const endpoints = new Map<EndpointKey, Uint8Array>();
  for (let i = 0; i < pool.length; i += 1) endpoints.set(pool.key(i), pool.packed(i));
  return endpoints;
}

function hasSettings(
  held: ReturnType<typeof settingsOf>,
  desired: ReturnType<typeof settingsOf>,
): boolean {
  return (
    held.scheduler === desired.scheduler &&
    held.flags === desired.flags &&
    held.prefixLength === desired.prefixLength &&
    (desired.timeoutSeconds === 0 || held.timeoutSeconds === desired.timeoutSeconds)
  );
}

function isServing({ weight, forwarding }: Server): boolean {
  const settings = serverSettings(fullWeight);
  return weight === settings.weight && forwarding === settings.forwarding;
}

/** The settings that a virtual service is to have; dumps show the same. */
export function settingsOf(
  { address, timeoutSeconds }: Pick<IPVSFrontend, 'address' | 'timeoutSeconds'>,
  scheduler: string,
) {
  const persistence = timeoutSeconds > 0 ? IP_VS_SVC_F.PERSISTENT : 0;
  // As upstream: makes `mh` hash the source port too (IP_VS_SVC_F_SCHED_MH_PORT).
  const hashing = scheduler === 'mh' ? IP_VS_SVC_F.SCHED2 : 0;
  return {
    scheduler,
    flags: persistence | hashing,
    timeoutSeconds,
    prefixLength: address.bytes.length * 8,
  };
}

/** The settings of a real server. */
function serverSettings(weight: number) {
  return { forwarding: IP_VS_CONN_F.MASQ, weight, upperThreshold: 0, lowerThreshold: 0 };
}
