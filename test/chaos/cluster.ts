/** A lab with a fake API server in its node, and the life of the cluster that it serves. */
import { setTimeout as sleep } from 'node:timers/promises';
import { FakeApi } from '../fake/api-server-process.ts';
import { addressOf, FAMILIES } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { SERVER_PORT } from '../lab/objects.ts';
import { type Change, ClusterLife } from './life.ts';
import { type Form, Program } from './program.ts';
import type { Random } from './random.ts';
import type { Mode } from './readers.ts';

/** How often the churn sends changes that are due. */
const tickMs = 10;

export interface ClusterOptions {
  readonly mode: Mode;
  readonly services: number;
  readonly random: Random;
  readonly form: Form;
}

export class Cluster {
  readonly lab: Lab;
  readonly life: ClusterLife;
  readonly #api: FakeApi;
  readonly #options: ClusterOptions;

  private constructor(lab: Lab, api: FakeApi, options: ClusterOptions) {
    this.lab = lab;
    this.#api = api;
    this.#options = options;
    this.life = new ClusterLife(options.services, options.random);
  }

  static async make(options: ClusterOptions): Promise<Cluster> {
    const lab = await createLab();
    try {
      const api = await FakeApi.start({ name: lab.node.namespace });
      const cluster = new Cluster(lab, api, options);
      for (const object of cluster.life.objects()) await api.ask({ do: 'apply', object });
      for (const family of FAMILIES) {
        for (const pod of ['pod-a', 'pod-c'] as const) {
          await lab.actors[pod].listen('TCP', addressOf(pod)[family], SERVER_PORT);
        }
      }
      return cluster;
    } catch (error) {
      await lab.close();
      throw error;
    }
  }

  start(): Program {
    const { mode, form } = this.#options;
    return new Program(this.lab, mode, this.#api.kubeconfig, form);
  }

  /** Makes changes until `signal` aborts. Resolves to their number when all are sent. */
  async churn(perSecond: number, signal: AbortSignal): Promise<number> {
    const startMs = performance.now();
    let done = 0;
    while (!signal.aborted) {
      const due = ((performance.now() - startMs) / 1000) * perSecond;
      while (done < due && !signal.aborted) {
        for (const change of this.life.step()) {
          await this.#tell(change);
          done += 1;
        }
      }
      await sleep(tickMs);
    }
    return done;
  }

  async close(): Promise<void> {
    await this.#api.close();
    await this.lab.close();
  }

  #tell(change: Change): Promise<unknown> {
    const { kind: verb, ...rest } = change;
    return this.#api.ask({ do: verb, ...rest });
  }
}
