/** The chains and rules that events name, read from the kernel on demand. */
import type { Kernel, ReplyOf } from '../../kernel/kernel.ts';
import { type Clause, readClauses } from '../../kernel/nft/clauses.ts';

type Chain = ReplyOf<'chain'>;

interface ChainName {
  readonly family: number;
  readonly table: string;
  readonly chain: string;
}

export interface Rule {
  readonly clauses: readonly Clause[];
  /** Records of `expressions`. */
  readonly bytes: Uint8Array;
  readonly comment: string;
}

export class Ruleset {
  readonly #kernel: Kernel;
  #chains: ReadonlyMap<string, Chain> = new Map();
  readonly #rules = new Map<string, ReadonlyMap<number, Rule>>();

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  /** Undefined: it was deleted. Rejects with KernelError. */
  async chain(name: ChainName): Promise<Chain | undefined> {
    const known = this.#chains.get(keyOf(name));
    if (known !== undefined) return known;
    const { records } = await this.#kernel.dump({ kind: 'chainsDump', family: 0, table: '' });
    const chains = records.filter((one) => one.kind === 'chain');
    this.#chains = new Map(chains.map((one) => [keyOf(one), one]));
    return this.#chains.get(keyOf(name));
  }

  /** Undefined: it was deleted. Rejects with KernelError. */
  async rule(name: ChainName, handle: number): Promise<Rule | undefined> {
    const known = this.#rules.get(keyOf(name))?.get(handle);
    if (known !== undefined) return known;
    const { family, table, chain } = name;
    const { records } = await this.#kernel.dump({ kind: 'rulesDump', family, table, chain });
    const rules = new Map<number, Rule>();
    for (const one of records) {
      if (one.kind !== 'rule') continue;
      const { comment, expressions: bytes } = one;
      rules.set(one.handle, { clauses: readClauses(bytes), bytes, comment });
    }
    this.#rules.set(keyOf(name), rules);
    return rules.get(handle);
  }
}

function keyOf({ chain, family, table }: ChainName): string {
  return `${family} ${table} ${chain}`;
}
