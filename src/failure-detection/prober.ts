/** Tries connections to endpoints from this node: a bounded number, at a bounded rate. */
import { type ReachTarget, reach } from '../host/reach.ts';
import { formatAddress, joinHostPort } from '../net/address.ts';
import { addCount } from '../net/counts.ts';
import type { ProbeResults } from '../state/detection.ts';
import type { Evidence } from './evidence.ts';
import type { Followed, Place, PortMember } from './ports.ts';

/** Shorter than the time after which the kernel repeats a SYN, so that a probe is one packet. */
const timeoutMs = 900;
/**
 * The most probes of one prober that start in one turn, and that are open at a time. One goes to an
 * address: a slice may name all of its ports.
 */
const probeLimits = { turn: 25, together: 100 } as const;

/** There are at most four in a second. */
export interface Turn {
  readonly number: number;
  /** How many probes each namespace has started in it, of all probers. */
  readonly started: Map<string, number>;
}

/** The result of a probe. */
export interface Probed {
  /** `not_tried`: this node could not connect, for a reason of its own. */
  readonly result: 'accepted' | 'failed' | 'not_tried';
  /** False: no packet was sent, so the kernel counts nothing. */
  readonly isSent: boolean;
  /** Why it was not tried: a name of errno, and in words. */
  readonly code?: string | undefined;
  readonly error?: string | undefined;
}

export interface ProberOptions {
  /** `Clock.now` */
  readonly now: () => number;
  /** No probe starts for a namespace that has started this many in the turn, of all probers. */
  readonly ofNamespace: number;
  /** Opens a TCP connection and closes it. Default: `probe`. */
  readonly connect?: (target: ReachTarget, timeoutMs: number) => Promise<Probed>;
  /** This node could not try a connection to an endpoint (`10.244.0.5:8080`). */
  readonly notTried: (endpoint: string, why: Probed) => void;
}

export class Prober {
  readonly #options: ProberOptions;
  /** Open probes, with the evidence of each port that requested one. */
  readonly #open = new Map<Followed, Set<Evidence>>();
  /** Those that had a probe in this turn. */
  readonly #probed = new Set<Place>();
  readonly #results = { succeeded: 0, failed: 0, notTried: 0 };

  constructor(options: ProberOptions) {
    this.#options = options;
  }

  /** Of probes that have ended. */
  get results(): ProbeResults {
    return { ...this.#results };
  }

  /** Whether the member may be probed now; asked before the queue of the turn yields it. */
  admits(member: PortMember, { number }: Turn): boolean {
    const { followed, namespace } = member;
    const { place } = followed;
    const hasRoom =
      this.#open.has(followed) || (!this.#probed.has(place) && place.isTurnOf(namespace, number));
    return hasRoom && member.exempt === undefined;
  }

  /** What the queue of a namespace yields, while it may start probes in this turn. */
  *bounded(
    namespace: string,
    queue: Iterator<PortMember>,
    { started }: Turn,
  ): Generator<PortMember> {
    while ((started.get(namespace) ?? 0) < this.#options.ofNamespace) {
      const next = queue.next();
      if (next.done) return;
      yield next.value;
    }
  }

  /**
   * Probes what the queue yields, until it is empty or a limit is reached; the rest stays in the
   * queue. All that it yields is admitted. Ports that request the same endpoint share the answer of
   * one probe, so that more ports do not mean more probes.
   */
  turn(queue: Iterator<PortMember>, { started }: Turn): void {
    this.#probed.clear();
    let left = Math.min(probeLimits.turn, probeLimits.together - this.#open.size);
    while (left > 0) {
      const next = queue.next();
      if (next.done) return;
      const { evidence, followed, namespace } = next.value;
      const asking = this.#open.get(followed);
      if (asking !== undefined) {
        asking.add(evidence);
        continue;
      }
      left -= 1;
      addCount(started, namespace);
      this.#probed.add(followed.place);
      this.#probe(followed, new Set([evidence]));
    }
  }

  #probe(followed: Followed, asking: Set<Evidence>): void {
    const { family, place, port } = followed;
    const address = formatAddress(place.address.bytes);
    const { connect = probe, notTried, now } = this.#options;
    const target = { family, address, port };
    this.#open.set(followed, asking);
    followed.probes += 1;
    void connect(target, timeoutMs).then((probed) => {
      this.#open.delete(followed);
      if (!probed.isSent) followed.probes -= 1;
      if (probed.result === 'not_tried') {
        this.#results.notTried += 1;
        return notTried(joinHostPort(address, port), probed);
      }
      const isAccepted = probed.result === 'accepted';
      this.#results[isAccepted ? 'succeeded' : 'failed'] += 1;
      const nowMs = now();
      for (const evidence of asking) evidence.probed(isAccepted, nowMs);
    });
  }
}

/**
 * Errors of connect(2) which say that packets of this node do not get to the endpoint, or that it
 * refuses them. All others are this node's own. EACCES, too: a route of type prohibit, or a policy
 * on the way (ICMPv6), forbids what may work for clients.
 */
const ofEndpoint: ReadonlySet<string | undefined> = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT'],
  // No route, and what routers say (icmp_err_convert in net/ipv4/icmp.c): clients fare no better.
  ...['ENETUNREACH', 'EHOSTUNREACH', 'EHOSTDOWN', 'ENONET', 'ENOPROTOOPT'],
  // A route of type blackhole.
  'EINVAL',
]);

/**
 * Before there is a packet: no descriptor, no memory, no free port, or a program of a cgroup that
 * forbids it. A packet that a rule of the node drops is silence: TCP sends it again (tcp_connect in
 * net/ipv4/tcp_output.c).
 */
const beforePackets: ReadonlySet<string | undefined> = new Set([
  ...['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS'],
  ...['EADDRNOTAVAIL', 'EAGAIN', 'EPERM'],
]);

/** Opens a connection and closes it. */
export async function probe(target: ReachTarget, ms: number): Promise<Probed> {
  const { answer, code, error } = (await reach('TCP', target, ms))!;
  if (answer === 'connected') return { result: 'accepted', isSent: true };
  if (answer === 'timeout' || ofEndpoint.has(code)) return { result: 'failed', isSent: true };
  return { result: 'not_tried', isSent: !beforePackets.has(code), code, error };
}
