/** Messages between the event loop and the HTTP thread. */
import type { Asked, Reply } from '../reply.ts';

/** Ports that share a limit of connections. */
export type Group = 'healthz' | 'metrics' | 'read' | 'service health';

/**
 * How requests for a path are handled. `each`: one by one, a limited number at a time. `shared`:
 * one answer for all waiting clients, at most once a second. `long`: takes long, and blocks no
 * other request. `remote`: as `each`, apart from it, and few per second: clients that nothing is
 * known of ask.
 */
export type Handling = 'each' | 'shared' | 'long' | 'remote';

export type Answers =
  /** The thread answers /healthz, /livez and /readyz. */
  | { readonly kind: 'probes' }
  /** The event loop answers these paths. */
  | { readonly kind: 'paths'; readonly paths: Readonly<Record<string, Handling>> }
  /** The thread answers any path with what `slot` of the shared memory says. */
  | {
      readonly kind: 'service';
      readonly namespace: string;
      readonly name: string;
      readonly slot: number;
    };

export interface Place {
  /** An address; absent: all addresses of this machine. */
  readonly host?: string;
  readonly port: number;
  readonly ipv6Only?: boolean;
}

/** A certificate and its key, in PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

export type ToThread =
  | {
      readonly kind: 'open';
      readonly listener: number;
      readonly place: Place;
      /** Undefined: without TLS. */
      readonly certificate?: Certificate | undefined;
      readonly group: Group;
      readonly answers: Answers;
    }
  | { readonly kind: 'close'; readonly listener: number }
  | { readonly kind: 'reply'; readonly id: number; readonly reply: Reply }
  /** The event loop is not blocked, and has published the input of answers to probes. */
  | { readonly kind: 'refreshed' };

export interface ForwardedRequest extends Omit<Asked, 'query'> {
  readonly id: number;
  readonly listener: number;
  readonly path: string;
  /** The part after `?`. */
  readonly query: string;
}

export type FromThread =
  | { readonly kind: 'opened'; readonly listener: number }
  /** Listening failed: the port is closed. */
  | {
      readonly kind: 'failed';
      readonly listener: number;
      readonly message: string;
      readonly code: string | undefined;
    }
  | { readonly kind: 'request'; readonly request: ForwardedRequest }
  /** A probe waits for an answer. */
  | { readonly kind: 'refresh' };

/** The event loop's view of the thread. */
export interface Wire {
  send(message: ToThread): void;
  close(): void;
}

export interface WireEvents {
  readonly received: (message: FromThread) => void;
  /** The thread has ended unexpectedly. */
  readonly ended: (error: Error) => void;
}
