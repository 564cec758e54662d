/** What the kernel holds of the table, all virtual services, and the addresses on our link. */

import type { KernelReader, ReplyOf } from '../../kernel/kernel.ts';
import { IPPROTO, NFPROTO, protocolOf } from '../../kernel/nft/constants.ts';
import { printVerdict } from '../../kernel/nft/print-verdict.ts';
import type { Reply } from '../../kernel/ops.ts';
import { RT_SCOPE_LINK } from '../../kernel/route-ops.ts';
import { steadyDump } from '../../kernel/steady.ts';
import { Address, type CIDR, cidrContains, type Family } from '../../net/address.ts';
import type { EndpointKey } from '../../net/endpoint-list.ts';
import type { Pause } from '../../time/pacer.ts';
import type { Found, ObservedShared } from '../backend.ts';
import { binary, bytesOf, destinationKey } from '../elements.ts';
import { type Dump, type ElementsReply, TableContent } from '../nft-table/content.ts';
import type { Fault } from '../nft-table/objects.ts';
import { addressId, frontendSets, type IPVSFrontend, type IPVSShared } from './frontends.ts';
import { linkName, type SetName, sharedElements, tableLayout } from './layout.ts';
import type { IPVSObjects, ObservedFrontend, ObservedService, VirtualService } from './observed.ts';
import { type ObservedServer, ObservedServers } from './observed-servers.ts';

/** Timeouts of the whole network namespace. */
interface IPVSTimeouts {
  readonly tcpSeconds: number;
  readonly tcpFinSeconds: number;
  readonly udpSeconds: number;
}

export class IPVSObservation implements Found<IPVSObjects> {
  readonly family: Family;
  readonly table: TableContent<SetName>;
  /** Virtual services that an address, protocol and port identify. */
  services: ReadonlyMap<string, ObservedService> = new Map();
  /** Whether our link exists. */
  link = false;
  /** Addresses of our link, by `binary`. */
  addresses: ReadonlyMap<string, Uint8Array> = new Map();
  timeouts: Partial<IPVSTimeouts> = {};
  /** Verdicts of `firewall-ips` in nft's words, by frontend. */
  readonly firewalls = new Map<string, string>();
  readonly #taken = new Set<string>();
  readonly #options: ObservationOptions;
  /** Frontends that our table records as ours, even if the table must be recreated. */
  #made: ReadonlySet<string> = new Set();

  constructor(family: Family, options: ObservationOptions = {}) {
    this.family = family;
    this.#options = options;
    this.table = new TableContent(tableLayout(family, options.countsTraffic));
  }

  take({ id, key }: IPVSFrontend): ObservedFrontend | undefined {
    this.#taken.add(id);
    return this.#observed(id, key, this.services.get(id));
  }

  #observed(
    id: string,
    key: Uint8Array,
    service: ObservedService | undefined,
  ): ObservedFrontend | undefined {
    const sets = frontendSets.filter((set) => this.table.elements(set).has(id));
    const firewall = this.firewalls.get(id);
    if (service === undefined && sets.length === 0 && firewall === undefined) return undefined;
    return { id, key, service, sets, firewall };
  }

  *rest(): Generator<readonly [string, ObservedFrontend]> {
    const ids = new Set([...this.services.keys(), ...this.firewalls.keys()]);
    for (const set of frontendSets) for (const id of this.table.elements(set)) ids.add(id);
    for (const id of ids) {
      if (this.#taken.has(id)) continue;
      const service = this.services.get(id);
      const ours = service !== undefined && this.#isOurs(service) ? service : undefined;
      const observed = this.#observed(id, bytesOf(id), ours);
      if (observed !== undefined) yield [id, observed];
    }
  }

  faultOf(object: IPVSShared): Fault | undefined {
    if ('object' in object) return this.table.faultOf(object.object);
    const has =
      'set' in object
        ? this.table.elements(object.set).has(sharedElements.keyOf(object))
        : this.addresses.has(binary(object.address));
    return has ? undefined : 'missing';
  }

  *shared(): Generator<ObservedShared> {
    for (const key of this.addresses.values()) yield { id: addressId(key) };
    for (const set of sharedElements.sets) {
      for (const key of this.table.elements(set)) yield { id: sharedElements.idOf(set, key) };
    }
    yield* this.table.namedObjects();
  }

  /** Forgets what was in the table. */
  clearTable(): void {
    this.table.clear();
    this.firewalls.clear();
  }

  /** Throws KernelError (EINTR) when what was read is not one consistent state. */
  async read(kernel: KernelReader, pause: Pause): Promise<void> {
    const dump: Dump = (request) => steadyDump(kernel, request);
    await this.table.read(dump, (_set, record) => this.#takeFirewalls(record), pause);
    this.#made = new Set(this.table.elements('services'));
    this.link = (await dump({ kind: 'linkGet', link: linkName })).length > 0;
    const family = NFPROTO[this.family];
    const addresses = await dump({ kind: 'addressesDump', family, link: linkName });
    const ofLink = addresses.flatMap((one) => (isBound(one) ? [one.address] : []));
    this.addresses = new Map(ofLink.map((bytes) => [binary(bytes), bytes]));
    for (const record of await dump({ kind: 'ipvsTimeoutsGet' })) {
      if (record.kind === 'ipvsTimeouts') this.timeouts = record;
    }
    this.services = await readServices(kernel, this.family);
  }

  #takeFirewalls({ entries, keyLength }: ElementsReply): void {
    const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
    let at = 0;
    while (at < entries.length) {
      const id = binary(entries.subarray(at, at + keyLength));
      at += keyLength;
      const length = view.getUint32(at + 4, true);
      const chain = binary(entries.subarray(at + 8, at + 8 + length));
      this.firewalls.set(id, printVerdict(view.getInt32(at, true), chain));
      at += 8 + ((length + 3) & ~3);
    }
  }

  /**
   * Whether we made the virtual service, or kube-proxy did: it is recorded in our table, or its
   * address is on the link that is ours, and was kube-proxy's.
   */
  #isOurs(service: VirtualService): boolean {
    if (this.isRecorded(service)) return true;
    return this.addresses.has(binary(service.address.bytes)) && !this.#isExcluded(service);
  }

  /** Whether our table says that we made the virtual service. */
  isRecorded({ id }: VirtualService): boolean {
    return this.#made.has(id);
  }

  /** Virtual services of others at addresses that the operator leaves to them. */
  foreignServices(): Set<string> {
    const foreign = new Set<string>();
    for (const service of this.services.values()) {
      if (!this.isRecorded(service) && this.#isExcluded(service)) foreign.add(service.id);
    }
    return foreign;
  }

  #isExcluded({ address }: VirtualService): boolean {
    return (this.#options.excluded ?? []).some((cidr) => cidrContains(cidr, address));
  }
}

interface ObservationOptions {
  /** Virtual services at these addresses belong to others, unless we made them. */
  readonly excluded?: readonly CIDR[];
  readonly countsTraffic?: boolean;
}

/** Leaves out the link-local address that every link with IPv6 has. */
function isBound(record: Reply): record is ReplyOf<'address'> {
  return record.kind === 'address' && record.scope !== RT_SCOPE_LINK;
}

/** Reads all objects. The ruleset may change in the meantime. */
export async function observe(
  kernel: KernelReader,
  family: Family,
  options: ObservationOptions,
  pause: Pause,
): Promise<IPVSObservation> {
  const found = new IPVSObservation(family, options);
  await found.read(kernel, pause);
  return found;
}

/**
 * The real servers of some virtual services, by the ids of these. Those that could not be read
 * whole are absent.
 */
export async function observeServers(
  kernel: KernelReader,
  family: Family,
  services: readonly VirtualService[],
): Promise<Map<string, Map<EndpointKey, ObservedServer>>> {
  const found = new Map<string, Map<EndpointKey, ObservedServer>>();
  for (const { id, address, protocol, port } of services) {
    const key = { protocol: IPPROTO[protocol], address: address.bytes, port };
    const request = { kind: 'destinationsDump', family: NFPROTO[family], ...key } as const;
    const servers = new ObservedServers(family);
    const { consistent } = await kernel.dump(request, (record) => {
      if (record.kind === 'destination') servers.add(record);
    });
    if (consistent) found.set(id, new Map(servers.entries()));
  }
  return found;
}

async function readServices(
  kernel: KernelReader,
  family: Family,
): Promise<Map<string, ObservedService>> {
  const number = NFPROTO[family];
  const services = new Map<string, ObservedService>();
  const any = { protocol: 0, address: new Uint8Array(0), port: 0 };
  await steadyDump(kernel, { kind: 'virtualServicesDump', family: number }, (record) => {
    const service = record.kind === 'virtualService' ? serviceOf(family, record) : undefined;
    if (service !== undefined) services.set(service.id, service);
  });
  await steadyDump(kernel, { kind: 'destinationsDump', family: number, ...any }, (record) => {
    if (record.kind !== 'destination') return;
    const { address, protocol, port } = record;
    services.get(idOf(address, protocol, port))?.servers.add(record);
  });
  return services;
}

function serviceOf(family: Family, record: ReplyOf<'virtualService'>): ObservedService | undefined {
  const protocol = protocolOf(record.protocol);
  if (protocol === undefined || record.firewallMark !== 0) return undefined;
  const { scheduler, flags, timeoutSeconds, prefixLength, port } = record;
  return {
    id: idOf(record.address, record.protocol, port),
    address: Address.from(record.address),
    protocol,
    port,
    scheduler,
    flags,
    timeoutSeconds,
    prefixLength,
    servers: new ObservedServers(family),
  };
}

function idOf(bytes: Uint8Array, protocol: number, port: number): string {
  return binary(destinationKey(Address.from(bytes), protocol, port));
}
