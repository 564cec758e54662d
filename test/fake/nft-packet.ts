/**
 * Evaluates the first packet of a connection in base chains, by hook and priority. It knows the
 * expressions that our modes use, and throws on any other, so that no test passes on a guess.
 */
import { IPPROTO, NF_INET, NFPROTO, NFT_TRACETYPE } from '../../src/kernel/nft/constants.ts';
import { type Address, type Family, formatAddress, parseAddress } from '../../src/net/address.ts';
import type { Protocol } from '../../src/net/protocol.ts';
import { type Chance, chanceOf } from './chance.ts';
import { headersOf, type PacketState, type RuleEvent, runChain } from './nft-machine.ts';
import type { BaseChain, Chain, Table, Tables } from './nft-state.ts';

export interface Packet {
  readonly saddr: string;
  readonly daddr: string;
  readonly protocol: Protocol;
  readonly dport: number;
  /** Default: 40000. */
  readonly sport?: number;
  /** The interface that it comes in by; undefined = it is sent by this node itself. */
  readonly iif: string | undefined;
  /** Addresses of this node, except loopback. */
  readonly nodeAddresses: readonly string[];
  /** What `numgen` takes its numbers from. */
  readonly random: number;
  /** Decides in place of `random`. */
  readonly chance?: Chance;
  /** Nothing of it is remembered; default: no. */
  readonly isTrial?: boolean;
}

export interface Outcome {
  readonly verdict: 'accept' | 'drop' | 'reject';
  /** Its last destination, delivered or not: `10.0.0.1:80`, `[fd00::1]:80`. */
  readonly to: string;
  readonly translated: boolean;
  readonly masqueraded: boolean;
  /** The mark that it leaves with. */
  readonly mark: number;
}

/** What of a kernel, other than tables, packets meet. */
export interface Surroundings {
  /** Whether an address is the node's, in addition to those of the packet. */
  readonly isBound: (address: string) => boolean;
  /** The real servers of a virtual service; undefined: there is no such service. */
  readonly servers: (to: Pick<PacketState, 'daddr' | 'dport' | 'protocol'>) => Servers | undefined;
}
type Servers = readonly { readonly address: Uint8Array; readonly port: number }[];

const nothing: Surroundings = { isBound: () => false, servers: () => undefined };

/** The callback receives the events of a traced packet. */
export function evaluate(
  tables: Tables,
  packet: Packet,
  tell: (event: TracedEvent) => void = () => {},
  surroundings = nothing,
): Outcome {
  const daddr = addressOf(packet.daddr);
  const isOurs = localAddresses(packet.nodeAddresses);
  const { isBound, servers } = surroundings;
  const state: PacketState = {
    family: daddr.family,
    saddr: addressOf(packet.saddr).bytes,
    daddr: daddr.bytes,
    protocol: IPPROTO[packet.protocol],
    dport: packet.dport,
    iif: packet.iif ?? '',
    chance: packet.chance ?? chanceOf(packet.random),
    isTrial: packet.isTrial ?? false,
    isLocal: (bytes) => {
      const text = formatAddress(bytes);
      return isOurs(text) || isBound(text);
    },
    original: { daddr: daddr.bytes, dport: packet.dport },
    translated: false,
    masqueraded: false,
    mark: 0,
    sport: packet.sport ?? 40_000,
    isTraced: false,
    tell: (event) => tell({ ...event, ...tracedAs(state) }),
  };
  const way = new Way(tables, state, servers);
  const verdict = way.traverse(packet.iif === undefined ? 'node' : 'outside');
  const { masqueraded, mark } = state;
  const translated = state.translated || way.isBalanced;
  return { verdict, to: destination(state), translated, masqueraded, mark };
}

/** An event, with the packet as it was then. */
export type TracedEvent = RuleEvent & ReturnType<typeof tracedAs>;

function tracedAs(state: PacketState) {
  const { network, transport } = headersOf(state);
  return {
    ...{ packetFamily: NFPROTO[state.family], networkHeader: network, transportHeader: transport },
    ...{ inputInterface: state.iif === '' ? 0 : 2, outputInterface: 0, mark: state.mark },
  };
}

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(`no address: ${text}`);
  return address;
}

/** By the list itself, which tests give again and again. */
const knownAddresses = new WeakMap<readonly string[], ReadonlySet<string>>();

function localAddresses(texts: readonly string[]): (text: string) => boolean {
  const known =
    knownAddresses.get(texts) ?? new Set(texts.map((text) => formatAddress(addressOf(text).bytes)));
  knownAddresses.set(texts, known);
  return (text) => known.has(text) || text.startsWith('127.') || text === '::1';
}

function destination({ family, daddr, dport }: PacketState): string {
  const address = formatAddress(daddr);
  return family === 'IPv4' ? `${address}:${dport}` : `[${address}]:${dport}`;
}

/** IPVS has its hooks between those of tables (ip_vs_ops). */
const ipvsPriority: Readonly<Record<number, number>> = {
  [NF_INET.LOCAL_IN]: 99,
  [NF_INET.LOCAL_OUT]: -98,
};

/** `sent`: IPVS has taken the packet, and it has left. */
type Passed = Outcome['verdict'] | 'sent';

class Way {
  readonly #tables: Tables;
  readonly #state: PacketState;
  readonly #servers: Surroundings['servers'];
  isBalanced = false;
  #isBack = false;

  constructor(tables: Tables, state: PacketState, servers: Surroundings['servers']) {
    this.#tables = tables;
    this.#state = state;
    this.#servers = servers;
  }

  /** The routing decision after the first hook decides which hooks follow. */
  traverse(origin: 'node' | 'outside'): Outcome['verdict'] {
    const first = origin === 'node' ? NF_INET.LOCAL_OUT : NF_INET.PRE_ROUTING;
    const verdict = this.#hook(first);
    if (verdict !== 'accept') return verdict === 'sent' ? 'accept' : verdict;
    const isLocal = this.#state.isLocal(this.#state.daddr);
    const incoming = isLocal ? [NF_INET.LOCAL_IN] : [NF_INET.FORWARD, NF_INET.POST_ROUTING];
    const decided = this.#hooks(origin === 'node' ? [NF_INET.POST_ROUTING] : incoming);
    if (origin === 'outside' || !isLocal || decided !== 'accept') {
      return decided === 'sent' ? 'accept' : decided;
    }
    // It comes in by the loopback device, and is translated no more.
    this.#state.iif = 'lo';
    this.#isBack = true;
    return this.#hooks([NF_INET.PRE_ROUTING, NF_INET.LOCAL_IN]) as Outcome['verdict'];
  }

  #hooks(hooks: readonly number[]): Passed {
    for (const hook of hooks) {
      const decided = this.#hook(hook);
      if (decided !== 'accept') return decided;
    }
    return 'accept';
  }

  #hook(hook: number): Passed {
    const state = this.#state;
    let natDone = false;
    let balancesAt = ipvsPriority[hook] ?? Number.POSITIVE_INFINITY;
    for (const { table, chain, base } of chainsAt(this.#tables, state.family, hook)) {
      if (base.priority > balancesAt) {
        balancesAt = Number.POSITIVE_INFINITY;
        const passed = this.#balance();
        if (passed !== 'accept') return passed;
      }
      if (base.type === 'nat' && (natDone || this.#isBack)) continue;
      const before = [state.translated, state.masqueraded].join();
      const verdict = runChain(table, chain, state) ?? policyOf(table, chain, base, state);
      if (verdict !== 'accept') return verdict;
      // The first nat chain that translates decides (nf_nat_inet_fn).
      natDone ||= before !== [state.translated, state.masqueraded].join();
    }
    return balancesAt === Number.POSITIVE_INFINITY ? 'accept' : this.#balance();
  }

  /** As ip_vs_in_hook: what leads to another machine is sent from here (ip_vs_nat_send_or_cont). */
  #balance(): Passed {
    const state = this.#state;
    const servers = this.isBalanced || this.#isBack ? undefined : this.#servers(state);
    if (servers === undefined) return 'accept';
    if (servers.length === 0) return 'reject';
    const { address, port } = servers[state.chance.below(servers.length)]!;
    state.daddr = address;
    state.dport = port;
    this.isBalanced = true;
    if (state.isLocal(address)) return 'accept';
    const verdict = this.#hooks([NF_INET.LOCAL_OUT, NF_INET.POST_ROUTING]);
    return verdict === 'accept' ? 'sent' : verdict;
  }
}

function policyOf(table: Table, chain: Chain, { policy }: BaseChain, state: PacketState) {
  const { family, name } = table;
  const { POLICY: type } = NFT_TRACETYPE;
  const where = { family, table: name, chain: chain.name, rule: 0 };
  if (state.isTraced) state.tell({ ...where, type, verdict: 0, target: '', policy });
  return policy === 1 ? 'accept' : 'drop';
}

function chainsAt(tables: Tables, family: Family, hook: number) {
  const found: { table: Table; chain: Chain; base: BaseChain }[] = [];
  for (const table of tables.values()) {
    if (table.family !== NFPROTO[family]) continue;
    for (const chain of table.chains.values()) {
      if (chain.base?.hook === hook) found.push({ table, chain, base: chain.base });
    }
  }
  return found.sort((a, b) => a.base.priority - b.base.priority);
}
