/** Services on a node, written by the mode into a fake kernel: send packets and see. */
import type { LocalDetector } from '../../../../src/modes/mode.ts';
import { nftablesMode } from '../../../../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../../../../src/modes/proxy-mode.ts';
import type { Family } from '../../../../src/net/address.ts';
import { resolve } from '../../../../src/state/resolve.ts';
import { type EndpointSlice, forwardingKey, type Service } from '../../../../src/state/types.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import type { Outcome, Packet } from '../../../fake/nft-packet.ts';
import { address, cidr, http, service, slice } from '../../state/build.ts';
import { Rig } from './rig.ts';

/** An address of IPv4 as it is, or as one of IPv6 whose last four groups read the same. */
export function at(family: Family, text: string): string {
  if (family === 'IPv4') return text;
  return `fd00::${text.replaceAll('.', ':')}`;
}

/** `10.244.0.0/16` or its counterpart: a prefix of whole octets, which become groups. */
export function block(family: Family, text: string): string {
  const [first, bits] = text.split('/') as [string, string];
  return `${at(family, first)}/${family === 'IPv4' ? bits : 64 + 2 * Number(bits)}`;
}

export const nodeAddress = '192.168.0.1';
const secondAddress = '192.168.0.2';
/** An endpoint whose slice does not say where it is: in a block of this node's pods. */
export const maybeHere = '10.244.3.8';

/** Who sends. */
export const senders = {
  pod: { saddr: '10.244.0.9', iif: 'veth9' },
  node: { saddr: nodeAddress, iif: undefined },
  outside: { saddr: '203.0.113.9', iif: 'eth0' },
} as const satisfies Record<string, { saddr: string; iif: string | undefined }>;
export type Sender = keyof typeof senders;

export interface StageOptions {
  readonly family: Family;
  readonly masqueradeAll?: boolean;
  readonly localhostNodePorts?: boolean;
  readonly asIptables?: boolean;
  readonly localDetector?: LocalDetector;
  readonly countsTraffic?: boolean;
  readonly serviceCIDRs?: readonly string[];
  readonly nodePortAddresses?: readonly string[];
}

type ServiceFields = NonNullable<Parameters<typeof service>[0]>;
type Endpoints = Parameters<typeof slice>[0];

/** Service web of every kind, with one port http; addresses are those of IPv4. */
export function everyKind(family: Family, fields: ServiceFields = {}): Service {
  return service({
    type: 'LoadBalancer',
    ports: [{ ...http, nodePort: 30080 }],
    ...fields,
    clusterIPs: [at(family, '10.96.0.1')],
    externalIPs: [at(family, '198.51.100.1')],
    loadBalancerIPs: [at(family, '198.51.100.2')],
    loadBalancerSourceRanges: (fields.loadBalancerSourceRanges ?? []).map((text) =>
      block(family, text),
    ),
  });
}

export function endpoints(family: Family, list: Endpoints, fields: Partial<EndpointSlice> = {}) {
  const mapped = Object.entries(list).map(([text, endpoint]) => [at(family, text), endpoint]);
  return slice(Object.fromEntries(mapped), { family, ...fields });
}

/** Service web with a port of each protocol, two of them with the same node port. */
export function everyProtocol(family: Family, list: Endpoints): [Service, EndpointSlice] {
  const ports = [
    { ...http, nodePort: 30080 },
    { ...http, name: 'dns', protocol: 'UDP', port: 53, nodePort: 30080 },
    { ...http, name: 'sip', protocol: 'SCTP', port: 5060 },
  ] as const;
  const slicePorts = ports.map((port) => ({ ...port, port: port.port + 8000 }));
  const web = service({ type: 'NodePort', clusterIPs: [at(family, '10.96.0.1')], ports });
  return [web, endpoints(family, list, { ports: slicePorts })];
}

export class Stage {
  readonly rig: Rig;
  readonly #family: Family;

  constructor(options: StageOptions, kernel = new FakeKernel(), mode: ProxyMode = nftablesMode) {
    const { family } = options;
    this.#family = family;
    const pods = { kind: 'cidr', cidr: cidr(block(family, '10.244.0.0/16')) } as const;
    this.rig = new Rig(
      {
        family,
        masqueradeAll: options.masqueradeAll ?? false,
        masqueradeMark: 0x4000,
        localhostNodePorts: options.localhostNodePorts ?? false,
        asIptables: options.asIptables ?? false,
        dropInvalid: true,
        ownTables: false,
        countsTraffic: options.countsTraffic ?? false,
        localDetector: options.localDetector ?? pods,
      },
      {
        serviceCIDRs: (options.serviceCIDRs ?? []).map((text) => cidr(block(family, text))),
        nodePortAddresses:
          options.nodePortAddresses?.map((text) => address(at(family, text))) ?? 'all',
      },
      kernel,
      mode,
    );
  }

  /** Brings Services into force, in place of those before. */
  async play(...services: (readonly [Service, ...EndpointSlice[]])[]): Promise<this> {
    const context = {
      zone: '',
      nodeAddresses: [address(at(this.#family, nodeAddress))],
      podCIDRs: [cidr(block(this.#family, '10.244.3.0/24'))],
      externalIPsEnabled: true,
    };
    const wanted = services
      .flatMap(([one, ...slices]) => resolve(one, slices, context))
      .filter(({ family }) => family === this.#family)
      .map((forwarding) => [forwardingKey(forwarding.servicePort), forwarding] as const);
    if (this.rig.kernel.commits === 0) await this.rig.start(new Map());
    this.rig.plan(new Map(wanted));
    this.rig.take();
    return this;
  }

  /** Sends to `address port`, both as for IPv4. */
  send(sender: Sender, to: string, more: Partial<Packet> = {}): Outcome {
    const [daddr, port] = to.split(' ') as [string, string];
    const { saddr, iif } = senders[sender];
    const { kernel } = this.rig;
    return kernel.evaluate({
      protocol: 'TCP',
      iif,
      nodeAddresses: [at(this.#family, nodeAddress), at(this.#family, secondAddress)],
      random: 0,
      ...more,
      saddr: at(this.#family, more.saddr ?? saddr),
      daddr: at(this.#family, daddr),
      dport: Number(port),
    });
  }

  /** In short: `drop`, `reject`, `untouched`, or where it goes, `masqueraded` or not. */
  outcome(sender: Sender, to: string, more: Partial<Packet> = {}): string {
    const { verdict, translated, masqueraded, to: end } = this.send(sender, to, more);
    if (verdict !== 'accept') return verdict;
    const where = translated ? shortened(end) : 'untouched';
    return masqueraded ? `${where} masqueraded` : where;
  }
}

/** `fd00::10:244:0:5` as `10.244.0.5`, without the port. */
function shortened(end: string): string {
  const ip6 = /^\[fd00::(.*)\]/.exec(end)?.[1];
  return ip6?.replaceAll(':', '.') ?? end.slice(0, end.lastIndexOf(':'));
}
