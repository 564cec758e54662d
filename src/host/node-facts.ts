/** What Services depend on of this node: its zone, its addresses, and where node ports are open. */

import type { Config } from '../config/config.ts';
import type { NodePortAddresses } from '../config/settings/makers.ts';
import type { Environment, ModeFacts } from '../modes/mode.ts';
import { modeTable } from '../modes/mode-table.ts';
import {
  type Address,
  cidrContains,
  type Family,
  families,
  formatAddress,
  isLoopback,
  parseAddress,
  parseCIDR,
} from '../net/address.ts';
import { equality } from '../net/equality.ts';
import type { HostPort } from '../net/host-port.ts';
import {
  type AddressKeys,
  difference,
  keysOf,
  type NodeSockets,
  noSockets,
} from '../state/node-sockets.ts';
import type { ResolveContext } from '../state/resolve.ts';
import type { ClusterState } from '../state/store.ts';
import type { Node } from '../state/types.ts';
import { isLinkLocalV6, type NodeIPs, nodeIPs } from './node-ips.ts';
import type { NodePrograms } from './node-programs.ts';

/** The settings that they depend on: an engine is replaced when one of these changes. */
export const factSettings = [
  'bindAddress',
  'clusterCIDR',
  'externalIPs',
  'featureGates',
  'healthzBindAddress',
  'healthzNodeShutdown',
  'metricsBindAddress',
  'readBindAddress',
  'nodePortAddresses',
  'serviceLimits',
  'serviceProxyName',
] as const satisfies readonly (keyof Config)[];

export type NodeFactsSettings = Pick<Config, (typeof factSettings)[number]>;

const noKeys: AddressKeys = new Set();
const noCIDRs: Environment['serviceCIDRs'] = [];

interface NodeFactsOptions {
  /** How the mode can share connections out, as far as is known; default: in every way. */
  readonly balances?: { readonly here: ResolveContext['dealing'] };
  /** See `ResolveContext`. */
  readonly starting?: ResolveContext['starting'];
  readonly open?: ResolveContext['open'];
  readonly health?: ResolveContext['health'];
  readonly shares?: ResolveContext['shares'];
  readonly settings: NodeFactsSettings;
  readonly state: ClusterState;
  /** Reads the addresses of this machine. */
  readonly interfaces: () => readonly Address[];
  readonly mode: Pick<ModeFacts, 'name' | 'link'>;
  /** Connections are translated when they are made, too; default: no. */
  readonly isConnectTime?: boolean;
  /** See `Environment`. */
  readonly excludedPods?: { readonly cgroups: Environment['excludedCgroups'] } | undefined;
  /** Knows the URL of the API server, if there is one. */
  readonly source?: { server(): string | undefined } | undefined;
  /** Absent: external IPs take ports from programs of the node. */
  readonly programs?: Pick<NodePrograms, 'has'> | undefined;
}

/** Values that are derived from the node, made again only when their sources have changed. */
export class NodeFacts {
  readonly #options: NodeFactsOptions;
  #node: Node | undefined;
  #ips: NodeIPs;
  #context: ResolveContext;
  #interfaces: readonly Address[];
  #machines: AddressKeys;
  /** The environments, and what each was made of. */
  readonly #environments = new Map<
    Family,
    { readonly environment: Environment; readonly sources: readonly unknown[] }
  >();

  constructor(options: NodeFactsOptions) {
    this.#options = options;
    this.#interfaces = options.interfaces();
    const { mode, settings, state } = options;
    state.followMachines(mode.link === undefined ? undefined : settings.clusterCIDR);
    this.#machines = state.machines;
    this.#node = options.state.node;
    this.#ips = nodeIPs(this.#node, options.settings.bindAddress);
    this.#context = this.#makeContext();
  }

  get ips(): NodeIPs {
    this.#follow();
    return this.#ips;
  }

  /** The addresses of this machine, as of the last reading. */
  get interfaces(): readonly Address[] {
    return this.#interfaces;
  }

  get context(): ResolveContext {
    this.#follow();
    const dealing = this.#options.balances?.here;
    if (dealing !== this.#context.dealing) this.#context = { ...this.#context, dealing };
    return this.#context;
  }

  /** The addresses on which sockets for node ports listen. */
  listeningAddresses(family: Family): Environment['nodePortAddresses'] {
    const { nodePortAddresses } = this.#options.settings;
    return listeningAddresses(nodePortAddresses, family, this.ips, () => this.#interfaces);
  }

  /** The environment. It is the same object until something in it changes. */
  environment(family: Family): Environment {
    const { excludedPods, isConnectTime, settings, mode, state } = this.#options;
    // A second proxy knows few Services: the first one drops what is for none.
    const serviceCIDRs = settings.serviceProxyName === '' ? state.serviceCIDRs(family) : noCIDRs;
    const cgroups = isConnectTime ? excludedPods?.cgroups : undefined;
    const sources = [this.ips, this.#interfaces, serviceCIDRs, cgroups];
    const last = this.#environments.get(family);
    if (last?.sources.every((one, i) => one === sources[i])) return last.environment;
    const addresses = nodePortAddresses(
      settings.nodePortAddresses,
      family,
      this.ips,
      () => this.#interfaces,
    );
    const next: Environment = {
      serviceCIDRs,
      ...(mode.link ? this.#bindingFacts(family, addresses) : { nodePortAddresses: addresses }),
      ...(isConnectTime
        ? {
            connectTimeAddresses: this.#listed(family, this.listeningAddresses(family)),
            excludedCgroups: cgroups,
          }
        : {}),
    };
    const environment =
      last !== undefined && same(last.environment, next) ? last.environment : next;
    this.#environments.set(family, { environment, sources });
    return environment;
  }

  /**
   * What modes that bind addresses need: they have no wildcard for node ports, and must not bind
   * the machine's own addresses.
   */
  #bindingFacts(
    family: Family,
    addresses: Environment['nodePortAddresses'],
  ): Pick<Environment, 'nodePortAddresses' | 'hostAddresses'> {
    const own = this.#interfaces.filter((address) => address.family === family);
    const ofNode = (this.#node?.addresses ?? []).filter((address) => address.family === family);
    return {
      nodePortAddresses: this.#listed(family, addresses),
      hostAddresses: [...own, ...ofNode],
    };
  }

  /** Addresses that accept node ports, one by one. */
  #listed(family: Family, addresses: Environment['nodePortAddresses']): readonly Address[] {
    if (addresses !== 'all') return addresses;
    return this.#interfaces.filter(
      (address) => address.family === family && acceptsNodePorts(address),
    );
  }

  /** Reads the addresses of this machine again. Returns whether they have changed. */
  readInterfaces(): boolean {
    const interfaces = this.#options.interfaces();
    if (addressTexts(interfaces) === addressTexts(this.#interfaces)) return false;
    this.#interfaces = interfaces;
    this.#renewContext();
    return true;
  }

  #follow(): void {
    const { machines, node } = this.#options.state;
    if (node === this.#node && machines === this.#machines) return;
    this.#node = node;
    this.#machines = machines;
    this.#ips = nodeIPs(node, this.#options.settings.bindAddress);
    this.#renewContext();
  }

  /** Makes the context again, and makes Services dirty at addresses that came or went. */
  #renewContext(): void {
    const { state } = this.#options;
    const { externalIPRules: rules, nodeSockets: before = noSockets } = this.#context;
    this.#context = this.#makeContext();
    const { externalIPRules, nodeSockets: sockets = noSockets } = this.#context;
    state.touchAt(difference(before.addresses, sockets.addresses));
    state.touchAt(difference(before.nodePorts, sockets.nodePorts));
    state.touchAt(difference(rules?.machines ?? noKeys, externalIPRules?.machines ?? noKeys));
  }

  #sockets(): NodeSockets {
    const { programs, settings } = this.#options;
    const own = this.#interfaces.filter((address) => !isLoopback(address));
    const ofNode = this.#node?.addresses ?? [];
    const addresses = keysOf([...own, ...ofNode]);
    // Others may have come for a Service, as keepalived gives one to a node.
    const first = ofNode.length === 0 ? addresses : keysOf(ofNode);
    const nodePorts = families.flatMap((family) => {
      const asked = nodePortAddresses(settings.nodePortAddresses, family, this.#ips, () => own);
      return asked === 'all' ? own.filter((address) => address.family === family) : asked;
    });
    const { healthzBindAddress, metricsBindAddress, readBindAddress } = settings;
    const served = [healthzBindAddress, metricsBindAddress, readBindAddress];
    const server = this.#serverSocket();
    return {
      addresses,
      nodePorts: keysOf(nodePorts),
      listening: new Set(
        served.flatMap((at) => (at === undefined || isLoopback(at.address) ? [] : [at.port])),
      ),
      ...(server && { server }),
      ...(programs && {
        hasProgram: (protocol, address, port) =>
          addresses.has(address.key) &&
          !this.#isNamed(address) &&
          programs.has({ protocol, address, port, any: first.has(address.key) }),
      }),
    };
  }

  /** Whether the operator has named the address among those that Services may have. */
  #isNamed(address: Address): boolean {
    return this.#options.settings.externalIPs.cidrs.some((cidr) => cidrContains(cidr, address));
  }

  #serverSocket(): NodeSockets['server'] {
    const { mode, source } = this.#options;
    const at = hostPortOf(source?.server());
    if (at === undefined || isLoopback(at.address)) return undefined;
    const { address, port } = at;
    if (this.#isNamed(address)) return undefined;
    const isOwn = this.#interfaces.some(({ key }) => key === address.key);
    // A mode that binds the addresses of Services leaves the machine's own alone.
    return { address: address.key, port: mode.link !== undefined && !isOwn ? 'all' : port };
  }

  #makeContext(): ResolveContext {
    const { mode, settings } = this.#options;
    const nodeSockets = this.#sockets();
    const others = [...this.#machines].filter((key) => !nodeSockets.addresses.has(key));
    const { namespaceFactor: _, ...limits } = settings.serviceLimits;
    const frontendEndpoints = limits.frontendEndpoints || modeTable[mode.name].frontendEndpoints;
    return {
      zone: this.#node?.zone ?? '',
      podCIDRs: (this.#node?.podCIDRs ?? []).flatMap((text) => parseCIDR(text) ?? []),
      isLeaving: settings.healthzNodeShutdown && this.#node?.isShuttingDown === true,
      nodeAddresses: [this.#ips.IPv4, this.#ips.IPv6],
      externalIPsEnabled: settings.featureGates.AllowServiceExternalIPs ?? true,
      externalIPRules: { ...settings.externalIPs, machines: new Set(others) },
      nodeSockets,
      limits: { ...limits, frontendEndpoints },
      dealing: this.#options.balances?.here,
      starting: this.#options.starting,
      open: this.#options.open,
      health: this.#options.health,
      shares: this.#options.shares,
    };
  }
}

/** Of a URL whose host is an address. */
function hostPortOf(url: string | undefined): HostPort | undefined {
  if (url === undefined) return undefined;
  const { hostname, port, protocol } = new URL(url);
  const address = parseAddress(hostname.replace(/^\[|\]$/g, ''));
  return address && { address, port: Number(port || (protocol === 'http:' ? 80 : 443)) };
}

const same = equality<Environment>({
  serviceCIDRs: 'is',
  nodePortAddresses: sameAddresses,
  hostAddresses: sameAddresses,
  connectTimeAddresses: sameAddresses,
  excludedCgroups: 'is',
});

/** Whether it is neither a loopback nor a link-local address (behaviour document 8.3). */
function acceptsNodePorts(address: Address): boolean {
  return !isLoopback(address) && !isLinkLocalV6(address);
}

function sameAddresses(a: Addresses, b: Addresses): boolean {
  return addressTexts(a) === addressTexts(b);
}

function addressTexts(addresses: Addresses = []): string {
  if (addresses === 'all') return 'all';
  return addresses.map(({ bytes }) => formatAddress(bytes)).join();
}

type Addresses = Environment['nodePortAddresses'] | undefined;

/**
 * Never a loopback address. CIDRs of one family do not restrict the other. `interfaces` is asked
 * only when CIDRs decide.
 */
export function nodePortAddresses(
  config: NodePortAddresses,
  family: Family,
  ips: NodeIPs,
  interfaces: () => readonly Address[],
): Environment['nodePortAddresses'] {
  const addresses = listeningAddresses(config, family, ips, interfaces);
  return addresses === 'all' ? 'all' : addresses.filter((address) => !isLoopback(address));
}

/** The same for sockets (10.2): with loopback addresses, where CIDRs contain them. */
export function listeningAddresses(
  config: NodePortAddresses,
  family: Family,
  ips: NodeIPs,
  interfaces: () => readonly Address[],
): Environment['nodePortAddresses'] {
  switch (config.kind) {
    case 'all':
      return 'all';
    case 'listed': {
      const cidrs = config.cidrs.filter(({ address }) => address.family === family);
      const primary = config.primary && !isLoopback(ips[family]) ? [ips[family]] : [];
      const isNone = cidrs.length === 0 && primary.length === 0;
      if (isNone || cidrs.some(({ prefixLength }) => prefixLength === 0)) return 'all';
      const found = cidrs.length === 0 ? [] : interfaces();
      const matching = [
        ...primary,
        ...found.filter((address) => cidrs.some((cidr) => cidrContains(cidr, address))),
      ];
      const unique = new Map(matching.map((address) => [formatAddress(address.bytes), address]));
      return [...unique.keys()].sort().map((text) => unique.get(text)!);
    }
  }
}
