/** IPVS in memory: virtual services and destinations of one network namespace. */
import {
  IP_VS_CONN_F,
  type ipvsOps,
  type ipvsReplies,
  type ipvsRequests,
} from '../../src/kernel/ipvs-ops.ts';
import type { RecordOf } from '../../src/kernel/records.ts';
import { formatAddress } from '../../src/net/address.ts';
import { Refusal } from './refusal.ts';

export type IpvsOp = RecordOf<typeof ipvsOps>;
export type IpvsRequest = RecordOf<typeof ipvsRequests>;
export type IpvsReply = RecordOf<typeof ipvsReplies>;

type ServiceKey = Extract<IpvsOp, { kind: 'virtualServiceDelete' }>;
type DestinationKey = Extract<IpvsOp, { kind: 'destinationDelete' }>;
type ServiceReply = Extract<IpvsReply, { kind: 'virtualService' }>;
type DestinationReply = Extract<IpvsReply, { kind: 'destination' }>;

const noStatistics = { connections: 0, inPackets: 0, outPackets: 0, inBytes: 0, outBytes: 0 };
const noConnections = {
  activeConnections: 0,
  inactiveConnections: 0,
  persistentConnections: 0,
} as const;

/** Debian's schedulers (6.12); `none` is the kernel's name for no scheduler at all. */
const schedulers = 'rr wrr lc wlc lblc lblcr sh dh sed nq mh fo ovf twos none'.split(' ');

interface VirtualService {
  record: ServiceReply;
  readonly destinations: Map<string, DestinationReply>;
}

export class FakeIpvs {
  readonly #services = new Map<string, VirtualService>();
  #timeouts = { tcpSeconds: 900, tcpFinSeconds: 120, udpSeconds: 300 };
  /** False: the kernel has no IPVS. */
  present = true;
  /** The schedulers that the kernel has. */
  readonly schedulers: Set<string> = new Set(schedulers);

  /** Throws a Refusal. */
  run(op: IpvsOp): void {
    switch (op.kind) {
      case 'virtualServiceAdd':
        if (this.#services.has(keyOf(op))) throw new Refusal('EEXIST');
        this.#services.set(keyOf(op), { record: this.#settings(op), destinations: new Map() });
        return;
      case 'virtualServiceSet': {
        const service = this.#service(op);
        const { connections, inPackets, outPackets, inBytes, outBytes } = service.record;
        const statistics = { connections, inPackets, outPackets, inBytes, outBytes };
        service.record = { ...this.#settings(op), ...statistics };
        return;
      }
      case 'virtualServiceDelete':
        this.#service(op);
        this.#services.delete(keyOf(op));
        return;
      case 'ipvsTimeoutsSet':
        this.#setTimeouts(op);
        return;
      default:
        this.#changeDestination(op);
    }
  }

  answer(request: IpvsRequest): IpvsReply[] {
    switch (request.kind) {
      case 'virtualServicesDump':
        return this.#ofFamily(request.family).map(({ record }) => record);
      case 'destinationsDump':
        return this.#asked(request).flatMap(({ destinations }) => [...destinations.values()]);
      case 'ipvsTimeoutsGet':
        return [{ kind: 'ipvsTimeouts', ...this.#timeouts }];
      case 'ipvsInfoGet':
        return [{ kind: 'ipvsInfo', version: 0x010201, connectionTableSize: 4096 }];
    }
  }

  /**
   * Sets what traffic leaves: connections and counters of a destination, `10.244.0.7:53`. Its service
   * has had as many connections as its destinations (ip_vs_conn_stats).
   */
  traffic(service: string, destination: string, counters: Partial<DestinationReply>): void {
    const found = this.#services.get(service);
    const before = found?.destinations.get(destination);
    if (before === undefined) throw new Error(`no destination ${destination} of ${service}`);
    const record = { ...before, ...counters, kind: 'destination' } as const;
    found!.destinations.set(destination, record);
    const connections = found!.record.connections + record.connections - before.connections;
    found!.record = { ...found!.record, connections };
  }

  /** How many connections a service and one of its destinations have had; undefined: it is gone. */
  connections(service: string, destination: string) {
    const found = this.#services.get(service);
    const own = found?.destinations.get(destination)?.connections;
    return { all: found?.record.connections, own };
  }

  /** The state as `ipvsadm -Sn` prints it, sorted: the same text for the same state. */
  text(): string {
    const services = [...this.#services.entries()].sort(([a], [b]) => (a < b ? -1 : 1));
    const lines = services.flatMap(([key, { record, destinations }]) => [
      `${key} ${settingsText(record)}`,
      ...[...destinations].map(([to, each]) => `  -> ${to} ${destinationText(each)}`).sort(),
    ]);
    return lines.map((line) => `${line}\n`).join('');
  }

  /** Real servers, each as often as its weight says; undefined: there is no such service. */
  serversOf(to: { readonly protocol: number; readonly daddr: Uint8Array; readonly dport: number }) {
    const { daddr: address, dport: port, protocol } = to;
    const service = this.#services.get(keyOf({ protocol, address, port } as ServiceKey));
    if (service === undefined) return undefined;
    return [...service.destinations.values()].flatMap((one) =>
      Array<{ address: Uint8Array; port: number }>(one.weight).fill({
        address: one.destination,
        port: one.destinationPort,
      }),
    );
  }

  #settings(op: Extract<IpvsOp, { kind: 'virtualServiceAdd' | 'virtualServiceSet' }>) {
    if (!this.schedulers.has(op.scheduler)) throw new Refusal('ENOENT');
    const most = op.family === 2 ? 32 : 128;
    if (op.prefixLength > most || (op.family === 10 && op.prefixLength === 0)) {
      throw new Refusal('EINVAL');
    }
    return { ...copied(op), kind: 'virtualService', firewallMark: 0, ...noStatistics } as const;
  }

  #setTimeouts(op: Extract<IpvsOp, { kind: 'ipvsTimeoutsSet' }>): void {
    const { tcpSeconds, tcpFinSeconds, udpSeconds } = this.#timeouts;
    this.#timeouts = {
      tcpSeconds: op.tcpSeconds || tcpSeconds,
      tcpFinSeconds: op.tcpFinSeconds || tcpFinSeconds,
      udpSeconds: op.udpSeconds || udpSeconds,
    };
  }

  #changeDestination(
    op: Extract<IpvsOp, { kind: 'destinationAdd' | 'destinationSet' | 'destinationDelete' }>,
  ): void {
    const { destinations } = this.#service(op);
    const key = endpointText(op.destination, op.destinationPort);
    const known = destinations.get(key);
    if (op.kind === 'destinationDelete') {
      if (!destinations.delete(key)) throw new Refusal('ENOENT');
      return;
    }
    if (op.weight > 0x7fffffff || op.lowerThreshold > op.upperThreshold) {
      throw new Refusal('ERANGE');
    }
    if (op.destination.length !== op.address.length && op.forwarding !== IP_VS_CONN_F.TUNNEL) {
      throw new Refusal('EINVAL');
    }
    if (op.kind === 'destinationAdd') {
      if (known !== undefined) throw new Refusal('EEXIST');
      if (!isUnicast(op.destination)) throw new Refusal('EINVAL');
    } else if (known === undefined) throw new Refusal('ENOENT');
    const before = known ?? { ...noConnections, ...noStatistics };
    destinations.set(key, { ...before, ...copied(op), kind: 'destination' } as DestinationReply);
  }

  #service(op: Omit<ServiceKey | DestinationKey, 'kind'>): VirtualService {
    const service = this.#services.get(keyOf(op));
    if (service === undefined) throw new Refusal('ESRCH');
    return service;
  }

  #asked(request: Extract<IpvsRequest, { kind: 'destinationsDump' }>): VirtualService[] {
    if (request.address.length === 0) return this.#ofFamily(request.family);
    const service = this.#services.get(keyOf(request));
    return service === undefined ? [] : [service];
  }

  #ofFamily(family: number): VirtualService[] {
    const all = [...this.#services.values()];
    return all.filter(({ record }) => family === 0 || record.family === family);
  }
}

/** `TCP 10.96.0.10:80`, the key of a virtual service in texts. */
function keyOf({ protocol, address, port }: Omit<ServiceKey, 'kind'>): string {
  const name = { 6: 'TCP', 17: 'UDP', 132: 'SCTP' }[protocol] ?? String(protocol);
  return `${name} ${endpointText(address, port)}`;
}

/** `TCP 10.96.0.10:80`, or `TCP 10.96.0.10:80 -> 10.244.0.7:8080` of a destination. */
export function ipvsText(op: IpvsOp): string {
  if (op.kind === 'ipvsTimeoutsSet') return 'timeouts';
  if (!('destination' in op)) return keyOf(op);
  return `${keyOf(op)} -> ${endpointText(op.destination, op.destinationPort)}`;
}

function endpointText(address: Uint8Array, port: number): string {
  const text = formatAddress(address);
  return `${address.length === 4 ? text : `[${text}]`}:${port}`;
}

function settingsText({ scheduler, flags, timeoutSeconds, prefixLength }: ServiceReply): string {
  return `${scheduler} flags 0x${flags.toString(16)} timeout ${timeoutSeconds} /${prefixLength}`;
}

function destinationText(record: DestinationReply): string {
  const method = Object.entries(IP_VS_CONN_F).find(([, code]) => code === record.forwarding)?.[0];
  const { upperThreshold, lowerThreshold } = record;
  const limits = upperThreshold === 0 ? '' : ` limits ${lowerThreshold}-${upperThreshold}`;
  return `${method?.toLowerCase()} weight ${record.weight}${limits}`;
}

/** As inet_addr_type and ipv6_addr_type decide for an address that no interface has. */
function isUnicast(address: Uint8Array): boolean {
  if (address.length === 4) return address[0]! !== 0 && address[0]! < 224;
  const isUnspecified = address.every((byte) => byte === 0);
  const isLinkLocal = address[0] === 0xfe && (address[1]! & 0xc0) === 0x80;
  return address[0] !== 0xff && !isUnspecified && !isLinkLocal;
}

/** The record without views into the buffer that it was read from. */
function copied<T extends object>(record: T): T {
  const entries = Object.entries(record).map(([name, value]) => [
    name,
    value instanceof Uint8Array ? value.slice() : value,
  ]);
  return Object.fromEntries(entries) as T;
}
