import { describe, expect, it } from 'vitest';
import { ClusterEvents } from '../../../../src/serve/cluster-events.ts';
import { ApiError } from '../../../../src/source/kubernetes/errors.ts';
import { EventRecorder } from '../../../../src/source/kubernetes/events.ts';
import { Random } from '../../../chaos/random.ts';
import { ToyClock } from '../../sync/double.ts';

interface Stored {
  readonly note: string;
  readonly reportingInstance: string;
}

/** An API server that keeps events, and nodes that all see the same. */
class Cluster {
  readonly stored = new Map<string, Stored>();
  readonly asked = { requests: 0, refused: 0 };
  readonly clock = new ToyClock(() => new Promise((resolve) => setImmediate(resolve)));
  readonly #nodes: ClusterEvents[];

  constructor(size: number) {
    const random = new Random(1);
    this.#nodes = Array.from({ length: size }, (_, i) => this.#node(`node-${i}`, random));
  }

  /** All nodes find the same fault of a Service. */
  wrong(service: string, reason = 'is not understood'): void {
    const problem = { subject: `Service shop/${service}`, field: 'fairlead.io/balance', reason };
    for (const node of this.#nodes) node.sourceProblem(problem);
  }

  /** All nodes refuse a node port of a Service at a loopback address. */
  refused(message: string): void {
    const servicePort = { namespace: 'shop', name: 'web', port: 'http', protocol: 'TCP' } as const;
    for (const node of this.#nodes) node.localhostRefused(servicePort, message);
  }

  get writes(): number {
    return this.asked.requests - this.asked.refused;
  }

  #node(nodeName: string, random: Random): ClusterEvents {
    const { clock } = this;
    const recorder = new EventRecorder({
      open: () => Promise.resolve({ send: this.#send, close: () => {} }),
      nodeName,
      dropped: () => {},
      problem: (error) => expect.fail(error.message),
      clock: {
        now: () => clock.now(),
        wallMs: () => clock.wallMs(),
        after: (delayMs, call) => clock.after(delayMs, call),
        turn: () => clock.turn(),
        random: () => random.next(),
      },
    });
    void recorder.run(new AbortController().signal);
    return new ClusterEvents({ sink: recorder, nodeName, uidOf: (service) => `uid of ${service}` });
  }

  readonly #send = (_path: string, object: unknown): Promise<void> => {
    this.asked.requests += 1;
    const { metadata } = object as { metadata: { name: string } };
    if (this.stored.has(metadata.name)) {
      this.asked.refused += 1;
      return Promise.reject(new ApiError(409, `${metadata.name} is refused`, undefined));
    }
    this.stored.set(metadata.name, object as Stored);
    return Promise.resolve();
  };
}

const secondMs = 1000;
const minuteMs = 60 * secondMs;

describe('500 nodes', () => {
  it('write one event about a fault that all of them find, within a minute', async () => {
    const cluster = new Cluster(500);
    cluster.wrong('web');
    await cluster.clock.pass(secondMs);
    expect(cluster.asked.requests).toBeLessThan(30);
    await cluster.clock.pass(29 * secondMs);
    expect(Math.abs(cluster.asked.requests - 250)).toBeLessThan(50);
    await cluster.clock.pass(minuteMs);
    expect(cluster.asked).toEqual({ requests: 500, refused: 499 });
    const note = 'fairlead.io/balance: is not understood';
    expect([...cluster.stored]).toEqual([
      [expect.stringMatching(/^web\.[0-9a-f]{16}$/), expect.objectContaining({ note })],
    ]);
  });

  it('write one event about what each of them finds for itself, and it names the first node', async () => {
    const cluster = new Cluster(500);
    cluster.refused('listen on 127.0.0.1:30080');
    await cluster.clock.pass(minuteMs);
    const [{ note, reportingInstance }] = [...cluster.stored.values()] as [Stored];
    expect(cluster.stored.size).toBe(1);
    const first = reportingInstance.replace('kube-proxy-', '');
    expect(note).toMatch(new RegExp(`^node ${first}: could not listen on 127.0.0.1:30080`));
  });

  it('write a fault that lasts as one event an hour', async () => {
    const cluster = new Cluster(500);
    for (let passed = 0; passed < 59; passed += 1) {
      cluster.wrong('web');
      await cluster.clock.pass(minuteMs);
    }
    expect(cluster.asked).toEqual({ requests: 500, refused: 499 });
    for (let passed = 59; passed < 65; passed += 1) {
      cluster.wrong('web');
      await cluster.clock.pass(minuteMs);
    }
    expect([cluster.asked.requests, cluster.writes]).toEqual([1000, 2]);
  });

  it('write a fault that returns after six minutes as another event', async () => {
    const cluster = new Cluster(500);
    cluster.wrong('web');
    await cluster.clock.pass(7 * minuteMs);
    cluster.wrong('web');
    await cluster.clock.pass(minuteMs);
    expect(cluster.writes).toBe(2);
    expect(cluster.stored.size).toBe(2);
  });

  it('ask less and less for a namespace that has another fault every ten seconds', async () => {
    const cluster = new Cluster(500);
    const requests: number[] = [];
    const faults = 36;
    for (let i = 0; i < faults; i += 1) {
      cluster.wrong(`web-${i % 10}`, `is "${i}"`);
      await cluster.clock.pass(10 * secondMs);
      requests.push(cluster.asked.requests);
    }
    // Without names in common they are 18,000, and 3,000 in the last minute.
    expect(requests.at(-1)).toBeLessThan(9 * 500);
    expect(requests.at(-1)! - requests.at(-7)!).toBeLessThan(500);
    expect(cluster.writes).toBe(cluster.stored.size);
    // All faults but some of the last minute.
    expect(cluster.writes).toBeLessThanOrEqual(faults);
    expect(cluster.writes).toBeGreaterThan(faults - 7);
  });
});
