/** What one rule of nf_tables does with connections to Services. */
import {
  NFT_CMP,
  NFT_LOOKUP_F_INV,
  NFT_META,
  NFT_REG_VERDICT,
} from '../../kernel/nft/constants.ts';
import { type Expression, expressions, noRegister } from '../../kernel/ops.ts';
import { readRecords } from '../../kernel/records.ts';

/** What a register holds when an expression looks at it. */
type Value =
  | { readonly kind: 'packet'; readonly mask?: Uint8Array | undefined }
  | { readonly kind: 'protocol' }
  | { readonly kind: 'number' }
  | { readonly kind: 'looked up'; readonly set: string }
  | { readonly kind: 'constant'; readonly data: Uint8Array };

/** A condition that a packet must match for the rule to continue. */
export type Condition =
  | { readonly kind: 'in set'; readonly set: string; readonly inverted: boolean }
  | {
      readonly kind: 'equals';
      readonly data: Uint8Array;
      readonly mask: Uint8Array | undefined;
      readonly inverted: boolean;
    };

/** Where a rule sends connections. */
type Destination =
  | { readonly kind: 'map'; readonly set: string }
  | { readonly kind: 'endpoint'; readonly address: Uint8Array; readonly port: Uint8Array };

export interface RuleMeaning {
  /** The conditions without those on the protocol, which each DNAT has. */
  readonly conditions: readonly Condition[];
  /** The rule sets the packet's mark, which asks for masquerading. */
  readonly marks: boolean;
  /** The rule adds the client to this set. */
  readonly remembers: { readonly set: string; readonly timeoutMs: number } | undefined;
  readonly destination: Destination | undefined;
  /** The verdict map that the rule looks up with a random number. */
  readonly choice: string | undefined;
  readonly verdict: { readonly code: number; readonly chain: string } | undefined;
}

/** Undefined when the rule does something that kube-proxy's rules do not. */
export function meaningOf(bytes: Uint8Array): RuleMeaning | undefined {
  const reader = new RuleReader();
  for (const expression of readRecords(expressions, bytes)) {
    if (!reader.take(expression)) return undefined;
  }
  return reader;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

class RuleReader implements Mutable<RuleMeaning> {
  readonly conditions: Condition[] = [];
  marks = false;
  remembers: RuleMeaning['remembers'];
  destination: RuleMeaning['destination'];
  choice: RuleMeaning['choice'];
  verdict: RuleMeaning['verdict'];
  readonly #registers = new Map<number, Value>();

  /** Takes the next expression. False when kube-proxy's rules have no such expression. */
  take(expression: Expression): boolean {
    switch (expression.kind) {
      case 'payload':
      case 'fib':
        return this.#load(expression.register, { kind: 'packet' });
      case 'metaLoad': {
        const isProtocol = expression.key === NFT_META.L4PROTO;
        return this.#load(expression.register, { kind: isProtocol ? 'protocol' : 'packet' });
      }
      case 'numgen':
        return this.#load(expression.register, { kind: 'number' });
      case 'immediateData':
        return this.#load(expression.register, { kind: 'constant', data: expression.data });
      case 'bitwise':
        return this.#load(expression.destination, { kind: 'packet', mask: expression.mask });
      case 'metaSet':
        this.marks = expression.key === NFT_META.MARK;
        return this.marks;
      case 'cmp':
        return this.#compare(expression);
      case 'lookup':
        return this.#lookUp(expression);
      case 'dynset':
        this.remembers = { set: expression.set, timeoutMs: expression.timeoutMs };
        return true;
      case 'nat':
        return this.#translate(expression);
      case 'immediateVerdict':
        this.verdict = { code: expression.code, chain: expression.chain };
        return true;
      case 'counter':
      case 'reject':
        return true;
      default:
        return false;
    }
  }

  #load(register: number, value: Value): true {
    this.#registers.set(register, value);
    return true;
  }

  #compare({ register, operation, data }: Extract<Expression, { kind: 'cmp' }>): boolean {
    const value = this.#registers.get(register);
    if (value?.kind === 'protocol') return operation === NFT_CMP.EQ;
    if (value?.kind !== 'packet' || operation > NFT_CMP.NEQ) return false;
    const inverted = operation === NFT_CMP.NEQ;
    this.conditions.push({ kind: 'equals', data, mask: value.mask, inverted });
    return true;
  }

  #lookUp({ set, source, destination, flags }: Extract<Expression, { kind: 'lookup' }>): boolean {
    const value = this.#registers.get(source);
    if (destination === NFT_REG_VERDICT && value?.kind === 'number') {
      this.choice = set;
      return true;
    }
    if (destination !== noRegister) return this.#load(destination, { kind: 'looked up', set });
    const inverted = (flags & NFT_LOOKUP_F_INV) !== 0;
    this.conditions.push({ kind: 'in set', set, inverted });
    return true;
  }

  #translate({ addressMin, portMin }: Extract<Expression, { kind: 'nat' }>): boolean {
    const address = this.#registers.get(addressMin);
    if (address?.kind === 'looked up') {
      this.destination = { kind: 'map', set: address.set };
      return true;
    }
    const port = this.#registers.get(portMin);
    if (address?.kind !== 'constant' || port?.kind !== 'constant') return false;
    this.destination = { kind: 'endpoint', address: address.data, port: port.data };
    return true;
  }
}
