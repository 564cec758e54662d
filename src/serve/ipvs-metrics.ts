/**
 * The kernel's counters of each virtual service and each real server, read when Prometheus asks.
 * There may be many, so they are off by default (--ipvs-counters).
 */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Kernel } from '../kernel/kernel.ts';
import { protocolOf } from '../kernel/nft/constants.ts';
import type { Reply } from '../kernel/ops.ts';
import { formatEndpoint } from '../net/address.ts';

type VirtualService = Extract<Reply, { kind: 'virtualService' }>;
type Destination = Extract<Reply, { kind: 'destination' }>;

const counted = {
  connections: 'Connections',
  inPackets: 'Packets from clients',
  outPackets: 'Packets to clients',
  inBytes: 'Bytes from clients',
  outBytes: 'Bytes to clients',
} as const;

const states = ['active', 'inactive', 'persistent'] as const;

const labelNames = ['protocol', 'virtual_service', 'real_server'];

export function ipvsMetrics(
  registry: Registry,
  kernel: Kernel,
  wanted: () => boolean | undefined,
): void {
  const counters = () => (wanted() ? read(kernel) : []);
  for (const [name, what] of Object.entries(counted)) {
    new Counter({
      name: `fairlead_ipvs_${snake(name)}_total`,
      help: `${what} that a virtual service, or a real server of it, has had; see --ipvs-counters`,
      labelNames,
      registers: [registry],
      async collect() {
        this.reset();
        for (const record of await counters()) {
          this.inc(labelsOf(record), record[name as keyof typeof counted]);
        }
      },
    });
  }
  new Gauge({
    name: 'fairlead_ipvs_real_server_connections',
    help: 'Connections that a real server has at present, by state; see --ipvs-counters',
    labelNames: [...labelNames, 'state'],
    registers: [registry],
    async collect() {
      this.reset();
      for (const record of await counters()) {
        if (record.kind !== 'destination') continue;
        for (const state of states) {
          this.set({ ...labelsOf(record), state }, record[`${state}Connections`]);
        }
      }
    },
  });
}

/** Nothing if the kernel can't be read, so that other metrics are still served. */
async function read(kernel: Kernel): Promise<(VirtualService | Destination)[]> {
  const any = { family: 0, protocol: 0, address: new Uint8Array(0), port: 0 };
  const dumps = [
    kernel.dump({ kind: 'virtualServicesDump', family: 0 }),
    kernel.dump({ kind: 'destinationsDump', ...any }),
  ];
  const answers = await Promise.allSettled(dumps);
  const records = answers.flatMap((one) => (one.status === 'fulfilled' ? one.value.records : []));
  return records.filter(
    (one): one is VirtualService | Destination =>
      one.kind === 'destination' || (one.kind === 'virtualService' && one.firewallMark === 0),
  );
}

function labelsOf(record: VirtualService | Destination): Record<string, string> {
  return {
    protocol: protocolOf(record.protocol) ?? String(record.protocol),
    virtual_service: formatEndpoint(record.address, record.port),
    real_server:
      record.kind === 'destination'
        ? formatEndpoint(record.destination, record.destinationPort)
        : '',
  };
}

/** `inPackets` → `in_packets` */
function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
