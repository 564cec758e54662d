/**
 * Which connections are older than their Service allows (`fairlead.io/max-connection-age`). Entries
 * of connection tracking do not say when they were made, so a connection ages from when it is first
 * seen. Those that are there when this process begins to look count as evenly old.
 */

import { type ConntrackEntries, IPS } from '../kernel/conntrack-entries.ts';
import { addCount } from '../net/counts.ts';
import { ageLimitMs } from '../state/endings.ts';
import type { Forwarding } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';

/** The most connections that are followed, of a family and of a namespace; others do not end. */
const followedMax = 65_536;
const ofNamespaceMax = followedMax / 4;

/** The part of a port's connections that a pass ends, at least one. */
const endedMost = 0.02;
/** Passes are an age divided by this apart, within these bounds. While more are due, the first. */
const passesAnAge = 40;
const passMinMs = 1000;
const passMaxMs = 60_000;

/** What a pass finds. */
interface Pass {
  /** `Clock.now` when connections are to end, by `keyOf`. */
  readonly endsMs: Map<number, number>;
  /** How many of them each namespace has. */
  readonly ofNamespace: Map<string, number>;
  /** How many connections are open, by the key of their Forwarding. */
  readonly open: Map<string, number>;
  /** How many end. */
  readonly endedOf: Map<string, number>;
  /** Those that end. */
  readonly ended: Set<number>;
  /** Keys of the Forwardings whose connections count as evenly old. */
  readonly unseen: ReadonlySet<string>;
}

function newPass(unseen: ReadonlySet<string>): Pass {
  const maps = { endsMs: new Map(), ofNamespace: new Map(), open: new Map(), endedOf: new Map() };
  return { ...maps, ended: new Set(), unseen };
}

export class ConnectionAges {
  readonly #clock: Pick<Clock, 'now' | 'random'>;
  readonly #followed = new Map<string, Forwarding>();
  #unseen = new Set<string>();
  #last = newPass(new Set());
  #pass = this.#last;
  /** Connections are due that the pass has left. */
  #isBehind = false;

  constructor(clock: Pick<Clock, 'now' | 'random'>) {
    this.#clock = clock;
  }

  /** Those with an age. */
  get followed(): Iterable<Forwarding> {
    return this.#followed.values();
  }

  /** How long after a pass the next one comes. */
  get pauseMs(): number {
    if (this.#isBehind) return passMinMs;
    let pauseMs = passMaxMs;
    for (const { endings } of this.#followed.values()) {
      pauseMs = Math.min(pauseMs, endings!.maxAgeMs! / passesAnAge);
    }
    return Math.max(passMinMs, pauseMs);
  }

  /** A change of a Forwarding of TCP is in force. */
  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const [before, after] = [previous?.endings?.maxAgeMs, next?.endings?.maxAgeMs];
    if (before !== undefined) this.#followed.delete(previous!.key);
    if (after === undefined) return;
    this.#followed.set(next!.key, next!);
    if (before !== after) this.#unseen.add(next!.key);
  }

  begin(): void {
    // A pass that has failed left some unseen.
    const left = this.#pass === this.#last ? [] : this.#pass.unseen;
    this.#pass = newPass(new Set([...left, ...this.#unseen]));
    this.#unseen = new Set();
    this.#isBehind = false;
  }

  /** The pass has seen all entries. */
  end(): void {
    this.#last = this.#pass;
  }

  /** Those of the entries that are to end. `holderOf`: whose each is. */
  due(
    entries: ConntrackEntries,
    holderOf: (index: number) => Forwarding | undefined,
  ): ConntrackEntries {
    return entries.filter((index) => {
      const holder = isOpen(entries, index) ? holderOf(index) : undefined;
      return holder !== undefined && this.#isDue(keyOf(entries, index), holder);
    });
  }

  #isDue(key: number, holder: Forwarding): boolean {
    const { ended, endedOf } = this.#pass;
    // It is asked again before it is deleted.
    if (ended.has(key)) return true;
    const endMs = this.#endMs(key, holder);
    if (endMs === undefined || endMs > this.#clock.now()) return false;
    const most = Math.max(1, endedMost * (this.#last.open.get(holder.key) ?? 0));
    if ((endedOf.get(holder.key) ?? 0) + 1 > most) {
      this.#isBehind = true;
      return false;
    }
    addCount(endedOf, holder.key);
    ended.add(key);
    return true;
  }

  /** When the connection is to end; undefined: it is not followed. */
  #endMs(key: number, { endings, key: port, servicePort }: Forwarding): number | undefined {
    const maxAgeMs = endings?.maxAgeMs;
    if (maxAgeMs === undefined) return undefined;
    const { endsMs, ofNamespace, open, unseen } = this.#pass;
    // Dumps may overlap.
    if (endsMs.has(key)) return endsMs.get(key);
    addCount(open, port);
    const { namespace } = servicePort;
    if (endsMs.size >= followedMax) return undefined;
    if ((ofNamespace.get(namespace) ?? 0) >= ofNamespaceMax) return undefined;
    addCount(ofNamespace, namespace);
    const [now, random, isUnseen] = [this.#clock.now(), this.#clock.random(), unseen.has(port)];
    const known = isUnseen ? now + maxAgeMs * random : this.#last.endsMs.get(key);
    const endMs = known ?? now + ageLimitMs(maxAgeMs, random);
    endsMs.set(key, endMs);
    return endMs;
  }
}

/** Whether it was translated, both sides have spoken, and neither has ended it. */
function isOpen(entries: ConntrackEntries, index: number): boolean {
  const isAnswered = (entries.status(index) & IPS.SEEN_REPLY) !== 0;
  const to = entries.key(index, 'originalDestination');
  return isAnswered && !entries.isClosed(index) && entries.key(index, 'replySource') !== to;
}

/** Ids are hashes of 32 bits: two connections may share one, but hardly a client's port, too. */
function keyOf(entries: ConntrackEntries, index: number): number {
  return entries.id(index) * 0x1_0000 + entries.port(index, 'originalSource');
}
