/** The chains of a table of nf_tables. Rules of a chain are read when they are asked for. */

import type { Kernel, TableName } from '../../kernel/kernel.ts';
import { findTable } from '../../kernel/nft/find-table.ts';
import { madeAt } from '../../net/made-at.ts';

export class Chains {
  readonly #kernel: Kernel;
  readonly #place: TableName;
  readonly #names: ReadonlySet<string>;
  readonly #rules = new Map<string, Promise<readonly Uint8Array[]>>();

  private constructor(kernel: Kernel, place: TableName, names: ReadonlySet<string>) {
    this.#kernel = kernel;
    this.#place = place;
    this.#names = names;
  }

  /** Undefined when there is no such table. Rejects with KernelError. */
  static async open(kernel: Kernel, place: TableName): Promise<Chains | undefined> {
    if ((await findTable(kernel, place)) === undefined) return undefined;
    const { records } = await kernel.dump({ kind: 'chainsDump', ...place });
    const names = records.flatMap((one) => {
      return one.kind === 'chain' && one.table === place.table ? [one.chain] : [];
    });
    return new Chains(kernel, place, new Set(names));
  }

  has(chain: string): boolean {
    return this.#names.has(chain);
  }

  /**
   * The expressions of the chain's rules, in order. Each chain is dumped by itself, because the
   * time of a dump of all rules grows with the square of their number.
   */
  rules(chain: string): Promise<readonly Uint8Array[]> {
    return madeAt(this.#rules, chain, async () => (this.has(chain) ? this.#read(chain) : []));
  }

  async #read(chain: string): Promise<readonly Uint8Array[]> {
    const { records } = await this.#kernel.dump({ kind: 'rulesDump', ...this.#place, chain });
    return records.flatMap((one) => (one.kind === 'rule' ? [one.expressions] : []));
  }
}
