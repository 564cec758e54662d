/**
 * Evaluates the first packet of a connection in base chains, by hook and priority. It knows the
 * expressions that our modes use, and throws on any other, so that no test passes on a guess.
 */
import { IPPROTO, NF_INET, NFPROTO, NFT_TRACETYPE } from '../../src/kernel/nft/constants.ts';
import { type Address, type Family, formatAddress, parseAddress } from '../../src/net/address.ts';
import type { Protocol } from '../../src/net/protocol.ts';
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

/** The callback receives the events of a traced packet. */
export function evaluate(
  tables: Tables,
  packet: Packet,
  tell: (event: TracedEvent) => void = () => {},
): Outcome {
  const daddr = addressOf(packet.daddr);
  const isOurs = localAddresses(packet.nodeAddresses);
  const state: PacketState = {
    family: daddr.family,
    saddr: addressOf(packet.saddr).bytes,
    daddr: daddr.bytes,
    protocol: IPPROTO[packet.protocol],
    dport: packet.dport,
    iif: packet.iif ?? '',
    random: packet.random,
    draw: drawsFrom(packet.random),
    isLocal: (bytes) => isOurs(formatAddress(bytes)),
    original: { daddr: daddr.bytes, dport: packet.dport },
    translated: false,
    masqueraded: false,
    mark: 0,
    sport: packet.sport ?? 40_000,
    isTraced: false,
    tell: (event) => tell({ ...event, ...tracedAs(state) }),
  };
  const verdict = traverse(tables, state, packet.iif === undefined ? 'node' : 'outside');
  const { translated, masqueraded, mark } = state;
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

/** Numbers that look random, always the same for the same `seed` (xorshift). */
function drawsFrom(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b1) | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state & 0x7fffffff;
  };
}

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(`no address: ${text}`);
  return address;
}

function localAddresses(texts: readonly string[]): (text: string) => boolean {
  const known = new Set(texts.map((text) => formatAddress(addressOf(text).bytes)));
  return (text) => known.has(text) || text.startsWith('127.') || text === '::1';
}

function destination({ family, daddr, dport }: PacketState): string {
  const address = formatAddress(daddr);
  return family === 'IPv4' ? `${address}:${dport}` : `[${address}]:${dport}`;
}

/** The routing decision after the first hook decides which hooks follow. */
function traverse(
  tables: Tables,
  state: PacketState,
  origin: 'node' | 'outside',
): Outcome['verdict'] {
  const first = origin === 'node' ? NF_INET.LOCAL_OUT : NF_INET.PRE_ROUTING;
  const verdict = runHook(tables, state, first);
  if (verdict !== 'accept') return verdict;
  const rest =
    origin === 'node'
      ? [NF_INET.POST_ROUTING]
      : state.isLocal(state.daddr)
        ? [NF_INET.LOCAL_IN]
        : [NF_INET.FORWARD, NF_INET.POST_ROUTING];
  for (const hook of rest) {
    const decided = runHook(tables, state, hook);
    if (decided !== 'accept') return decided;
  }
  return 'accept';
}

function runHook(tables: Tables, state: PacketState, hook: number): Outcome['verdict'] {
  let natDone = false;
  for (const { table, chain, base } of chainsAt(tables, state.family, hook)) {
    if (base.type === 'nat' && natDone) continue;
    const before = [state.translated, state.masqueraded].join();
    const verdict = runChain(table, chain, state) ?? policyOf(table, chain, base, state);
    if (verdict !== 'accept') return verdict;
    // The first nat chain that translates decides (nf_nat_inet_fn).
    natDone ||= before !== [state.translated, state.masqueraded].join();
  }
  return 'accept';
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
