/**
 * Requests that the event loop answers: a limited number at a time, and one for all clients that
 * can share an answer.
 */
import { madeAt } from '../../net/made-at.ts';
import { acceptsGzip, bodyBytes, type Reply, textHeaders } from '../reply.ts';
import type { Client } from './client.ts';
import { Payload } from './payloads.ts';
import { Turns } from './turns.ts';
import type { ForwardedRequest, Handling } from './wire.ts';

/** How many requests of each kind the event loop has at a time. */
const atOnce = { each: 4, long: 2, remote: 4 } as const;
/** How many the event loop gets per second. The API server is asked twice about a remote one. */
const perSecond = { each: 200, long: 200, remote: 10 } as const;
/** How long to wait for an answer. Profiles take 300 s. */
const answerMs = { each: 60_000, shared: 60_000, long: 330_000, remote: 60_000 } as const;
/** The least age of a shared answer before it is made again. */
const sharedEveryMs = 1000;
/** After one that took t the event loop has a rest of `restFactor` * t, whoever asks. */
const restFactor = 4;
const restMostMs = 5000;

type Queued = keyof typeof atOnce;

export const noAnswer: Reply = {
  status: 503,
  headers: textHeaders,
  body: 'the proxy did not answer in time\n',
};

interface ForwardsOptions {
  readonly now: () => number;
  readonly send: (request: ForwardedRequest) => void;
}

/** A request that was passed to the event loop. */
interface Pending {
  readonly sinceMs: number;
  readonly handling: Handling;
  readonly replied: (reply: Reply) => void;
}

interface Waiting {
  readonly client: Client;
  readonly listener: number;
}

/** The clients that wait for the same answer. */
interface SharedAnswer {
  readonly waiting: Set<Client>;
  /** When it may be made again. */
  nextMs: number;
  isUnderWay: boolean;
  timer: NodeJS.Timeout | undefined;
}

export class Forwards {
  readonly #options: ForwardsOptions;
  readonly #queues: Record<Queued, Turns<Waiting>>;
  readonly #pending = new Map<number, Pending>();
  /** By listener and path. */
  readonly #shared = new Map<string, SharedAnswer>();
  #lastId = 0;

  constructor(options: ForwardsOptions) {
    this.#options = options;
    this.#queues = {
      each: this.#queue('each'),
      long: this.#queue('long'),
      remote: this.#queue('remote'),
    };
  }

  /** Requests that were passed to the event loop and have no answer. */
  get underWay(): number {
    return this.#pending.size;
  }

  /** Requests that wait to be passed to the event loop, or for a shared answer. */
  get waiting(): number {
    const shared = [...this.#shared.values()].reduce((sum, one) => sum + one.waiting.size, 0);
    return Object.values(this.#queues).reduce((sum, one) => sum + one.waiting, shared);
  }

  add(client: Client, listener: number, handling: Handling): void {
    client.await(answerMs[handling]);
    if (handling === 'shared') this.#share(client, listener);
    else this.#queues[handling].add(client.peer, { client, listener });
  }

  /** The client is gone. What waits for it would be kept until its turn, which may never come. */
  remove(client: Client): void {
    for (const queue of Object.values(this.#queues)) {
      queue.remove(client.peer, (one) => one.client === client);
    }
    for (const { waiting } of this.#shared.values()) waiting.delete(client);
  }

  replied(id: number, reply: Reply): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.replied(reply);
    this.#wake();
  }

  /** Stops waiting for overdue answers. */
  check(nowMs: number): void {
    for (const [id, { handling, replied, sinceMs }] of this.#pending) {
      if (nowMs - sinceMs < answerMs[handling]) continue;
      this.#pending.delete(id);
      replied(noAnswer);
    }
    this.#wake();
  }

  closeListener(listener: number): void {
    for (const [key, shared] of this.#shared) {
      if (!key.startsWith(`${listener} `)) continue;
      clearTimeout(shared.timer);
      this.#shared.delete(key);
    }
  }

  close(): void {
    for (const queue of Object.values(this.#queues)) queue.close();
    for (const { timer } of this.#shared.values()) clearTimeout(timer);
  }

  #queue(handling: Queued): Turns<Waiting> {
    const { now } = this.#options;
    const isReady = (): boolean => {
      const under = [...this.#pending.values()].filter((one) => one.handling === handling);
      return under.length < atOnce[handling];
    };
    const take = ({ client, listener }: Waiting): void => {
      if (!client.isAsking) return;
      this.#ask(client, listener, handling, (reply) => client.reply(reply));
    };
    return new Turns({
      perTurn: atOnce[handling],
      perSecond: perSecond[handling],
      now,
      isReady,
      take,
    });
  }

  #wake(): void {
    for (const queue of Object.values(this.#queues)) queue.wake();
  }

  #ask(
    client: Client,
    listener: number,
    handling: Handling,
    replied: (reply: Reply) => void,
  ): void {
    const { body, host, method, target } = client.request;
    const { accept, acceptEncoding, authorization } = client.request;
    const [path, query] = splitTarget(target);
    this.#lastId += 1;
    const id = this.#lastId;
    const peer = client.address;
    this.#pending.set(id, { sinceMs: this.#options.now(), handling, replied });
    const asked = { method, path, query, peer, host, accept, authorization, body };
    // A shared answer is compressed here, for clients that accept it.
    const encoding = handling === 'shared' ? '' : acceptEncoding;
    this.#options.send({ id, listener, ...asked, acceptEncoding: encoding });
  }

  #share(client: Client, listener: number): void {
    const key = `${listener} ${splitTarget(client.request.target)[0]}`;
    const shared = madeAt(this.#shared, key, (): SharedAnswer => {
      const nextMs = Number.NEGATIVE_INFINITY;
      return { waiting: new Set(), nextMs, isUnderWay: false, timer: undefined };
    });
    shared.waiting.add(client);
    this.#start(shared, listener);
  }

  #start(shared: SharedAnswer, listener: number): void {
    if (shared.isUnderWay || shared.timer !== undefined) return;
    for (const one of shared.waiting) if (!one.isAsking) shared.waiting.delete(one);
    const [first] = shared.waiting;
    if (first === undefined) return;
    const { now } = this.#options;
    const startedMs = now();
    const waitMs = shared.nextMs - startedMs;
    if (waitMs > 0) {
      shared.timer = setTimeout(() => {
        shared.timer = undefined;
        this.#start(shared, listener);
      }, Math.ceil(waitMs));
      return;
    }
    shared.isUnderWay = true;
    this.#ask(first, listener, 'shared', (reply) => {
      shared.isUnderWay = false;
      const restMs = Math.min(restMostMs, restFactor * (now() - startedMs));
      shared.nextMs = Math.max(startedMs + sharedEveryMs, now() + restMs);
      const waiting = [...shared.waiting];
      shared.waiting.clear();
      give(reply, waiting);
      this.#start(shared, listener);
    });
  }
}

/** The path, and the part after `?`. */
export function splitTarget(target: string): [path: string, query: string] {
  const at = target.indexOf('?');
  return at < 0 ? [target, ''] : [target.slice(0, at), target.slice(at + 1)];
}

/** Sends the same answer to all, compressed for clients that accept it. */
function give(reply: Reply, waiting: readonly Client[]): void {
  const asking = waiting.filter((client) => client.isAsking);
  const takeGzip = asking.filter((client) => acceptsGzip(client.request.acceptEncoding));
  const bytes = bodyBytes(reply);
  const headers = { ...reply.headers, Vary: 'Accept-Encoding' };
  const plain = new Payload(bytes);
  for (const client of asking) {
    if (!takeGzip.includes(client)) client.reply({ ...reply, headers }, plain);
  }
  if (takeGzip.length === 0) return;
  process.getBuiltinModule('node:zlib').gzip(bytes, (error, compressed) => {
    const payload = error === null ? new Payload(compressed) : plain;
    const coding = error === null ? { 'Content-Encoding': 'gzip' } : {};
    for (const client of takeGzip) {
      client.reply({ ...reply, headers: { ...headers, ...coding } }, payload);
    }
  });
}
