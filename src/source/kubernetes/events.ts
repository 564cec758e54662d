/** Sends events to the API server (events.k8s.io/v1) in the background. */
import { requestBackoff } from '../../time/backoff.ts';
import { type Clock, pause, Wakeup } from '../../time/clock.ts';
import type { ApiClient } from './client.ts';
import { ApiError, retryAfterMs } from './errors.ts';
import {
  type ClusterEvent,
  type DropReason,
  type Entry,
  EventQueue,
  type Regarding,
} from './event-queue.ts';

/** Takes events. */
export interface EventSink {
  /** Cheap; may be called at any time. */
  record(event: ClusterEvent): void;
}

type Client = Pick<ApiClient, 'send' | 'close'>;

export interface EventRecorderOptions {
  readonly open: () => Promise<Client>;
  /** This node's name. */
  readonly nodeName: string;
  readonly dropped: (reason: DropReason) => void;
  /** Called with the reason why events do not reach the server, once until one does again. */
  readonly problem: (error: Error) => void;
  /** Timeout of each request. Default 10,000. */
  readonly timeoutMs?: number;
  readonly clock: Clock;
}

const attemptsMax = 3;
const backoffBaseMs = 1000;
const backoffMaxMs = 10_000;
const timeoutDefaultMs = 10_000;
/** How long events are sent when the process ends. */
const farewellMs = 2000;
/** Bounds of the API for events. */
const noteBytesMax = 1024;
const instanceMax = 128;

export class EventRecorder implements EventSink {
  readonly #options: EventRecorderOptions;
  readonly #queue: EventQueue;
  readonly #wakeup: Wakeup;
  #ailing = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#queue = new EventQueue(options);
    this.#wakeup = new Wakeup(options.clock);
  }

  record(event: ClusterEvent): void {
    this.#queue.add(event, this.#options.clock.now());
    this.#wakeup.wake();
  }

  /** Sends until `signal` aborts, and then the rest for a short time. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    signal.addEventListener('abort', () => this.#wakeup.wake(), { once: true });
    const client = await this.#options.open().catch((error: Error) => {
      this.#options.problem(error);
    });
    if (client === undefined) return;
    while (!signal.aborted) {
      if (await this.#sendNext(client, signal)) continue;
      const dueMs = this.#queue.dueMs();
      const waitMs = dueMs === undefined ? undefined : dueMs - clock.now();
      if (!signal.aborted) await this.#wakeup.wait(waitMs);
    }
    const farewell = AbortSignal.timeout(farewellMs);
    while (!farewell.aborted && (await this.#sendNext(client, farewell))) {}
    client.close();
  }

  /** Sends the event that is due first. Resolves to false if none is due. */
  async #sendNext(client: Client, signal: AbortSignal): Promise<boolean> {
    const nowMs = this.#options.clock.now();
    const next = this.#queue.next(nowMs);
    if (next === undefined) return false;
    const backoff = requestBackoff(backoffBaseMs, backoffMaxMs);
    for (let attempt = 1; !signal.aborted; attempt += 1) {
      try {
        await this.#send(client, next, signal);
        this.#queue.sent(next, nowMs);
        this.#ailing = false;
        return true;
      } catch (error) {
        if (signal.aborted) return false;
        if (isTaken(error)) {
          this.#queue.sent(next, nowMs, 'in vain');
          this.#ailing = false;
          return true;
        }
        this.#complain(error as Error);
        if (attempt >= attemptsMax || isRefusal(error)) break;
        const askedMs = Math.min(retryAfterMs(error), backoffMaxMs);
        await pause(askedMs || backoff.failed(), signal);
      }
    }
    this.#queue.drop(next, nowMs);
    this.#options.dropped('undelivered');
    return true;
  }

  #send(client: Client, entry: Entry, signal: AbortSignal): Promise<void> {
    const { clock, nodeName, timeoutMs = timeoutDefaultMs } = this.#options;
    const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const namespace = namespaceOf(entry.event.regarding);
    const path = `/apis/events.k8s.io/v1/namespaces/${namespace}/events`;
    const zeroMs = clock.wallMs() - clock.now();
    return client.send(path, eventObject(entry, nodeName, zeroMs), limit);
  }

  /** Reports once for each outage. */
  #complain(error: Error): void {
    if (!this.#ailing) this.#options.problem(error);
    this.#ailing = true;
  }
}

/** Whether the server has an object of this name. */
function isTaken(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409;
}

/** Whether the server would refuse the same request again. */
function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && error.status < 500 && error.status !== 429;
}

/** Events about objects without a namespace are in this one. */
function namespaceOf(regarding: Regarding): string {
  return regarding.kind === 'Service' ? regarding.namespace : 'default';
}

/** `zeroMs`: the wall-clock time of the zero of the monotonic clock of `firstMs`. */
function eventObject({ event, firstMs, name }: Entry, nodeName: string, zeroMs: number): object {
  const { type, reason, action, regarding, note } = event;
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name, namespace: namespaceOf(regarding) },
    eventTime: microTime(zeroMs + firstMs),
    reportingController: 'kube-proxy',
    reportingInstance: `kube-proxy-${nodeName}`.slice(0, instanceMax),
    type,
    reason,
    action,
    regarding: reference(regarding),
    note: cut(note, noteBytesMax),
  };
}

function reference(regarding: Regarding): object {
  const { kind, name } = regarding;
  // `kubectl describe node` looks for events whose uid is the Node's name.
  if (kind === 'Node') return { apiVersion: 'v1', kind, name, uid: name };
  const { namespace, uid } = regarding;
  return { apiVersion: 'v1', kind, namespace, name, ...(uid === '' ? {} : { uid }) };
}

/** metav1.MicroTime. */
function microTime(timeMs: number): string {
  return new Date(timeMs).toISOString().replace('Z', '000Z');
}

/** Cuts to this number of UTF-8 bytes, without an incomplete character at the end. */
function cut(text: string, bytesMax: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= bytesMax) return text;
  return `${new TextDecoder().decode(bytes.subarray(0, bytesMax - 6)).replace(/\ufffd$/, '')}…`;
}
