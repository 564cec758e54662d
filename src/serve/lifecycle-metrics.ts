/** Metrics of starts, mode changes and takeovers. */
import { Counter, type Registry } from 'prom-client';
import type { ModeName } from '../modes/mode.ts';
import type { DropReason } from '../source/kubernetes/event-series.ts';

/** The result of reading a configuration file again. */
export type ReloadResult = 'applied' | 'unchanged' | 'invalid' | 'restart';

export class LifecycleMetrics {
  readonly #fallbacks: Counter;
  readonly #replaced: Counter;
  readonly #reloads: Counter;
  readonly #eventsDropped: Counter;
  readonly #takenOver: Counter;
  readonly #reportsLeftOut: Counter;
  readonly #foreignTables: Counter;

  constructor(registry: Registry) {
    const counter = (name: string, help: string, ...labelNames: string[]) =>
      new Counter({ name: `fairlead_${name}`, help, labelNames, registers: [registry] });
    this.#fallbacks = counter(
      'mode_fallbacks_total',
      'Modes that cannot run on this node and gave way to another',
      'from',
      'to',
    );
    this.#replaced = counter(
      'modes_replaced_total',
      'Times that the rules of a mode were removed after those of another were verified',
      'from',
      'to',
    );
    this.#reloads = counter(
      'config_reloads_total',
      'Times that the configuration file was read again, by what became of it',
      'result',
    );
    this.#eventsDropped = counter(
      'cluster_events_dropped_total',
      'Events that the API server was not told of',
      'reason',
    );
    this.#reportsLeftOut = counter(
      'reports_left_out_total',
      'Log lines and events about one object that were left out because they were too many',
    );
    this.#takenOver = counter(
      'takeover_removed_total',
      "Objects of kube-proxy's that were removed after our own were verified",
      'kind',
    );
    this.#foreignTables = counter(
      'foreign_tables_replaced_total',
      'Tables of our names that somebody else had made, and that ours have replaced',
    );
  }

  /** A mode cannot run here, so another one is tried. */
  fellBack(from: ModeName, to: ModeName): void {
    this.#fallbacks.inc({ from, to });
  }

  /** Objects of a mode are removed, because another mode has taken over. */
  replaced(from: ModeName, to: ModeName): void {
    this.#replaced.inc({ from, to });
  }

  reloaded(result: ReloadResult): void {
    this.#reloads.inc({ result });
  }

  eventDropped(reason: DropReason): void {
    this.#eventsDropped.inc({ reason });
  }

  reportsLeftOut(count: number): void {
    this.#reportsLeftOut.inc(count);
  }

  foreignTableReplaced(): void {
    this.#foreignTables.inc();
  }

  /** Objects by kind: tables, chains, jumps. */
  tookOver(counts: Readonly<Record<string, number>>): void {
    for (const [kind, count] of Object.entries(counts)) this.#takenOver.inc({ kind }, count);
  }
}
