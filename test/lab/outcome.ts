/** The messages of the lab's processes: questions, answers, and outcomes of attempts. */

export const PROTOCOLS = ['TCP', 'UDP', 'SCTP'] as const;
export type Protocol = (typeof PROTOCOLS)[number];

/** Source ports the agents use: below node ports (30000) and the kernel's own range (32768). */
export const SOURCE_PORT_FIRST = 10_000;
export const SOURCE_PORT_LAST = 29_999;

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
 * - unreachable: an ICMP error about this very flow arrived (raw socket, see native/probe.cc), so
 *   it is distinguished from a reset even where the socket API reports ECONNREFUSED for both.
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

/** Requests to an agent, one JSON line each, wrapped as `{ id, request }`. */
export type AgentRequest =
  | { readonly op: 'listen'; readonly protocol: Protocol; readonly at: SocketAddress }
  /**
   * `count` connections, at most 32 concurrently; each asks once and is closed. Answers a Tally.
   */
  | { readonly op: 'connect'; readonly attempt: Attempt; readonly count: number }
  /** One connection that stays open under the name `flow`. Answers an Outcome. */
  | {
      readonly op: 'open';
      readonly flow: string;
      readonly attempt: Attempt;
      /** TCP only: after naming itself the server sends 16 KiB every 5 ms, until asked again. */
      readonly download?: 'endless' | undefined;
    }
  /** Asks again on an open flow, or ends its download. Answers an Outcome. */
  | { readonly op: 'resume'; readonly flow: string; readonly timeoutMs: number }
  | { readonly op: 'close'; readonly flow: string }
  /** Closes all flows and servers. */
  | { readonly op: 'reset' }
  /** Empties the connection-tracking table of the agent's namespace. */
  | { readonly op: 'flush-conntrack' }
  | { readonly op: 'run'; readonly argv: readonly string[]; readonly input: string };

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
