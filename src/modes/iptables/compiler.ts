/** Compiles rules. Those that translate to an endpoint are made from templates: they are many. */
import { type CompiledRule, compileRule } from '../../kernel/xt/compile.ts';
import { dnat } from '../../kernel/xt/targets/dnat.ts';
import { Address, addressBytes, type Family } from '../../net/address.ts';
import { type EndpointList, endpointBytes } from '../../net/endpoint-list.ts';
import type { Protocol } from '../../net/protocol.ts';
import { type OwnChain, pickOneOf, picks } from './translation.ts';

interface Template extends CompiledRule {
  /** Offsets of the endpoint's bytes: address, address, port, port; no ports if they are kept. */
  readonly at: readonly number[];
}

/** Each index of a pool has a template. When there are more than this, all are forgotten. */
const templatesMax = 8192;

export class RuleCompiler {
  readonly #family: Family;
  /** By protocol and whether ports are kept, and by what `pickOneOf` is given. */
  readonly #templates = new Map<string, Map<number, Template>>();
  /** The endpoint of the last rule, packed. */
  readonly #endpoint: Uint8Array;

  constructor(family: Family) {
    this.#family = family;
    this.#endpoint = new Uint8Array(endpointBytes[family]);
  }

  /** The rules of a chain in order. The bytes of each are valid until the next one is asked for. */
  *compile({ endpoints, rules }: OwnChain): Generator<CompiledRule> {
    for (const rule of rules) yield compileRule(this.#family, rule);
    if (endpoints === undefined) return;
    const { keepsPort, list, protocol } = endpoints;
    for (const { index, of } of picks(endpoints)) {
      const template = this.#template(protocol, of, keepsPort);
      this.#fill(template, list, index);
      yield template;
    }
  }

  #template(protocol: Protocol, of: number, keepsPort: boolean): Template {
    const kind = keepsPort ? `${protocol} kept` : protocol;
    let templates = this.#templates.get(kind);
    if (templates === undefined || templates.size >= templatesMax) {
      templates = new Map();
      this.#templates.set(kind, templates);
    }
    let template = templates.get(of);
    if (template === undefined) {
      template = makeTemplate(this.#family, protocol, of, keepsPort);
      templates.set(of, template);
    }
    return template;
  }

  #fill({ at, expressions }: Template, list: EndpointList, index: number): void {
    const endpoint = this.#endpoint;
    const length = addressBytes[this.#family];
    list.copy(index, endpoint, 0);
    for (let i = 0; i < length; i += 1) {
      expressions[at[i]!] = endpoint[i]!;
      expressions[at[length + i]!] = endpoint[i]!;
    }
    // None where ports are kept.
    for (let i = length; i < at.length / 2; i += 1) {
      expressions[at[length + i]!] = endpoint[i]!;
      expressions[at[length + i + 2]!] = endpoint[i]!;
    }
  }
}

/** The bytes in which the rules for two endpoints without a byte in common differ. */
function makeTemplate(
  family: Family,
  protocol: Protocol,
  of: number,
  keepsPort: boolean,
): Template {
  const compiled = (byte: number, port: number): CompiledRule => {
    const bytes = new Uint8Array(addressBytes[family]).fill(byte);
    const target = dnat(Address.from(bytes), keepsPort ? undefined : port);
    return compileRule(family, { protocol, ...pickOneOf(of), target });
  };
  const [one, other] = [compiled(0, 0), compiled(0xff, 0xffff)];
  const { expressions } = one;
  const at = [...expressions.keys()].filter((i) => expressions[i] !== other.expressions[i]);
  return { ...one, at };
}
