/**
 * How full the maps of session affinity are. They are read when Prometheus asks, but not more often
 * than once a minute: to count elements, the kernel must list them.
 */
import { Gauge, type Registry } from 'prom-client';
import type { Kernel } from '../kernel/kernel.ts';
import type { AffinityFill, ModeFacts } from '../modes/mode.ts';
import type { Family } from '../net/address.ts';

const families = ['IPv4', 'IPv6'] as const satisfies readonly Family[];

/** Maps that are at least this full have their own series: few contain half of 65,535 clients. */
const shareMin = 0.5;

const readAgainMs = 60_000;

type Fills = ReadonlyMap<Family, readonly AffinityFill[]>;

/** `mode` returns the running mode; `now` is in milliseconds. */
export function affinityMetrics(
  registry: Registry,
  kernel: Kernel,
  mode: () => ModeFacts | undefined,
  now: () => number = () => performance.now(),
): void {
  let known: Promise<Fills> = Promise.resolve(new Map());
  let readAtMs = Number.NEGATIVE_INFINITY;
  const fills = (): Promise<Fills> => {
    const running = mode();
    if (running?.affinityFill === undefined) return Promise.resolve(new Map());
    if (now() - readAtMs >= readAgainMs) {
      readAtMs = now();
      known = read(running, kernel);
    }
    return known;
  };
  const registers = [registry];
  new Gauge({
    name: 'fairlead_affinity_clients',
    help: 'Clients that session affinity remembers, of all Services; mode nftables',
    labelNames: ['ip_family'],
    registers,
    async collect() {
      this.reset();
      for (const [ip_family, maps] of await fills()) {
        const clients = maps.reduce((sum, map) => sum + map.clients, 0);
        this.set({ ip_family }, clients);
      }
    },
  });
  new Gauge({
    name: 'fairlead_affinity_fill_ratio',
    help:
      'How full the session affinity of a Service port is, where that is half or more: at 1 ' +
      'clients that are new get any endpoint each time; mode nftables',
    labelNames: ['ip_family', 'service_port', 'pool'],
    registers,
    async collect() {
      this.reset();
      for (const [ip_family, maps] of await fills()) {
        for (const { servicePort: service_port, pool, share } of maps) {
          if (share >= shareMin) this.set({ ip_family, service_port, pool }, share);
        }
      }
    },
  });
}

/** A family that can't be read has no series, so that other metrics are still served. */
async function read(mode: ModeFacts, kernel: Kernel): Promise<Fills> {
  const found = new Map<Family, readonly AffinityFill[]>();
  for (const family of families) {
    const fills = await mode.affinityFill?.(kernel, family).catch(() => undefined);
    if (fills !== undefined) found.set(family, fills);
  }
  return found;
}
