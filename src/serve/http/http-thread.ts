/**
 * The event loop's side of the HTTP thread: opens ports and answers forwarded requests. When the
 * thread ends, another one takes over all ports.
 */
import type { HealthFacts } from '../health-answer.ts';
import { type Reply, type Routes, textReply } from '../reply.ts';
import { SharedMemory, slotsMax } from './shared-memory.ts';
import type {
  Answers,
  Certificate,
  ForwardedRequest,
  FromThread,
  Group,
  Place,
  Wire,
  WireEvents,
} from './wire.ts';

const restartMs = 1000;
/** Facts that have changed are published by then, also if nothing asks for them. */
const publishMs = 1000;

export interface ListenOptions {
  readonly place: Place;
  /** Absent: without TLS. */
  readonly certificate?: Certificate;
  readonly group: Group;
  readonly answers: Answers;
  /** Answers the paths of `answers`. */
  readonly routes?: Routes;
  readonly opened: () => void;
  /** Listening failed: the port is closed. */
  readonly failed: (error: Error & { readonly code?: string }) => void;
}

export interface Listening {
  close(): void;
}

interface HttpThreadOptions {
  /** Starts the thread. */
  readonly open: (memory: SharedMemory, events: WireEvents) => Wire;
  /** Has the current input of answers to probes. */
  readonly health: { facts(): HealthFacts };
  /** The thread has ended, and another one is started. */
  readonly ended: (error: Error) => void;
}

export class HttpThread {
  readonly memory = new SharedMemory();
  readonly #options: HttpThreadOptions;
  readonly #listeners = new Map<number, ListenOptions>();
  #lastListener = 0;
  /** Unused slots of the memory below `#firstNewSlot`. */
  readonly #freeSlots: number[] = [];
  #firstNewSlot = 0;
  #wire: Wire | undefined;
  #restarting: NodeJS.Timeout | undefined;
  #publishing: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: HttpThreadOptions) {
    this.#options = options;
  }

  listen(options: ListenOptions): Listening {
    this.#lastListener += 1;
    const listener = this.#lastListener;
    this.#listeners.set(listener, options);
    if (!this.#isClosed && this.#restarting === undefined) {
      if (this.#wire === undefined) this.#start();
      else this.#open(listener, options);
    }
    return {
      close: () => {
        if (this.#listeners.delete(listener)) this.#wire?.send({ kind: 'close', listener });
      },
    };
  }

  /** The input of answers to probes has changed: the next probe asks for it. */
  changed(): void {
    if (this.#wire === undefined || this.#publishing !== undefined) return;
    this.memory.outdate();
    this.#publishing = setTimeout(() => this.#publish(), publishMs).unref();
  }

  #publish(): void {
    clearTimeout(this.#publishing);
    this.#publishing = undefined;
    this.memory.publish(this.#options.health.facts());
  }

  /** A slot of the shared memory; undefined: all are used. */
  takeSlot(): number | undefined {
    const slot = this.#freeSlots.pop();
    if (slot !== undefined) return slot;
    if (this.#firstNewSlot === slotsMax) return undefined;
    this.#firstNewSlot += 1;
    return this.#firstNewSlot - 1;
  }

  giveSlot(slot: number): void {
    this.memory.setEndpoints(slot, 0);
    this.#freeSlots.push(slot);
  }

  close(): void {
    this.#isClosed = true;
    this.#stop();
    clearTimeout(this.#restarting);
    clearTimeout(this.#publishing);
    this.#listeners.clear();
  }

  #start(): void {
    this.#restarting = undefined;
    this.#publish();
    this.#wire = this.#options.open(this.memory, {
      received: (message) => this.#received(message),
      ended: (error) => this.#ended(error),
    });
    for (const [listener, options] of this.#listeners) this.#open(listener, options);
  }

  #stop(): void {
    this.#wire?.close();
    this.#wire = undefined;
  }

  #open(listener: number, { answers, certificate, group, place }: ListenOptions): void {
    this.#wire?.send({ kind: 'open', listener, place, certificate, group, answers });
  }

  #ended(error: Error): void {
    this.#stop();
    if (this.#isClosed) return;
    this.#options.ended(error);
    this.#restarting = setTimeout(() => this.#start(), restartMs);
  }

  #received(message: FromThread): void {
    if (message.kind === 'request') {
      void this.#answer(message.request, this.#wire);
      return;
    }
    if (message.kind === 'refresh') {
      this.#publish();
      this.#wire?.send({ kind: 'refreshed' });
      return;
    }
    const options = this.#listeners.get(message.listener);
    if (options === undefined) return;
    if (message.kind === 'opened') options.opened();
    else {
      this.#listeners.delete(message.listener);
      options.failed(Object.assign(new Error(message.message), { code: message.code ?? '' }));
    }
  }

  async #answer(request: ForwardedRequest, wire: Wire | undefined): Promise<void> {
    const reply = await this.#replyTo(request);
    if (wire === this.#wire) wire?.send({ kind: 'reply', id: request.id, reply });
  }

  async #replyTo({ id: _, listener, path, query, ...asked }: ForwardedRequest): Promise<Reply> {
    try {
      const route = this.#listeners.get(listener)?.routes?.[path];
      if (route === undefined) throw new Error(`${path} has no handler any more`);
      return await route({ ...asked, query: new URLSearchParams(query) });
    } catch (error) {
      return textReply(500, `${(error as Error).message}\n`);
    }
  }
}
