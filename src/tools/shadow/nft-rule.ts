/** What one rule of nf_tables does with connections to Services. */
import { type Clause, type ClauseOf, readClauses, type Value } from '../../kernel/nft/clauses.ts';
import { NFT_CMP, NFT_META } from '../../kernel/nft/constants.ts';

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
  return readClauses(bytes).every((clause) => reader.take(clause)) ? reader : undefined;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

class RuleReader implements Mutable<RuleMeaning> {
  readonly conditions: Condition[] = [];
  marks = false;
  remembers: RuleMeaning['remembers'];
  destination: RuleMeaning['destination'];
  choice: RuleMeaning['choice'];
  verdict: RuleMeaning['verdict'];

  /** Takes the next clause. False when kube-proxy's rules have no such clause. */
  take(clause: Clause): boolean {
    switch (clause.kind) {
      case 'cmp':
        return this.#compare(clause);
      case 'lookup':
        return this.#lookUp(clause);
      case 'metaSet':
        this.marks = clause.key === NFT_META.MARK;
        return this.marks && isUsual(clause.value);
      case 'dynset':
        this.remembers = { set: clause.set, timeoutMs: clause.timeoutMs };
        return clause.parts.every(isUsual);
      case 'nat':
        return this.#translate(clause);
      case 'immediateVerdict':
        this.verdict = { code: clause.code, chain: clause.chain };
        return true;
      case 'counter':
      case 'reject':
        return true;
      default:
        return false;
    }
  }

  #compare({ data, operation, value }: ClauseOf<'cmp'>): boolean {
    if (operation !== NFT_CMP.EQ && operation !== NFT_CMP.NEQ) return false;
    const inverted = operation === NFT_CMP.NEQ;
    if (value.kind === 'metaLoad' && value.key === NFT_META.L4PROTO) return !inverted;
    const mask = value.kind === 'bitwise' ? value.mask : undefined;
    this.conditions.push({ kind: 'equals', data, mask, inverted });
    return value.kind !== 'numgen' && isUsual(value);
  }

  #lookUp({ for: what, parts, set }: ClauseOf<'lookup'>): boolean {
    if (what === 'verdict' && parts[0]?.kind === 'numgen') this.choice = set;
    else if (what === 'presence' || what === 'absence') {
      this.conditions.push({ kind: 'in set', set, inverted: what === 'absence' });
    }
    return parts.every(isUsual);
  }

  #translate({ address, port }: ClauseOf<'nat'>): boolean {
    if (address?.kind === 'lookup') {
      this.destination = { kind: 'map', set: address.set };
      return true;
    }
    if (address?.kind !== 'immediateData' || port?.kind !== 'immediateData') return false;
    this.destination = { kind: 'endpoint', address: address.data, port: port.data };
    return true;
  }
}

/** Whether kube-proxy's rules have such values. */
function isUsual(value: Value): boolean {
  if (value.kind === 'bitwise') return isUsual(value.of);
  return ['payload', 'fib', 'metaLoad', 'numgen'].includes(value.kind);
}
