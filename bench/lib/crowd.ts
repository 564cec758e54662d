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
type Family = (typeof families)[number];
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
      ...families.map((family) => this.#slice(i, family, '1000', firstHost)),
    ]);
  }

  /**
   * The n-th change: one of two endpoints is replaced, of one Service in one family. The server has
   * little to do for it, so that the change of a victim does not wait for the server.
   */
  change(n: number) {
    const i = (n >> 1) % this.#services;
    const round = Math.floor((n >> 1) / this.#services);
    const family = families[n & 1]!;
    const [from, to] = [round, round + 1].map((one) => addressOf(i, family, hostOf(one)));
    const { name, namespace } = this.#metadata(i, sliceName(i, family, '1000'), {});
    const key = `${namespace}/${name}`;
    return { do: 'edit', resource: 'endpointslices', key, from: from!, to: to! } as const;
  }

  #metadata(i: number, name: string, annotations: Raw, labels: Raw = {}) {
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
  #slice(i: number, addressType: Family, weight: string, host: number): Raw {
    const labels = { 'kubernetes.io/service-name': `large-${i}` };
    const name = sliceName(i, addressType, weight);
    const conditions = { ready: true, serving: true, terminating: false };
    return {
      kind: 'EndpointSlice',
      metadata: this.#metadata(i, name, { 'fairlead.io/weight': weight }, labels),
      addressType,
      endpoints: [{ addresses: [addressOf(i, addressType, host)], conditions }],
      ports: Array.from({ length: this.#ports }, (_, p) => {
        return { name: `p${p}`, port: 8080, protocol: 'TCP' };
      }),
    };
  }
}

/** Of the endpoint that is replaced. Each has three digits. */
const firstHost = 100;

function hostOf(round: number): number {
  return firstHost + (round % 100);
}

function addressOf(i: number, family: Family, host: number): string {
  return family === 'IPv4' ? `10.210.${i & 255}.${host}` : `fd00:21::${i.toString(16)}:${host}`;
}

function sliceName(i: number, family: Family, weight: string): string {
  return `large-${i}-${family.toLowerCase()}-${weight}`;
}
