/** Many tenants' large Services of both families, each of which changes again and again. */
type Raw = Readonly<Record<string, unknown>>;

/** How their connections are shared out: both make thousands of slots of two endpoints. */
const balances = {
  'maglev, 16 ports': { ports: 16, annotations: { 'fairlead.io/balance': 'maglev' } },
  'weights, 256 ports': { ports: 256, annotations: {} },
} as const;

export type CrowdBalance = keyof typeof balances;
export const crowdBalances = Object.keys(balances) as readonly CrowdBalance[];

const families = ['IPv4', 'IPv6'] as const;
const servicesOfNamespace = 10;

export class Crowd {
  readonly #services: number;
  readonly #ports: number;
  readonly #annotations: Raw;

  constructor(services: number, balance: CrowdBalance) {
    const { ports, annotations } = balances[balance];
    this.#services = services;
    this.#ports = ports;
    this.#annotations = annotations;
  }

  /** All objects, as they are at first. */
  get objects(): Raw[] {
    const numbers = Array.from({ length: this.#services }, (_, i) => i);
    return numbers.flatMap((i) => [
      this.#service(i),
      ...families.map((family) => this.#slice(i, family, '1', 1)),
      ...families.map((family) => this.#slice(i, family, '1000', 2)),
    ]);
  }

  /** The n-th change: one of two endpoints is replaced, of one Service in one family. */
  change(n: number): Raw {
    const i = (n >> 1) % this.#services;
    const round = Math.floor((n >> 1) / this.#services);
    return this.#slice(i, families[n & 1]!, '1000', 2 + (round % 250));
  }

  #metadata(i: number, name: string, annotations: Raw, labels: Raw = {}): Raw {
    const namespace = `crowd-${Math.floor(i / servicesOfNamespace)}`;
    return { name, namespace, uid: name, annotations, labels };
  }

  #service(i: number): Raw {
    const clusterIPs = [`10.97.${i >> 8}.${i & 255}`, `fd00:97::${i.toString(16)}`];
    const ports = Array.from({ length: this.#ports }, (_, p) => {
      return { name: `p${p}`, port: 1000 + p, protocol: 'TCP', targetPort: 8080 };
    });
    return {
      kind: 'Service',
      metadata: this.#metadata(i, `large-${i}`, this.#annotations),
      spec: {
        type: 'ClusterIP',
        clusterIP: clusterIPs[0],
        clusterIPs,
        ipFamilies: families,
        ports,
      },
      status: { loadBalancer: {} },
    };
  }

  /** A slice with one endpoint. */
  #slice(i: number, addressType: (typeof families)[number], weight: string, host: number): Raw {
    const labels = { 'kubernetes.io/service-name': `large-${i}` };
    const name = `large-${i}-${addressType.toLowerCase()}-${weight}`;
    const prefix = addressType === 'IPv4' ? `10.210.${i & 255}.` : `fd00:21::${i.toString(16)}:`;
    const conditions = { ready: true, serving: true, terminating: false };
    return {
      kind: 'EndpointSlice',
      metadata: this.#metadata(i, name, { 'fairlead.io/weight': weight }, labels),
      addressType,
      endpoints: [{ addresses: [`${prefix}${host}`], conditions }],
      ports: Array.from({ length: this.#ports }, (_, p) => {
        return { name: `p${p}`, port: 8080, protocol: 'TCP' };
      }),
    };
  }
}
