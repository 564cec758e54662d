/**
 * The kernel's named counters, in which rules of mode iptables count, read when Prometheus asks.
 */
import { Counter } from 'prom-client';
import { type NamedCounter, readCounters } from '../kernel/acct.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Logger } from './log.ts';

/** Existing counters; empty if they can't be read. */
export type ReadCounters = () => Promise<readonly Pick<NamedCounter, 'name' | 'packets'>[]>;

/** Empty if they can't be read, so that other metrics are still served. */
export function countersOf(kernel: Kernel, log: Logger): ReadCounters {
  return () =>
    readCounters(kernel).catch((error: Error) => {
      log.warn({ err: error.message }, 'Could not read named counters');
      return [];
    });
}

/**
 * A metric of the packets that the kernel's counter `counter` has counted; no series without it.
 */
export function nfacctMetric(
  described: { readonly name: string; readonly help: string },
  counter: string,
  read: ReadCounters,
): Counter {
  return new Counter({
    ...described,
    registers: [],
    async collect() {
      const found = (await read()).find(({ name }) => name === counter);
      // Without labels there would be a series of value 0 otherwise.
      this.remove();
      if (found !== undefined) this.inc(found.packets);
    },
  });
}
