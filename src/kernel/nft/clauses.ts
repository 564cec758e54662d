/**
 * Reads rules: what each statement takes from the packet. The kernel's registers are followed
 * here, and nowhere else.
 */
import { type Expression, expressions, noRegister } from '../ops.ts';
import { readRecords } from '../records.ts';
import { NFT_LOOKUP_F_INV, NFT_REG_VERDICT, slotOf } from './constants.ts';

type Of<Kind extends Expression['kind']> = Extract<Expression, { readonly kind: Kind }>;
type Load = Of<'payload' | 'metaLoad' | 'ctLoad' | 'rtLoad' | 'fib' | 'numgen' | 'immediateData'>;

/** What a register holds; `nothing`: no expression of the rule has loaded it. */
export type Value =
  | Load
  | (Of<'bitwise' | 'byteorder'> & { readonly of: Value })
  | (Of<'hash' | 'lookup'> & { readonly parts: readonly Value[] })
  | { readonly kind: 'nothing' };

/** A statement of a rule, with what it takes from registers. `parts`: those of a concatenation. */
export type Clause =
  | (Of<'cmp' | 'metaSet'> & { readonly value: Value })
  /** `value`: what it finds is in a register afterwards. */
  | (Of<'lookup'> & { readonly for: LookupFor; readonly parts: readonly Value[] })
  | (Of<'nat'> & { readonly address: Value | undefined; readonly port: Value | undefined })
  /** `dataParts` is undefined for a set. */
  | (Of<'dynset'> & {
      readonly parts: readonly Value[];
      readonly dataParts: readonly Value[] | undefined;
    })
  | Exclude<
      Expression,
      Load | Of<'bitwise' | 'byteorder' | 'hash' | 'cmp' | 'metaSet' | 'lookup' | 'nat' | 'dynset'>
    >;

type LookupFor = 'presence' | 'absence' | 'verdict' | 'value';

export type ClauseOf<Kind extends Clause['kind']> = Extract<Clause, { readonly kind: Kind }>;

/** `bytes`: records of `expressions`. */
export function readClauses(bytes: Uint8Array): readonly Clause[] {
  const reader = new ClauseReader();
  for (const expression of readRecords(expressions, bytes)) reader.read(expression);
  return reader.clauses;
}

const nothing: Value = { kind: 'nothing' };

class ClauseReader {
  readonly clauses: Clause[] = [];
  /** By 32-bit register, 0 … 15; with the number of clauses before it was loaded. */
  readonly #registers = new Map<number, { readonly value: Value; readonly after: number }>();

  read(expression: Expression): void {
    switch (expression.kind) {
      case 'payload':
      case 'metaLoad':
      case 'ctLoad':
      case 'rtLoad':
      case 'fib':
      case 'numgen':
      case 'immediateData':
        this.#load(expression.register, expression);
        return;
      case 'bitwise':
      case 'byteorder': {
        const of = this.#at(expression.source) ?? nothing;
        this.#load(expression.destination, { ...expression, of });
        return;
      }
      case 'hash':
        this.#hash(expression);
        return;
      case 'cmp':
      case 'metaSet':
        this.clauses.push({ ...expression, value: this.#at(expression.register) ?? nothing });
        return;
      case 'lookup':
        this.#lookUp(expression);
        return;
      case 'nat': {
        const { addressMin, portMin } = expression;
        this.clauses.push({
          ...expression,
          address: this.#at(addressMin),
          port: this.#at(portMin),
        });
        return;
      }
      case 'dynset': {
        const { data, key } = expression;
        const parts = this.#parts(key, slotOf(data));
        const dataParts = data === noRegister ? undefined : this.#parts(data);
        this.clauses.push({ ...expression, parts, dataParts });
        return;
      }
      default:
        this.clauses.push(expression);
    }
  }

  #load(register: number, value: Value): void {
    this.#registers.set(slotOf(register), { value, after: this.clauses.length });
  }

  /** The registers that were hashed belong to no concatenation afterwards. */
  #hash(expression: Of<'hash'>): void {
    const from = slotOf(expression.source);
    const end = from + Math.ceil(expression.length / 4);
    const parts = this.#parts(expression.source, end);
    for (let slot = from; slot < end; slot += 1) this.#registers.delete(slot);
    this.#load(expression.destination, { ...expression, parts });
  }

  #lookUp(expression: Of<'lookup'>): void {
    const { destination, flags, source } = expression;
    const found = { ...expression, parts: this.#parts(source) };
    const isInverted = (flags & NFT_LOOKUP_F_INV) !== 0;
    const presence = isInverted ? 'absence' : 'presence';
    const what = destination === NFT_REG_VERDICT ? 'verdict' : 'value';
    this.clauses.push({ ...found, for: destination === noRegister ? presence : what });
    if (destination !== noRegister && what === 'value') this.#load(destination, found);
  }

  #at(register: number): Value | undefined {
    return this.#registers.get(slotOf(register))?.value;
  }

  /** The concatenation from `register` on, up to slot `before`: its parts are loaded together. */
  #parts(register: number, before = Number.POSITIVE_INFINITY): readonly Value[] {
    const from = slotOf(register);
    const { after } = this.#registers.get(from) ?? {};
    return [...this.#registers]
      .filter(([slot, one]) => slot >= from && slot < before && one.after === after)
      .sort(([a], [b]) => a - b)
      .map(([, { value }]) => value);
  }
}
