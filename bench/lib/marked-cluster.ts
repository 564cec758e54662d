/** A cluster in which one can see, from a client, how far a proxy has come. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import type { FakeApi } from '../../test/fake/api-server-process.ts';
import { endpoint, port, type Stage } from '../connect.ts';

const root = resolve(import.meta.dirname, '..', '..');
const program = join(root, 'build', 'bench', 'connect_loop');

/** The namespace of these Services. */
export const marked = 'marked';

export class NotInTime extends Error {}

/** Services with the stage's server as their only endpoint, and whether they work. */
export class MarkedCluster {
  readonly #stage: Stage;
  readonly #api: FakeApi;
  readonly #pauseMs: number;
  #added = 0;

  /** `pauseMs`: between two attempts to connect. */
  constructor(stage: Stage, api: FakeApi, pauseMs: number) {
    this.#stage = stage;
    this.#api = api;
    this.#pauseMs = pauseMs;
  }

  /** Adds a Service, and returns its ClusterIP. */
  async add(): Promise<string> {
    this.#added += 1;
    const clusterIP = `10.200.1.${this.#added}`;
    const name = `at-${clusterIP.replaceAll('.', '-')}`;
    for (const object of [service(name, clusterIP), slice(name)]) {
      await this.#api.ask({ do: 'apply', object });
    }
    return clusterIP;
  }

  /**
   * Adds one more Service, and waits until it works: what came before it is in force, too.
   * @returns the time from its last object to the first connection, in milliseconds
   */
  async mark(longestMs: number): Promise<number> {
    const clusterIP = await this.add();
    const addedMs = performance.now();
    return (await this.works(clusterIP, longestMs)) - addedMs;
  }

  /**
   * Resolves once a connection is made.
   * @returns `performance.now()` at that moment
   * @throws NotInTime
   */
  async works(clusterIP: string, longestMs: number): Promise<number> {
    const limits = [this.#pauseMs, longestMs].map(String);
    const until = [program, 'until', clusterIP, '80', ...limits];
    const argv = ['netns', 'exec', this.#stage.client.name, ...until];
    const [code] = await once(
      spawn('ip', argv, { stdio: ['ignore', 'ignore', 'inherit'] }),
      'exit',
    );
    if (code !== 0) throw new NotInTime(`${clusterIP} does not work`);
    return performance.now();
  }
}

function service(name: string, clusterIP: string): Readonly<Record<string, unknown>> {
  return {
    kind: 'Service',
    metadata: { name, namespace: marked, creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: {
      type: 'ClusterIP',
      clusterIP,
      clusterIPs: [clusterIP],
      ipFamilies: ['IPv4'],
      ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: Number(port) }],
    },
    status: { loadBalancer: {} },
  };
}

function slice(of: string): Readonly<Record<string, unknown>> {
  return {
    kind: 'EndpointSlice',
    metadata: {
      name: `${of}-abcde`,
      namespace: marked,
      labels: { 'kubernetes.io/service-name': of },
    },
    addressType: 'IPv4',
    endpoints: [{ addresses: [endpoint], conditions: { ready: true, serving: true } }],
    ports: [{ name: 'http', port: Number(port), protocol: 'TCP' }],
  };
}
