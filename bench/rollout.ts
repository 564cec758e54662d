/**
 * What does a rollout of a large Service cost? Its slices have 100 endpoints. Of each pod there are
 * three updates: its successor is ready, it terminates, it is gone.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FakeApi } from '../test/fake/api-server-process.ts';
import { buildProduct, withCluster } from './lib/api-rig.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import { eachFollower, used } from './lib/followers.ts';
import { number, table } from './lib/stats.ts';

const others: Size = { services: 2000, endpoints: 5 };
const endpointsOf = [100, 1000, 10_000] as const;
const inSlice = 100;
const perSecond = 50;
const warmSeconds = 6;
const seconds = 20;

export async function rollout(): Promise<string> {
  buildProduct();
  const rows: string[][] = [];
  for (const endpoints of endpointsOf) {
    const found = await withCluster(others, async (api, namespace) => {
      const large = new LargeService(api, endpoints / inSlice);
      await large.create();
      return eachFollower(api.kubeconfig, namespace, others.services + 1, async (pid) => {
        await large.roll(warmSeconds);
        return used(pid, () => large.roll(seconds));
      });
    });
    for (const [name, { all, main, ofV8 }] of found) {
      const each = [all, main, ofV8].map((ms) => number(ms / (perSecond * seconds)));
      rows.push([number(endpoints), name, ...each, number(all / (10 * seconds))]);
    }
  }
  const title = `A rollout with ${perSecond} updates a second, beside ${sizeName(others)}; ms of processor time for each`;
  const head = ['endpoints', '', 'process', 'main thread', 'threads of V8', '% of a core'];
  return `${title}\n\n${table(head, rows)}`;
}

type Endpoint = ReturnType<LargeService['next']>;

class LargeService {
  readonly #api: FakeApi;
  readonly #slices: Endpoint[][];
  #pods = 0;
  #updates = 0;

  constructor(api: FakeApi, slices: number) {
    this.#api = api;
    this.#slices = Array.from({ length: slices }, () =>
      Array.from({ length: inSlice }, () => this.next()),
    );
  }

  async create(): Promise<void> {
    const metadata = { name: 'large', namespace: 'large' };
    const ports = [{ name: 'http', port: 80, protocol: 'TCP' }];
    const addresses = { clusterIP: '10.111.0.1', clusterIPs: ['10.111.0.1'] };
    const spec = { type: 'ClusterIP', ...addresses, ports };
    await this.#api.ask({ do: 'apply', object: { kind: 'Service', metadata, spec } });
    for (let i = 0; i < this.#slices.length; i += 1) await this.#apply(i);
  }

  async roll(seconds: number): Promise<void> {
    const startedMs = performance.now();
    for (let i = 0; i < perSecond * seconds; i += 1) {
      await this.#update();
      await sleep(Math.max(0, startedMs + ((i + 1) * 1000) / perSecond - performance.now()));
    }
  }

  /** Slices take turns, pod by pod. */
  #update(): Promise<unknown> {
    const pod = Math.floor(this.#updates / 3);
    const at = pod % this.#slices.length;
    const slice = this.#slices[at]!;
    const index = Math.floor(pod / this.#slices.length) % inSlice;
    const step = this.#updates % 3;
    this.#updates += 1;
    if (step === 0) slice.push(this.next());
    else if (step === 2) slice.splice(index, 1);
    else slice[index] = { ...slice[index]!, conditions: ending };
    return this.#apply(at);
  }

  #apply(at: number): Promise<unknown> {
    const labels = { 'kubernetes.io/service-name': 'large' };
    const metadata = { name: `large-${at}`, namespace: 'large', labels };
    const ports = [{ name: 'http', port: 8080, protocol: 'TCP' }];
    const slice = { addressType: 'IPv4', ports, endpoints: this.#slices[at] };
    return this.#api.ask({ do: 'apply', object: { kind: 'EndpointSlice', metadata, ...slice } });
  }

  /** A pod with an address that none had before. */
  next() {
    this.#pods += 1;
    const [high, low] = [(this.#pods >> 8) & 255, this.#pods & 255];
    return {
      addresses: [`10.${192 + (this.#pods >> 16)}.${high}.${low}`],
      conditions: ready,
      nodeName: `node-${this.#pods % 500}`,
      zone: `zone-${this.#pods % 3}`,
      targetRef: { kind: 'Pod', namespace: 'large', name: `large-${this.#pods}` },
    };
  }
}

const ready = { ready: true, serving: true, terminating: false };
const ending = { ready: false, serving: true, terminating: true };
