import type { Attempt, IcmpReason, Identity, Protocol, SocketAddress } from '../outcome.ts';

/** The end of one question, from sockets and packets. `code` is an errno name. */
export type Reply =
  | { readonly kind: 'answered'; readonly identity: Identity; readonly own: string }
  | { readonly kind: 'failed'; readonly code: string }
  | { readonly kind: 'unreachable'; readonly icmp: IcmpReason; readonly from: string }
  | { readonly kind: 'closed' }
  | { readonly kind: 'timeout' };

/** One connection of a client. The first question also makes the connection. */
export interface Flow {
  ask(timeoutMs: number): Promise<Reply>;
  close(): void;
}

export interface Server {
  close(): void;
}

/** One protocol: how to serve and how to connect. `ownPort` is the source port to use. */
export interface Transport {
  listen(at: SocketAddress, name: string): Promise<Server>;
  flow(attempt: Attempt, ownPort: number): Flow;
}

export type Transports = Readonly<Record<Protocol, Transport>>;

/**
 * Gives the events of a socket to the last question. An event that comes while no question waits is
 * kept only if it is final: a late answer belongs to a question that was given up.
 */
export class Mailbox {
  #final: Reply | undefined;
  #deliver: ((reply: Reply) => void) | undefined;

  answer(reply: Reply): void {
    this.#deliver?.(reply);
  }

  end(reply: Reply): void {
    this.#final ??= reply;
    this.#deliver?.(this.#final);
  }

  /** The next event after `act`, or the final one immediately, or a timeout. */
  next(timeoutMs: number, act: () => void): Promise<Reply> {
    if (this.#final !== undefined) return Promise.resolve(this.#final);
    return new Promise((resolve) => {
      const deliver = (reply: Reply): void => {
        clearTimeout(timer);
        if (this.#deliver === deliver) this.#deliver = undefined;
        resolve(reply);
      };
      const timer = setTimeout(() => deliver({ kind: 'timeout' }), timeoutMs);
      this.#deliver = deliver;
      act();
    });
  }
}

/** The errno name of a Node error. */
export function codeOf(error: NodeJS.ErrnoException): string {
  return error.code ?? error.message;
}
