/** What the kernel holds of the table, all virtual services, and the addresses on our link. */
import { isKernelError, KernelError } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { IPPROTO, NFPROTO, protocolOf } from '../../kernel/nft/constants.ts';
import { printVerdict } from '../../kernel/nft/print-verdict.ts';
import type { Reply } from '../../kernel/ops.ts';
import { addressBytes, type CIDR, cidrContains, type Family } from '../../net/address.ts';
import { type EndpointKey, EndpointList } from '../../net/endpoint-list.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Found } from '../backend.ts';
import { binary, bytesOf, destinationKey } from '../elements.ts';
import { inTurns, type Pause } from '../mode.ts';
import { type Dump, type ElementsReply, TableContent } from '../nft-table/content.ts';
import type { Fault } from '../nft-table/objects.ts';
import { addressId, frontendSets, type IPVSFrontend, type IPVSShared } from './frontends.ts';
import type {
  HeldFrontend,
  IPVSObjects,
  ObservedServer,
  ObservedService,
  VirtualService,
} from './held.ts';
import { linkName, type SetName, sharedElements, tableLayout, tableName } from './layout.ts';

/** Timeouts of the whole network namespace. */
interface IPVSTimeouts {
  readonly tcpSeconds: number;
  readonly tcpFinSeconds: number;
  readonly udpSeconds: number;
}

/** RT_SCOPE_LINK (linux/rtnetlink.h) */
const RT_SCOPE_LINK = 253;

const dumpAttempts = 5;

export class IPVSObservation implements Found<IPVSObjects> {
  readonly family: Family;
  generation = 0;
  intact = false;
  readonly table: TableContent<SetName>;
  /** Virtual services that an address, protocol and port identify. */
  services: ReadonlyMap<string, ObservedService> = new Map();
  /** Whether our link exists. */
  link = false;
  /** Addresses of our link, by `binary`. */
  addresses: ReadonlyMap<string, Uint8Array> = new Map();
  timeouts: IPVSTimeouts = { tcpSeconds: 0, tcpFinSeconds: 0, udpSeconds: 0 };
  readonly touched = new Set<string>();
  /** Verdicts of `firewall-ips` in nft's words, by frontend. */
  readonly firewalls = new Map<string, string>();
  readonly #taken = new Set<string>();
  readonly #options: ObservationOptions;
  /** Frontends that our table records as ours, even if the table must be made anew. */
  #made: ReadonlySet<string> = new Set();

  constructor(family: Family, options: ObservationOptions = {}) {
    this.family = family;
    this.#options = options;
    this.table = new TableContent(tableLayout(family, options.countsTraffic));
  }

  /** Real servers have no order to adopt. */
  adopt(next: Forwarding): Forwarding {
    return next;
  }

  take({ id, key }: IPVSFrontend): HeldFrontend | undefined {
    this.#taken.add(id);
    return this.#held(id, key, this.services.get(id));
  }

  #held(
    id: string,
    key: Uint8Array,
    service: ObservedService | undefined,
  ): HeldFrontend | undefined {
    const sets = frontendSets.filter((set) => this.table.elements(set).has(id));
    const firewall = this.firewalls.get(id);
    if (service === undefined && sets.length === 0 && firewall === undefined) return undefined;
    return { id, key, service, sets, firewall };
  }

  *rest(): Generator<readonly [string, HeldFrontend]> {
    const ids = new Set([...this.services.keys(), ...this.firewalls.keys()]);
    for (const set of frontendSets) for (const id of this.table.elements(set)) ids.add(id);
    for (const id of ids) {
      if (this.#taken.has(id)) continue;
      const service = this.services.get(id);
      const ours = service !== undefined && this.#isOurs(service) ? service : undefined;
      const held = this.#held(id, bytesOf(id), ours);
      if (held !== undefined) yield [id, held];
    }
  }

  faultOf(object: IPVSShared): Fault | undefined {
    if ('object' in object) return this.table.faultOf(object.object);
    const has =
      'set' in object
        ? this.table.elements(object.set).has(binary(object.key))
        : this.addresses.has(binary(object.address));
    return has ? undefined : 'missing';
  }

  *shared(): Generator<{ readonly id: string; readonly isDeletedLater?: boolean }> {
    for (const key of this.addresses.values()) yield { id: addressId(key) };
    for (const set of sharedElements.sets) {
      for (const key of this.table.elements(set)) yield { id: sharedElements.idOf(set, key) };
    }
    const { chainNames = noNames } = this.#options;
    yield* this.table.beside(chainNames);
  }

  /** Forgets what was in the table. */
  clearTable(): void {
    this.table.clear();
    this.firewalls.clear();
  }

  /** Throws KernelError (EINTR) when what was read is not one consistent state. */
  async read(kernel: Kernel, pause: Pause): Promise<void> {
    const dump: Dump = async (request) => {
      const { records, consistent } = await kernel.dump(request);
      if (!consistent) throw changing(this.family);
      return records;
    };
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
    this.services = await readServices(dump, this.family, pause);
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
  /** Of the chains that the table always has. */
  readonly chainNames?: ReadonlySet<string>;
  readonly countsTraffic?: boolean;
}

const noNames: ReadonlySet<string> = new Set();

function changing(family: Family): KernelError {
  return new KernelError({
    operation: 'ipvs.dump',
    subject: `virtual services of ${family} and table ${tableName}`,
    code: 'EINTR',
    words: `they changed during each of ${dumpAttempts} reads`,
  });
}

/** Leaves out the link-local address that every link with IPv6 has. */
function isBound(record: Reply): record is Extract<Reply, { kind: 'address' }> {
  return record.kind === 'address' && record.scope !== RT_SCOPE_LINK;
}

/** Reads all of it. What changes meanwhile is read again. */
export async function observe(
  kernel: Kernel,
  family: Family,
  options: ObservationOptions,
  pause: Pause,
): Promise<IPVSObservation> {
  for (let attempt = 1; attempt <= dumpAttempts; attempt += 1) {
    const found = new IPVSObservation(family, options);
    found.generation = await kernel.generation();
    try {
      await found.read(kernel, pause);
    } catch (error) {
      if (isKernelError(error, 'EINTR')) continue;
      throw error;
    }
    if ((await kernel.generation()) === found.generation) return found;
  }
  throw changing(family);
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

async function readServices(
  dump: Dump,
  family: Family,
  pause: Pause,
): Promise<Map<string, ObservedService>> {
  const number = NFPROTO[family];
  const services = new Map<string, ObservedService>();
  const found = await dump({ kind: 'virtualServicesDump', family: number });
  await inTurns(found, pause, (record) => {
    const service = record.kind === 'virtualService' ? serviceOf(family, record) : undefined;
    if (service !== undefined) services.set(service.id, service);
  });
  const any = { protocol: 0, address: new Uint8Array(0), port: 0 };
  const servers = await dump({ kind: 'destinationsDump', family: number, ...any });
  await inTurns(servers, pause, (record) => {
    if (record.kind !== 'destination') return;
    const { address, protocol, port } = record;
    const service = services.get(idOf(family, address, protocol, port));
    if (service !== undefined) put(service.servers, family, record);
  });
  return services;
}

function serviceOf(
  family: Family,
  record: Extract<Reply, { kind: 'virtualService' }>,
): ObservedService | undefined {
  const protocol = protocolOf(record.protocol);
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
  // A tunnel may lead to an address of the other family. We make none.
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
