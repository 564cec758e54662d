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
  /** Those of Services. */
  readonly #services: Counts = { nat: 0, filter: 0, mangle: 0 };

  constructor(config: IptablesConfig) {
    for (const { table, rules } of fixedChains(config)) this.#fixed[table] += rules.length;
    this.#fixed.filter += firewallRules(config).length;
  }

  /** Adds rules of Services; a negative number takes them away. */
  add(table: TableName, rules: number): void {
    this.#services[table] += rules;
  }

  written(table: TableName, rules: number): void {
    this.#written[table] += rules;
  }

  /** Forgets the rules of all Services. */
  clear(): void {
    for (const table of tables) this.#services[table] = 0;
  }

  /** `written`: since the last call. `nodePorts`: rules that lead to node ports. */
  take(nodePorts: number): RuleCount[] {
    return tables.map((table) => {
      const total = this.#fixed[table] + this.#services[table] + (table === 'nat' ? nodePorts : 0);
      const written = this.#written[table];
      this.#written[table] = 0;
      return { table, total, written };
    });
  }
}
