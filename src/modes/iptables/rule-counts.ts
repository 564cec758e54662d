/** How many rules there are and how many were written, as kube-proxy counts them (7.11). */
import type { RuleCount } from '../mode.ts';
import { firewallRules, fixedChains, type IptablesConfig, type PlacedRule } from './layout.ts';
import type { TableName } from './names.ts';

/** kube-proxy tells of these only: in mangle it has no rule. */
const tables = ['nat', 'filter'] as const satisfies readonly TableName[];

type Counts = Record<TableName, number>;

export class RuleCounts {
  /** Without the jumps from built-in chains, which kube-proxy does not count. */
  readonly #fixed: Counts = { nat: 0, filter: 0, mangle: 0 };
  readonly #written: Counts = { nat: 0, filter: 0, mangle: 0 };
  readonly #shared: Counts = { nat: 0, filter: 0, mangle: 0 };
  /** Rules in chains of one Forwarding, by its key. */
  readonly #own = new Map<string, number>();
  #ownTotal = 0;

  constructor(config: IptablesConfig) {
    for (const { table, rules } of fixedChains(config)) this.#fixed[table] += rules.length;
    this.#fixed.filter += firewallRules(config).length;
  }

  /** A rule in a chain of all Services comes (1) or goes (-1). */
  shared({ table }: Pick<PlacedRule, 'table'>, change: 1 | -1): void {
    this.#shared[table] += change;
  }

  /** The rules that a Forwarding has in chains of its own. */
  own(key: string, rules: number): void {
    this.#ownTotal += rules - (this.#own.get(key) ?? 0);
    if (rules === 0) this.#own.delete(key);
    else this.#own.set(key, rules);
  }

  written(table: TableName, rules: number): void {
    this.#written[table] += rules;
  }

  /** Nothing is known of Services any more. */
  forget(): void {
    for (const table of tables) this.#shared[table] = 0;
    this.#own.clear();
    this.#ownTotal = 0;
  }

  /** `written`: since the last call. */
  take(): RuleCount[] {
    return tables.map((table) => {
      const own = table === 'nat' ? this.#ownTotal : 0;
      const written = this.#written[table];
      this.#written[table] = 0;
      return { table, total: this.#fixed[table] + this.#shared[table] + own, written };
    });
  }
}
