/** Compiles rules. Rules that translate to an endpoint are made from templates: they are many. */
import { type CompiledRule, compileRule } from '../../kernel/xt/compile.ts';
import type { XtRule } from '../../kernel/xt/rule.ts';
import { type DNATTarget, dnat } from '../../kernel/xt/targets/dnat.ts';
import { Address, addressBytes, type Family } from '../../net/address.ts';

interface Template {
  readonly protocol: number;
  readonly expressions: Uint8Array;
  /** Offsets of the endpoint's bytes: address, address, port, port. */
  readonly at: readonly number[];
}

/** Each index of a pool has a template. When there are more than this, all are forgotten. */
const templatesMax = 8192;

export class RuleCompiler {
  readonly #family: Family;
  /** By the rule without its endpoint. */
  readonly #templates = new Map<string, Template>();

  constructor(family: Family) {
    this.#family = family;
  }

  compile(rule: XtRule): CompiledRule {
    const filled = this.#filled(rule);
    if (filled === undefined) return compileRule(this.#family, rule);
    const { expressions, protocol } = filled;
    return { protocol, expressions: expressions.slice() };
  }

  /**
   * Whether a rule has these expressions. It is compared in its template: an audit compares
   * hundreds of thousands of rules, and what is not made need not be collected.
   */
  isSame(rule: XtRule, expressions: Uint8Array): boolean {
    const compiled = this.#filled(rule) ?? compileRule(this.#family, rule);
    return Buffer.compare(compiled.expressions, expressions) === 0;
  }

  /** The template of a rule with its endpoint, until the next rule; undefined = it has none. */
  #filled(rule: XtRule): Template | undefined {
    const { destination, inputInterface, matches = [], protocol, source, target } = rule;
    const [match] = matches;
    const isOther =
      matches.length > 1 || [destination, inputInterface, source].some((one) => one !== undefined);
    if (isOther || target?.kind !== 'dnat' || (match && match.kind !== 'statistic')) {
      return undefined;
    }
    const id = `${protocol} ${match?.probability ?? 'always'}`;
    let template = this.#templates.get(id);
    if (template === undefined) {
      template = makeTemplate(this.#family, rule);
      if (this.#templates.size >= templatesMax) this.#templates.clear();
      this.#templates.set(id, template);
    }
    fill(template, target);
    return template;
  }
}

/** The bytes in which the rules for two endpoints without a byte in common differ. */
function makeTemplate(family: Family, rule: XtRule): Template {
  const compiled = (byte: number, port: number): CompiledRule => {
    const bytes = new Uint8Array(addressBytes[family]).fill(byte);
    return compileRule(family, { ...rule, target: dnat(Address.from(bytes), port) });
  };
  const [{ protocol, expressions }, other] = [compiled(0, 0), compiled(0xff, 0xffff)];
  const at = [...expressions.keys()].filter((i) => expressions[i] !== other.expressions[i]);
  return { protocol, expressions, at };
}

function fill({ at, expressions: bytes }: Template, { address, port }: DNATTarget): void {
  const own = address.bytes;
  const { length } = own;
  for (let i = 0; i < length; i += 1) {
    bytes[at[i]!] = own[i]!;
    bytes[at[length + i]!] = own[i]!;
  }
  for (const from of [2 * length, 2 * length + 2]) {
    bytes[at[from]!] = port >> 8;
    bytes[at[from + 1]!] = port & 0xff;
  }
}
