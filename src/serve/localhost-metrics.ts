/**
 * Metrics of sockets for node ports on loopback addresses (KEP-6032). Upstream has them for mode
 * nftables; here every mode has them.
 */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Family } from '../net/address.ts';

interface Sources {
  readonly families: () => Iterable<{ readonly family: Family }>;
  readonly localhostListeners: (family: Family) => number;
}

export class LocalhostMetrics {
  readonly #failures: Counter;

  constructor(registry: Registry, { families, localhostListeners }: Sources) {
    const described = (name: string, help: string) => ({
      name: `kubeproxy_nftables_localhost_nodeport_${name}`,
      help: `[ALPHA] ${help}`,
      labelNames: ['ip_family'],
      registers: [registry],
    });
    new Gauge({
      ...described('listeners', 'Sockets that listen for node ports on the loopback address'),
      collect() {
        for (const { family } of families()) {
          this.set({ ip_family: family }, localhostListeners(family));
        }
      },
    });
    this.#failures = new Counter(
      described(
        'listener_creation_failures_total',
        'Times that a socket for a node port on the loopback address could not be opened',
      ),
    );
  }

  refused(family: Family): void {
    this.#failures.inc({ ip_family: family });
  }
}
