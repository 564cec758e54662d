import type { FakeApi } from '../../test/fake/api-server-process.ts';

const inSlice = 100;

/** A Service in slices of 100 endpoints, whose pods are replaced one by one. */
export class RollingService {
  static #pods = 0;
  /** The number of updates that replace all pods. */
  readonly updates: number;
  readonly #api: FakeApi;
  readonly #name: string;
  readonly #clusterIP: string;
  readonly #slices: Pod[][];
  #updated = 0;

  constructor(api: FakeApi, name: string, clusterIP: string, endpoints: number) {
    this.#api = api;
    this.#name = name;
    this.#clusterIP = clusterIP;
    this.updates = 3 * endpoints;
    this.#slices = Array.from({ length: Math.ceil(endpoints / inSlice) }, (_, i) =>
      Array.from({ length: Math.min(inSlice, endpoints - i * inSlice) }, () => this.#next()),
    );
  }

  async create(): Promise<void> {
    const metadata = { name: this.#name, namespace: 'rolling' };
    const ports = [{ name: 'http', port: 80, protocol: 'TCP' }];
    const addresses = { clusterIP: this.#clusterIP, clusterIPs: [this.#clusterIP] };
    const spec = { type: 'ClusterIP', ...addresses, ports };
    await this.#api.ask({ do: 'apply', object: { kind: 'Service', metadata, spec } });
    for (let i = 0; i < this.#slices.length; i += 1) await this.#apply(i);
  }

  /**
   * Of each pod there are three: its successor is ready, it terminates, it is gone. Slices take
   * turns, pod by pod.
   */
  update(): Promise<unknown> {
    const at = Math.floor(this.#updated / 3) % this.#slices.length;
    const slice = this.#slices[at]!;
    const step = this.#updated % 3;
    this.#updated += 1;
    if (step === 0) slice.push(this.#next());
    else if (step === 1) slice[0] = { ...slice[0]!, conditions: ending };
    else slice.shift();
    return this.#apply(at);
  }

  async remove(): Promise<void> {
    const key = `rolling/${this.#name}`;
    await this.#api.ask({ do: 'delete', resource: 'services', key });
    for (let i = 0; i < this.#slices.length; i += 1) {
      await this.#api.ask({ do: 'delete', resource: 'endpointslices', key: `${key}-${i}` });
    }
  }

  #apply(at: number): Promise<unknown> {
    const labels = { 'kubernetes.io/service-name': this.#name };
    const metadata = { name: `${this.#name}-${at}`, namespace: 'rolling', labels };
    const ports = [{ name: 'http', port: 8080, protocol: 'TCP' }];
    const slice = { addressType: 'IPv4', ports, endpoints: this.#slices[at] };
    return this.#api.ask({ do: 'apply', object: { kind: 'EndpointSlice', metadata, ...slice } });
  }

  /** A pod with an address that none had before. */
  #next() {
    const number = RollingService.#pods;
    RollingService.#pods += 1;
    return {
      addresses: [`10.${192 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`],
      conditions: ready,
      nodeName: `node-${number % 500}`,
      zone: `zone-${number % 3}`,
      targetRef: { kind: 'Pod', namespace: 'rolling', name: `${this.#name}-${number}` },
    };
  }
}

interface Pod {
  readonly addresses: readonly string[];
  readonly conditions: Readonly<typeof ready>;
  readonly nodeName: string;
}

const ready = { ready: true, serving: true, terminating: false };
const ending = { ready: false, serving: true, terminating: true };
