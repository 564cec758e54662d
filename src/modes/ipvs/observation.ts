/** What the kernel holds of ours and near it: table, virtual services, addresses on our link. */
import { KernelError } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { IPPROTO, NFPROTO } from '../../kernel/nft/constants.ts';
import type { Reply } from '../../kernel/ops.ts';
import {
  type Address,
  addressBytes,
  type CIDR,
  cidrContains,
  type Family,
} from '../../net/address.ts';
import { type EndpointKey, EndpointList } from '../../net/endpoint-list.ts';
import type { Protocol } from '../../net/protocol.ts';
import type { Forwarding } from '../../state/types.ts';
import { binary, destinationKey } from '../elements.ts';
import type { Observation, Pause } from '../mode.ts';
import type { VirtualService } from './draining.ts';
import { linkName, type SetDefinitions, tableName } from './layout.ts';
import { TableObservation } from './table-observation.ts';

export interface ObservedServer {
  /** As in an EndpointList. */
  readonly packed: Uint8Array;
  readonly weight: number;
  /** IP_VS_CONN_F_* */
  readonly forwarding: number;
  /** Active and inactive ones. */
  readonly connections: number;
}

/** Of the network namespace, not of a virtual service. */
export interface IPVSTimeouts {
  readonly tcpSeconds: number;
  readonly tcpFinSeconds: number;
  readonly udpSeconds: number;
}

export interface ObservedService extends VirtualService {
  readonly protocol: Protocol;
  readonly scheduler: string;
  /** IP_VS_SVC_F_* */
  readonly flags: number;
  readonly timeoutSeconds: number;
  readonly prefixLength: number;
  readonly servers: Map<EndpointKey, ObservedServer>;
}

const protocols = ['TCP', 'UDP', 'SCTP'] as const satisfies readonly Protocol[];

/** RT_SCOPE_LINK (linux/rtnetlink.h) */
const RT_SCOPE_LINK = 253;

const dumpAttempts = 5;

/** Stands for the environment among the ids that batches have written (`touched`). */
export const environmentId = 'environment';

export class IPVSObservation implements Observation {
  readonly family: Family;
  generation = 0;
  intact = false;
  readonly table: TableObservation;
  /** Virtual services that an address, protocol and port identify. */
  services: ReadonlyMap<string, ObservedService> = new Map();
  /** Whether our link exists. */
  link = false;
  /** Addresses of our link. */
  addresses: ReadonlyMap<string, Uint8Array> = new Map();
  timeouts: IPVSTimeouts = { tcpSeconds: 0, tcpFinSeconds: 0, udpSeconds: 0 };
  /** Ids that batches have written since. */
  readonly touched = new Set<string>();
  /** Frontend ids that the repair has compared. */
  readonly repaired = new Set<string>();
  /** Frontends that our table says we made, even if the table has to be written anew. */
  #made: ReadonlySet<string> = new Set();

  constructor(family: Family) {
    this.family = family;
    this.table = new TableObservation(family, this.touched);
  }

  /** Real servers have no order: a scheduler has. */
  adopt(next: Forwarding): Forwarding {
    return next;
  }

  /** Returns whether what was read is one consistent state. */
  async read(kernel: Kernel, sets: SetDefinitions, pause: Pause): Promise<boolean> {
    if (!(await this.table.read(kernel, sets, pause))) return false;
    this.#made = new Set(this.table.elements('services').keys());
    const link = await kernel.dump({ kind: 'linkGet', link: linkName });
    this.link = link.records.length > 0;
    const family = NFPROTO[this.family];
    const { records, consistent } = await kernel.dump({
      kind: 'addressesDump',
      family,
      link: linkName,
    });
    if (!consistent) return false;
    const ofLink = records.flatMap((one) => (isBound(one) ? [one.address] : []));
    this.addresses = new Map(ofLink.map((bytes) => [binary(bytes), bytes]));
    const timeouts = await kernel.dump({ kind: 'ipvsTimeoutsGet' });
    for (const record of timeouts.records) {
      if (record.kind === 'ipvsTimeouts') this.timeouts = record;
    }
    const services = await readServices(kernel, this.family, pause);
    if (services === undefined) return false;
    this.services = services;
    return true;
  }

  /**
   * Whether we made the virtual service, or kube-proxy did: it is recorded in our table, or its
   * address is on the link that is ours, and was kube-proxy's.
   */
  isOurs(service: VirtualService, excluded: readonly CIDR[]): boolean {
    if (this.isRecorded(service)) return true;
    const { address } = service;
    return this.addresses.has(binary(address.bytes)) && !isExcluded(address, excluded);
  }

  /** Whether our table says that we made the virtual service. */
  isRecorded({ id }: VirtualService): boolean {
    return this.#made.has(id);
  }

  /** Virtual services that others made where the operator says that they may. */
  foreignServices(excluded: readonly CIDR[]): Set<string> {
    const foreign = new Set<string>();
    for (const [id, { address }] of this.services) {
      if (!this.#made.has(id) && isExcluded(address, excluded)) foreign.add(id);
    }
    return foreign;
  }
}

/** IPv6 gives every link that is up an address of its own. */
function isBound(record: Reply): record is Extract<Reply, { kind: 'address' }> {
  return record.kind === 'address' && record.scope !== RT_SCOPE_LINK;
}

/** Reads what is ours, and what is near. What changes meanwhile is read again. */
export async function observe(
  kernel: Kernel,
  family: Family,
  sets: SetDefinitions,
  pause: Pause,
): Promise<IPVSObservation> {
  for (let attempt = 1; attempt <= dumpAttempts; attempt += 1) {
    const found = new IPVSObservation(family);
    found.generation = await kernel.generation();
    const consistent = await found.read(kernel, sets, pause);
    if (consistent && (await kernel.generation()) === found.generation) return found;
  }
  throw new KernelError({
    operation: 'ipvs.dump',
    subject: `virtual services of ${family} and table ${tableName}`,
    code: 'EINTR',
    words: `they changed during each of ${dumpAttempts} reads`,
  });
}

/** The real servers of some virtual services, by the ids of these. */
export async function observeServers(
  kernel: Kernel,
  family: Family,
  services: readonly VirtualService[],
): Promise<Map<string, Map<EndpointKey, ObservedServer>>> {
  const found = new Map<string, Map<EndpointKey, ObservedServer>>();
  for (const { id, address, protocol, port } of services) {
    const key = { protocol: IPPROTO[protocol], address: address.bytes, port };
    const request = { kind: 'destinationsDump', family: NFPROTO[family], ...key } as const;
    const { records } = await kernel.dump(request);
    const servers = new Map<EndpointKey, ObservedServer>();
    for (const record of records) if (record.kind === 'destination') put(servers, family, record);
    found.set(id, servers);
  }
  return found;
}

/** Undefined when what was read may not be all. */
async function readServices(
  kernel: Kernel,
  family: Family,
  pause: Pause,
): Promise<Map<string, ObservedService> | undefined> {
  const number = NFPROTO[family];
  const services = new Map<string, ObservedService>();
  const dump = await kernel.dump({ kind: 'virtualServicesDump', family: number });
  for (const record of dump.records) {
    await pause();
    const service = record.kind === 'virtualService' ? serviceOf(family, record) : undefined;
    if (service !== undefined) services.set(service.id, service);
  }
  const any = { protocol: 0, address: new Uint8Array(0), port: 0 };
  const servers = await kernel.dump({ kind: 'destinationsDump', family: number, ...any });
  for (const record of servers.records) {
    await pause();
    if (record.kind !== 'destination') continue;
    const { address, protocol, port } = record;
    const service = services.get(idOf(family, address, protocol, port));
    if (service !== undefined) put(service.servers, family, record);
  }
  return dump.consistent && servers.consistent ? services : undefined;
}

function serviceOf(
  family: Family,
  record: Extract<Reply, { kind: 'virtualService' }>,
): ObservedService | undefined {
  const protocol = protocols.find((name) => IPPROTO[name] === record.protocol);
  if (protocol === undefined || record.firewallMark !== 0) return undefined;
  const { scheduler, flags, timeoutSeconds, prefixLength, port } = record;
  return {
    id: idOf(family, record.address, record.protocol, port),
    address: { family, bytes: record.address },
    protocol,
    port,
    scheduler,
    flags,
    timeoutSeconds,
    prefixLength,
    servers: new Map(),
  };
}

function put(
  servers: Map<EndpointKey, ObservedServer>,
  family: Family,
  record: Extract<Reply, { kind: 'destination' }>,
): void {
  // A tunnel may lead to another family: none of ours.
  if (record.destination.length !== addressBytes[family]) return;
  const endpoint = { address: record.destination, port: record.destinationPort };
  const list = EndpointList.of(family, [endpoint]);
  servers.set(list.key(0), {
    packed: list.bytes,
    weight: record.weight,
    forwarding: record.forwarding,
    connections: record.activeConnections + record.inactiveConnections,
  });
}

function idOf(family: Family, bytes: Uint8Array, protocol: number, port: number): string {
  return binary(destinationKey({ family, bytes }, protocol, port));
}

function isExcluded(address: Address, excluded: readonly CIDR[]): boolean {
  return excluded.some((cidr) => cidrContains(cidr, address));
}
