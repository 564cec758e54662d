/** The messages of the lab's processes: questions, answers, and outcomes of attempts. */

export const PROTOCOLS = ['TCP', 'UDP', 'SCTP'] as const;
export type Protocol = (typeof PROTOCOLS)[number];

export interface SocketAddress {
  readonly address: string;
  readonly port: number;
}

/** What a server says about itself and about the connection, as one JSON line. */
export interface Identity {
  /** Actor that answers. */
  readonly by: string;
  /** Port it listens on. */
  readonly port: number;
  /** Source address and port it sees. */
  readonly source: string;
  readonly sourcePort: number;
}

/** ICMP and ICMPv6 errors by meaning; anything else is `type/code` in digits. */
export type IcmpReason =
  | 'port-unreachable'
  | 'admin-prohibited'
  | 'host-unreachable'
  | 'no-route'
  | 'protocol-unreachable'
  | 'time-exceeded'
  | `${number}/${number}`;

/**
 * How one attempt ended, as the client sees it.
 * - answered: a server named itself; `own` is the client's address before any translation.
 * - reset: TCP RST or SCTP ABORT, at connect or later. Proven by the absence of an ICMP error.
 * - unreachable: an ICMP error about this very flow arrived (raw socket, see native/icmp_watch.h),
 *   so it is distinguished from a reset even where the socket API reports ECONNREFUSED for both.
 * - closed: the peer ended the connection in good order without answering.
 * - timeout: silence, or a filter of the own namespace dropped the packet on its way out.
 * - error: the attempt could not be made (address in use, no route in the own namespace).
 */
export type Outcome =
  | {
      readonly kind: 'answered';
      readonly by: string;
      readonly port: number;
      readonly source: string;
      readonly own: string;
    }
  | { readonly kind: 'reset' }
  | { readonly kind: 'unreachable'; readonly icmp: IcmpReason; readonly from: string }
  | { readonly kind: 'closed' }
  | { readonly kind: 'timeout' }
  | { readonly kind: 'error'; readonly detail: string };

/** The outcomes of many attempts. Equal ones are counted together. */
export type Tally = readonly { readonly count: number; readonly outcome: Outcome }[];

/** A destination, and optionally the source to use; timeoutMs bounds each wait for an answer. */
export interface Attempt {
  readonly protocol: Protocol;
  readonly to: SocketAddress;
  readonly from?: Partial<SocketAddress>;
  readonly timeoutMs: number;
}

/** Replies of an agent: `{ id, result }` or `{ id, error }`. */
export interface AgentReply {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: string;
}

export interface RunResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}
