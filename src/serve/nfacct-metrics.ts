/** What rules of mode iptables count in named counters of the kernel: read when Prometheus asks. */
import { Counter } from 'prom-client';
import type { NamedCounter } from '../kernel/acct.ts';

/** Counters that are there; none where they can't be read. */
export type ReadCounters = () => Promise<readonly Pick<NamedCounter, 'name' | 'packets'>[]>;

/** A metric of the packets that the kernel's counter `counter` has seen; no series without it. */
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
