/** How many rules there are and how many were written, as kube-proxy counts them (7.11). */
import type { RuleCount } from '../mode.ts';
import { firewallRules, fixedChains, type IptablesConfig } from './layout.ts';
import type { TableName } from './names.ts';

/** kube-proxy counts in these tables only: it has no rule in mangle. */
const tables = ['nat', 'filter'] as const satisfies readonly TableName[];

type Counts = Record<TableName, number>;

export class RuleCounts {
  /** Without the jumps from built-in chains, which kube-proxy does not count. */
  readonly #fixed: Counts = { nat: 0, filter: 0, mangle: 0 };
  readonly #written: Counts = { nat: 0, filter: 0, mangle: 0 };
  /** Those in chains of Services, and those of all Services that are not fixed. */
  readonly #others: Counts = { nat: 0, filter: 0, mangle: 0 };

  constructor(config: IptablesConfig) {
    for (const { table, rules } of fixedChains(config)) this.#fixed[table] += rules.length;
    this.#fixed.filter += firewallRules(config).length;
  }

  /** Adds rules that are not fixed; a negative number takes them away. */
  add(table: TableName, rules: number): void {
    this.#others[table] += rules;
  }

  written(table: TableName, rules: number): void {
    this.#written[table] += rules;
  }

  /** Forgets all rules that are not fixed. */
  clear(): void {
    for (const table of tables) this.#others[table] = 0;
  }

  /** `written`: since the last call. */
  take(): RuleCount[] {
    return tables.map((table) => {
      const total = this.#fixed[table] + this.#others[table];
      const written = this.#written[table];
      this.#written[table] = 0;
      return { table, total, written };
    });
  }
}
