/** Metrics of the log. */
import { Counter, type Registry } from 'prom-client';
import type { LogDestination } from './log-destination.ts';

export function logMetrics(registry: Registry, lines: Pick<LogDestination, 'leftOut'>): void {
  const counter = new Counter({
    name: 'fairlead_log_lines_left_out_total',
    help: 'Lines of the log left out because a reader had stopped or a disk was full',
    registers: [registry],
    collect: () => {
      counter.reset();
      counter.inc(lines.leftOut);
    },
  });
}
