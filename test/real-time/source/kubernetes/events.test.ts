import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ApiClient } from '../../../../src/source/kubernetes/client.ts';
import type { ClusterEvent } from '../../../../src/source/kubernetes/event-queue.ts';
import { EventRecorder } from '../../../../src/source/kubernetes/events.ts';
import { systemClock } from '../../../../src/time/clock.ts';
import { until } from '../../until.ts';
import { startServer } from './setup.ts';

const starting: ClusterEvent = {
  type: 'Normal',
  reason: 'Starting',
  action: 'StartKubeProxy',
  regarding: { kind: 'Node', name: 'node-a' },
  note: '',
};
const conflict: ClusterEvent = {
  type: 'Warning',
  reason: 'FrontendConflict',
  action: 'Claim',
  regarding: { kind: 'Service', namespace: 'shop', name: 'web', uid: 'uid-1' },
  note: 'port 80 is taken',
};

interface Told {
  readonly request: string;
  readonly type: string | undefined;
  readonly object: {
    readonly metadata?: { readonly name: string };
    readonly [key: string]: unknown;
  };
}

/** A recorder and the API server that it talks to. */
class Post {
  readonly sent: Told[] = [];
  readonly dropped: string[] = [];
  readonly problems: string[] = [];
  /** The server's answer: a status, or silence. */
  answer: number | 'silence' = 201;
  nowMs = Date.parse('2026-10-01T12:00:00.123Z');
  /** How far the clock on the wall has been set. */
  jumpedMs = 0;
  readonly #stop = new AbortController();
  recorder!: EventRecorder;
  #running: Promise<void> | undefined;

  async start(timeoutMs = 10_000): Promise<this> {
    const server = await startServer({
      onRequest: (request, response) => this.#on(request, response),
    });
    const options = { kubeconfigPath: '', masterUrl: `${server.url}/prefix/`, qps: -1, burst: 0 };
    this.recorder = new EventRecorder({
      open: () => ApiClient.open({ ...options, userAgent: 'fairlead/test' }),
      nodeName: 'node-a',
      dropped: (reason) => this.dropped.push(reason),
      problem: (error) => this.problems.push(error.message),
      timeoutMs,
      clock: {
        ...systemClock,
        now: () => this.nowMs,
        wallMs: () => this.nowMs + this.jumpedMs,
        random: () => 0,
      },
    });
    this.#running = this.recorder.run(this.#stop.signal);
    onTestFinished(() => this.stop());
    return this;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  #on(request: IncomingMessage, response: ServerResponse): void {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      if (this.answer === 'silence') return;
      const { answer } = this;
      if (answer < 300) {
        this.sent.push({
          request: `${request.method} ${request.url}`,
          type: request.headers['content-type'],
          object: JSON.parse(Buffer.concat(parts).toString()),
        });
      }
      response.writeHead(answer).end(answer < 300 ? '{}' : '');
    });
  }
}

describe('Events', () => {
  it("are sent like kube-proxy's: those of a Node in default, named and without namespace", async () => {
    const post = await new Post().start();
    post.recorder.record(starting);
    await until('the server is sent', () => post.sent.length === 1);
    const [{ request, type, object }] = post.sent as [Told];
    expect(request).toBe('POST /prefix/apis/events.k8s.io/v1/namespaces/default/events');
    expect(type).toBe('application/json');
    expect(object).toEqual({
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { name: expect.stringMatching(/^node-a\.[0-9a-f]{16}$/), namespace: 'default' },
      eventTime: '2026-10-01T12:00:00.123000Z',
      reportingController: 'kube-proxy',
      reportingInstance: 'kube-proxy-node-a',
      type: 'Normal',
      reason: 'Starting',
      action: 'StartKubeProxy',
      regarding: { apiVersion: 'v1', kind: 'Node', name: 'node-a', uid: 'node-a' },
      note: '',
    });
  });

  it('about a Service are in its namespace, and repetitions are not sent', async () => {
    const post = await new Post().start();
    for (let i = 0; i < 4; i += 1) post.recorder.record(conflict);
    await until('the server is sent', () => post.sent.length === 1);
    post.nowMs += 60_000;
    post.recorder.record(conflict);
    post.recorder.record(starting);
    await until('the server is sent', () => post.sent.length === 2);
    const [first, second] = post.sent as [Told, Told];
    expect(first.request).toMatch(/\/namespaces\/shop\/events$/);
    expect(first.object.regarding).toEqual({
      apiVersion: 'v1',
      kind: 'Service',
      namespace: 'shop',
      name: 'web',
      uid: 'uid-1',
    });
    expect(second.object.reason).toBe('Starting');
  });

  it.each([5, -5])(
    'wait no longer, and have the new time, if the clock is set by %d hours',
    async (hours) => {
      const post = await new Post().start();
      post.jumpedMs += hours * 3_600_000;
      post.recorder.record(conflict);
      await until('the server is sent', () => post.sent.length === 1);
      const { eventTime } = post.sent[0]!.object;
      expect(eventTime).toBe(`2026-10-01T${hours < 0 ? '07' : '17'}:00:00.123000Z`);
    },
  );

  it('have notes of at most 1024 bytes', async () => {
    const post = await new Post().start();
    post.recorder.record({ ...conflict, note: `x${'ä'.repeat(1000)}` });
    await until('the server is sent', () => post.sent.length === 1);
    const note = String(post.sent[0]!.object.note);
    expect(Buffer.byteLength(note)).toBeLessThanOrEqual(1024);
    expect(note).toMatch(/^xä+…$/);
  });

  it('that were recorded last are sent before the end', async () => {
    const post = await new Post().start();
    post.recorder.record(starting);
    post.recorder.record(conflict);
    await post.stop();
    expect(post.sent).toHaveLength(2);
  });
});

describe('an API server that does not accept Events', () => {
  it('is not asked twice if it rejects one, and the loss is counted', async () => {
    const post = await new Post().start();
    post.answer = 403;
    post.recorder.record(starting);
    post.recorder.record(conflict);
    await until('events are dropped', () => post.dropped.length === 2);
    expect(post.dropped).toEqual(['undelivered', 'undelivered']);
    expect(post.problems).toEqual(['HTTP status 403']);
    post.answer = 201;
    post.recorder.record(conflict);
    await until('the server is sent', () => post.sent.length === 1);
  });

  it('gets missed Events when it is available again soon', async () => {
    const post = await new Post().start(300);
    post.answer = 'silence';
    post.recorder.record(starting);
    await until('a problem is sent', () => post.problems.length === 1);
    post.answer = 201;
    await until('the server is sent', () => post.sent.length === 1);
    expect(post.dropped).toEqual([]);
  });

  it('does not delay the end', async () => {
    const post = await new Post().start();
    post.answer = 'silence';
    for (let i = 0; i < 50; i += 1) post.recorder.record({ ...conflict, note: String(i) });
    await post.stop();
    expect(post.sent).toEqual([]);
  });

  it('may have an invalid configuration, which is reported as a problem', async () => {
    const problems: string[] = [];
    const recorder = new EventRecorder({
      open: () => Promise.reject(new Error('kubeconfig /nowhere does not exist')),
      nodeName: 'node-a',
      dropped: () => {},
      problem: ({ message }) => problems.push(message),
      clock: systemClock,
    });
    await recorder.run(new AbortController().signal);
    recorder.record(starting);
    expect(problems).toEqual(['kubeconfig /nowhere does not exist']);
  });
});
