/** nf_tables' virtual machine, for the expressions that our modes use. */
import {
  CT_STATE_NEW,
  IP_CT_DIR,
  IPS_DST_NAT,
  NF_NAT_RANGE,
  NFT_CMP,
  NFT_CONTINUE,
  NFT_CT,
  NFT_DYNSET_OP,
  NFT_FIB_RESULT_ADDRTYPE,
  NFT_LOOKUP_F_INV,
  NFT_META,
  NFT_NAT_DNAT,
  NFT_PAYLOAD,
  NFT_REG32_00,
  NFT_TRACETYPE,
  NFTA_FIB_F,
  RTN_LOCAL,
  VERDICT,
} from '../../src/kernel/nft/constants.ts';
import { type Expression, noRegister, unknownIndex } from '../../src/kernel/ops.ts';
import { addressBytes, type Family } from '../../src/net/address.ts';
import type { Chance } from './chance.ts';
import { hashed } from './jhash.ts';
import { compareEdges, kindOf } from './nft-elements.ts';
import { readRule } from './nft-rule.ts';
import { type Chain, type Element, elementId, type NftSet, type Table } from './nft-state.ts';
import { hit, matches } from './nft-xt.ts';

/** A packet and its connection on their way. */
export interface PacketState {
  readonly family: Family;
  readonly saddr: Uint8Array;
  daddr: Uint8Array;
  readonly protocol: number;
  dport: number;
  iif: string;
  readonly chance: Chance;
  /** Nothing of it is remembered. */
  readonly isTrial: boolean;
  readonly isLocal: (address: Uint8Array) => boolean;
  /** The destination that the client connected to. */
  readonly original: { readonly daddr: Uint8Array; readonly dport: number };
  translated: boolean;
  masqueraded: boolean;
  mark: number;
  readonly sport: number;
  isTraced: boolean;
  /** Called for each rule and policy while the packet is traced. */
  readonly tell: (event: RuleEvent) => void;
}

/** The kernel's event for a rule that matches, or for the end of a chain. */
export interface RuleEvent {
  readonly family: number;
  readonly table: string;
  readonly chain: string;
  /** NFT_TRACETYPE_* */
  readonly type: number;
  /** Its handle; 0 = none. */
  readonly rule: number;
  readonly verdict: number;
  readonly target: string;
  /** 0xffffffff unless it is a policy. */
  readonly policy: number;
}

type Final = 'accept' | 'drop' | 'reject';
/** undefined = nothing is decided; break = the rule does not match. */
type RuleResult = Final | { readonly code: number; readonly chain: string } | undefined | 'break';
type Kind<K extends Expression['kind']> = Extract<Expression, { kind: K }>;

/** Rules are read once, for thousands of packets. */
const rules = new WeakMap<Uint8Array, readonly Expression[]>();

function ruleOf(bytes: Uint8Array): readonly Expression[] {
  const rule = rules.get(bytes) ?? readRule(bytes);
  rules.set(bytes, rule);
  return rule;
}

/** undefined = the chain ended without a verdict. */
export function runChain(table: Table, chain: Chain, packet: PacketState): Final | undefined {
  for (const { expressions, handle } of chain.rules) {
    const result = new Registers(table, packet).run(ruleOf(expressions));
    if (result === 'break') continue;
    if (packet.isTraced) packet.tell(eventOf(table, chain, handle, result));
    if (result === undefined) continue;
    if (typeof result === 'string') return result;
    if (result.code === VERDICT.return) return undefined;
    const target = table.chains.get(result.chain) as Chain;
    const inner = runChain(table, target, packet);
    if (inner !== undefined || result.code === VERDICT.goto) return inner;
  }
  if (packet.isTraced) packet.tell(eventOf(table, chain, 0, undefined));
  return undefined;
}

/** The event. That of a chain's end is one for a rule without a handle that continues. */
function eventOf(
  { family, name }: Table,
  { name: chain }: Chain,
  rule: number,
  result: Exclude<RuleResult, 'break'>,
): RuleEvent {
  const where = { family, table: name, chain, rule, policy: unknownIndex };
  const type = NFT_TRACETYPE.RULE;
  if (result === undefined) return { ...where, type, verdict: NFT_CONTINUE, target: '' };
  if (typeof result === 'string') {
    return {
      ...where,
      type,
      verdict: result === 'accept' ? VERDICT.accept : VERDICT.drop,
      target: '',
    };
  }
  const isReturn = result.code === VERDICT.return;
  const { RETURN } = NFT_TRACETYPE;
  return { ...where, type: isReturn ? RETURN : type, verdict: result.code, target: result.chain };
}

function word(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}

/** One rule's run. */
class Registers {
  readonly #bytes = new Uint8Array(64);
  readonly #table: Table;
  readonly #packet: PacketState;
  #hasDrawn = false;

  constructor(table: Table, packet: PacketState) {
    this.#table = table;
    this.#packet = packet;
  }

  run(rule: readonly Expression[]): RuleResult {
    for (const expression of rule) {
      const result = this.#step(expression);
      if (result === 'break' && this.#hasDrawn) this.#packet.chance.missed();
      if (result !== undefined) return result;
    }
    return undefined;
  }

  /** undefined = continue with the next expression; break = with the next rule. */
  #step(expression: Expression): RuleResult {
    const packet = this.#packet;
    switch (expression.kind) {
      case 'payload':
        return this.#store(expression.register, this.#payload(expression));
      case 'metaLoad':
        return this.#store(expression.register, this.#meta(expression.key));
      case 'metaSet':
        if (expression.key === NFT_META.NFTRACE) {
          packet.isTraced = true;
          return undefined;
        }
        if (expression.key !== NFT_META.MARK) return unknown(expression);
        packet.mark = this.#word(expression.register);
        return undefined;
      case 'immediateData':
        return this.#store(expression.register, expression.data);
      case 'ctLoad':
        return this.#store(expression.register, this.#ct(expression));
      case 'fib':
        return this.#store(expression.register, word(this.#addressType(expression)));
      case 'numgen': {
        // A counter may stand at any number, too.
        const { modulus, offset } = expression;
        this.#hasDrawn = modulus > 1;
        return this.#store(expression.register, word(packet.chance.below(modulus) + offset));
      }
      case 'hash': {
        const { source, destination, length, modulus, seed } = expression;
        return this.#store(destination, word(hashed(this.#load(source, length), seed, modulus)));
      }
      case 'bitwise': {
        const { source, destination, length, mask, xor } = expression;
        const value = this.#load(source, length).map((byte, i) => (byte & mask[i]!) ^ xor[i]!);
        return this.#store(destination, value);
      }
      case 'cmp':
        return this.#compare(expression) ? undefined : 'break';
      case 'match':
        return matches(expression, this.#table, packet) ? undefined : 'break';
      case 'lookup':
        return this.#lookup(expression);
      case 'dynset':
        return this.#update(expression);
      default:
        return this.#verdict(expression);
    }
  }

  #verdict(expression: Expression): RuleResult {
    const packet = this.#packet;
    switch (expression.kind) {
      case 'immediateVerdict':
        return final(expression);
      case 'nat': {
        if (expression.type !== NFT_NAT_DNAT) return unknown(expression);
        packet.daddr = this.#load(expression.addressMin, addressBytes[packet.family]);
        if ((expression.flags & NF_NAT_RANGE.PROTO_SPECIFIED) !== 0) {
          const [high, low] = this.#load(expression.portMin, 2);
          packet.dport = (high! << 8) | low!;
        }
        packet.translated = true;
        return 'accept';
      }
      case 'masquerade':
        packet.masqueraded = true;
        return 'accept';
      case 'reject':
        return 'reject';
      case 'target':
        return hit(expression, packet);
      case 'counter':
        return undefined;
      case 'limit':
      case 'connlimit':
        return this.#stateful(expression);
      default:
        return unknown(expression);
    }
  }

  /** Whether more than one connection would be allowed; a rate always is. */
  #stateful(statement: Expression): RuleResult {
    if (statement.kind !== 'limit' && statement.kind !== 'connlimit') return unknown(statement);
    const isOver = statement.kind === 'connlimit' && statement.count === 0;
    return isOver === (statement.flags === 1) ? undefined : 'break';
  }

  /** Registers are numbered by 4 bytes from NFT_REG32_00, or by 16 from NFT_REG_1. */
  #at(register: number): number {
    return register >= NFT_REG32_00 ? (register - NFT_REG32_00) * 4 : (register - 1) * 16;
  }

  /** Stores a value. Its last register is filled up with zeroes. */
  #store(register: number, value: Uint8Array): undefined {
    const at = this.#at(register);
    this.#bytes.fill(0, at, at + ((value.length + 3) & ~3));
    this.#bytes.set(value, at);
  }

  #load(register: number, length: number): Uint8Array {
    return this.#bytes.slice(this.#at(register), this.#at(register) + length);
  }

  #word(register: number): number {
    return new DataView(this.#bytes.buffer).getUint32(this.#at(register), true);
  }

  #payload(expression: Kind<'payload'>): Uint8Array {
    const { base, offset, length } = expression;
    const { network, transport } = headersOf(this.#packet);
    if (base === NFT_PAYLOAD.NETWORK_HEADER) return network.slice(offset, offset + length);
    if (base === NFT_PAYLOAD.TRANSPORT_HEADER) return transport.slice(offset, offset + length);
    return unknown(expression);
  }

  #meta(key: number): Uint8Array {
    switch (key) {
      case NFT_META.MARK:
        return word(this.#packet.mark);
      case NFT_META.L4PROTO:
        return Uint8Array.of(this.#packet.protocol);
      case NFT_META.IIFNAME:
        return interfaceName(this.#packet.iif);
      case NFT_META.OIFNAME:
        return interfaceName(this.#packet.isLocal(this.#packet.daddr) ? 'lo' : 'eth0');
      default:
        throw new Error(`the fake kernel does not know meta key ${key}`);
    }
  }

  #ct({ key, direction }: Kind<'ctLoad'>): Uint8Array {
    const { original, translated } = this.#packet;
    if (key === NFT_CT.STATE) return word(CT_STATE_NEW);
    if (key === NFT_CT.STATUS) return word(translated ? IPS_DST_NAT : 0);
    if (key === NFT_CT.DIRECTION) return Uint8Array.of(IP_CT_DIR.ORIGINAL);
    if (direction !== IP_CT_DIR.ORIGINAL) throw new Error('only the original direction is known');
    if (key === NFT_CT.DST_IP || key === NFT_CT.DST_IP6) return original.daddr;
    if (key === NFT_CT.PROTO_DST) return Uint8Array.of(original.dport >> 8, original.dport & 0xff);
    throw new Error(`the fake kernel does not know ct key ${key}`);
  }

  #addressType(expression: Kind<'fib'>): number {
    if (expression.result !== NFT_FIB_RESULT_ADDRTYPE) unknown(expression);
    const { saddr, daddr, isLocal } = this.#packet;
    const address = expression.flags === NFTA_FIB_F.SADDR ? saddr : daddr;
    // RTN_UNICAST
    return isLocal(address) ? RTN_LOCAL : 1;
  }

  #compare(expression: Kind<'cmp'>): boolean {
    const { register, operation, data } = expression;
    const order = Buffer.compare(this.#load(register, data.length), data);
    switch (operation) {
      case NFT_CMP.EQ:
        return order === 0;
      case NFT_CMP.NEQ:
        return order !== 0;
      case NFT_CMP.LTE:
        return order <= 0;
      case NFT_CMP.GTE:
        return order >= 0;
      default:
        return unknown(expression);
    }
  }

  #lookup({ set: name, source, destination, flags }: Kind<'lookup'>): RuleResult {
    const set = this.#table.sets.get(name) as NftSet;
    const found = findElement(set, this.#load(source, set.fields.keyLength));
    const inverted = (flags & NFT_LOOKUP_F_INV) !== 0;
    if ((found !== undefined) === inverted) return 'break';
    if (found === undefined || destination === noRegister) return undefined;
    if (found.verdict !== undefined) return final(found.verdict);
    return this.#store(destination, found.data as Uint8Array);
  }

  /** Packets write without a transaction. */
  #update(expression: Kind<'dynset'>): RuleResult {
    const { ADD, UPDATE } = NFT_DYNSET_OP;
    if (expression.operation !== UPDATE && expression.operation !== ADD) unknown(expression);
    const { elements, fields } = this.#table.sets.get(expression.set) as NftSet;
    const limit = { kind: 'connlimit', count: expression.over, flags: 1 } as const;
    const own = expression.over === noRegister ? undefined : limit;
    const [statement = own] = ruleOf(fields.statement);
    // Its connections have ended by the next packet, and no second is too short for one.
    if (statement !== undefined && statement.kind !== 'counter') return this.#stateful(statement);
    if (this.#packet.isTrial) return undefined;
    const element: Element = {
      key: this.#load(expression.key, fields.keyLength),
      flags: 0,
      data:
        expression.data === noRegister ? undefined : this.#load(expression.data, fields.dataLength),
      verdict: undefined,
      comment: '',
    };
    // An element that exists gets a new timeout, but keeps its data (nft_dynset_eval).
    if (elements.has(elementId(element))) return undefined;
    if (fields.size > 0 && elements.size >= fields.size) return 'break';
    elements.set(elementId(element), element);
    return undefined;
  }
}

/** The headers of IP, and the ports and flags of a TCP segment that asks for a connection. */
export function headersOf({ daddr, dport, family, protocol, saddr, sport }: PacketState) {
  const isV4 = family === 'IPv4';
  const network = new Uint8Array(isV4 ? 20 : 40);
  network[isV4 ? 9 : 6] = protocol;
  network.set(saddr, isV4 ? 12 : 8);
  network.set(daddr, isV4 ? 16 : 24);
  const transport = new Uint8Array(20);
  transport.set([sport >> 8, sport & 0xff, dport >> 8, dport & 0xff]);
  transport[13] = 2;
  return { network, transport };
}

function final({ code, chain }: { code: number; chain: string }): RuleResult {
  if (code === VERDICT.drop) return 'drop';
  if (code === VERDICT.accept) return 'accept';
  return { code, chain };
}

function findElement(set: NftSet, key: Uint8Array): Element | undefined {
  const wanted: Element = {
    key,
    flags: 0,
    data: undefined,
    verdict: undefined,
    comment: '',
  };
  switch (kindOf(set)) {
    case 'hash':
      return set.elements.get(elementId(wanted));
    case 'edges': {
      const below = [...set.elements.values()]
        .filter((element) => compareEdges(element, wanted) <= 0)
        .sort(compareEdges)
        .at(-1);
      return below?.flags === 0 ? below : undefined;
    }
  }
}

function interfaceName(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text.padEnd(16, '\0'), 'latin1'));
}

function unknown(expression: Expression): never {
  throw new Error(`the fake kernel does not know ${JSON.stringify(expression)}`);
}
