/**
 * Decides which endpoints of one Service port are ejected, that is, get no new connections, and
 * which return. Pools are independent of each other. Pure.
 */
import type { EndpointKey } from '../net/endpoint-list.ts';
import { type EndpointChange, mostEjected } from '../state/detection.ts';
import { grownPart, growthStepMs } from '../state/growth.ts';
import { type Evidence, patienceMs } from './evidence.ts';

/** Attempts in a row without an answer. With a loss of 10 % that is one in a hundred million. */
export const attemptsLeast = 8;
/** Another endpoint must have answered this long after it stopped: else all may have stopped. */
const othersMs = patienceMs / 2;
/** The shortest ejection. It doubles each time when the endpoint is soon ejected again. */
const firstPauseMs = 1000;
const longestPauseMs = 60_000;
/** This long after a return, the next ejection counts as the first one. */
const forgetMs = 600_000;
/** After this time clients try the endpoint again, even if no probe has succeeded. */
const trialMs = 300_000;

/** One endpoint of a pool. */
export interface Member {
  readonly key: EndpointKey;
  /** `10.244.0.5:8080` */
  readonly text: string;
  readonly evidence: Evidence;
  /** Why it is neither probed nor ejected at present; undefined: it may be. */
  readonly exempt: string | undefined;
}

/** A current or recent ejection. */
interface Outage {
  readonly sinceMs: number;
  /** It does not return before, and then is probed first. */
  readonly leastMs: number;
  /** When the next probe is due, and how long the pause after that one is. */
  probeMs: number;
  pauseMs: number;
  /** When it returned; undefined: it is ejected. */
  backMs: number | undefined;
}

export type Change = EndpointChange & { readonly member: Member };

interface PoolSettings {
  /** The most endpoints that are ejected, in percent. */
  readonly maxEjected: number;
  /** How long the share of an endpoint grows after its return. */
  readonly growthMs: number;
}

export class Pool<One extends Member = Member> {
  #members: readonly One[] = [];
  readonly #outages = new Map<One, Outage>();
  /** The index at which `suspects` starts, so that all members get a turn. */
  #next = 0;

  get members(): readonly One[] {
    return this.#members;
  }

  /** Forgets members that have gone. If they return, they are new. */
  update(members: readonly One[]): void {
    this.#members = members;
    const present = new Set(members);
    for (const member of this.#outages.keys()) {
      if (!present.has(member)) this.#outages.delete(member);
    }
  }

  isOut(member: One): boolean {
    const outage = this.#outages.get(member);
    return outage !== undefined && outage.backMs === undefined;
  }

  /** When it was ejected; undefined: it is not. */
  outSinceMs(member: One): number | undefined {
    return this.isOut(member) ? this.#outages.get(member)!.sinceMs : undefined;
  }

  /** Whether the endpoint has answered none of its latest attempts. */
  isSilent({ evidence }: Member): boolean {
    return evidence.unanswered() >= attemptsLeast;
  }

  /** Ejects endpoints, and lets others return. */
  judge(nowMs: number, { maxEjected, growthMs }: PoolSettings): readonly Change[] {
    const changes: Change[] = [];
    for (const [member, outage] of this.#outages) {
      if (outage.backMs === undefined) {
        const because = this.#returns(member, outage, nowMs);
        if (because === undefined) continue;
        outage.backMs = nowMs;
        member.evidence.forgive(nowMs);
        changes.push({ kind: 'returned', member, outMs: nowMs - outage.sinceMs, because });
      } else if (nowMs - outage.backMs >= Math.max(forgetMs, growthMs)) {
        this.#outages.delete(member);
      }
    }
    let out = [...this.#outages.values()].filter(({ backMs }) => backMs === undefined).length;
    const most = mostEjected(this.#members.length, maxEjected);
    let latest = this.#latest();
    for (const member of this.#members) {
      if (out >= most) break;
      if (!this.#fails(member, latest, nowMs)) continue;
      const unanswered = member.evidence.unanswered();
      this.#eject(member, nowMs);
      if (latest.includes(member)) latest = this.#latest();
      out += 1;
      changes.push({ kind: 'ejected', member, unanswered });
    }
    return changes;
  }

  /** Ends all ejections. Returns whether there was one, or a share that was still growing. */
  release(): boolean {
    const had = this.#outages.size > 0;
    this.#outages.clear();
    return had;
  }

  /** For each endpoint without its full share, the part that it has; 0: it is ejected. */
  parts(nowMs: number, growthMs: number): ReadonlyMap<EndpointKey, number> | undefined {
    let parts: Map<EndpointKey, number> | undefined;
    for (const [{ key }, { backMs }] of this.#outages) {
      const part =
        backMs === undefined ? 0 : grownPart(Math.floor((nowMs - backMs) / growthStepMs(growthMs)));
      if (part >= 1) continue;
      parts ??= new Map();
      parts.set(key, part);
    }
    return parts;
  }

  /**
   * Endpoints to probe now, because a decision depends on the answer: of those that `mayProbe`
   * admits when their turn comes. The others stay due.
   */
  *suspects(nowMs: number, mayProbe: (member: One) => boolean): Generator<One> {
    let hasSuspect = false;
    const { length } = this.#members;
    const first = this.#next;
    for (let i = 0; i < length; i += 1) {
      const at = (first + i) % length;
      const member = this.#members[at]!;
      const outage = this.#outages.get(member);
      const isOut = outage !== undefined && outage.backMs === undefined;
      const isDue = isOut ? nowMs >= outage.probeMs : member.evidence.unanswered() >= 2;
      if (!isDue || !mayProbe(member)) continue;
      if (isOut) {
        outage.probeMs = nowMs + outage.pauseMs;
        outage.pauseMs = Math.min(outage.pauseMs * 2, longestPauseMs);
      } else hasSuspect = true;
      this.#next = at + 1;
      yield member;
    }
    if (!hasSuspect) return;
    const witness = this.#witness(nowMs);
    if (witness !== undefined && mayProbe(witness)) yield witness;
  }

  /** The one that answered last: it shows whether this node reaches any endpoint. */
  #witness(nowMs: number): One | undefined {
    let last: One | undefined;
    for (const member of this.#members) {
      if (this.isOut(member) || member.evidence.unanswered() > 0) continue;
      if (member.evidence.answeredMs > (last?.evidence.answeredMs ?? Number.NEGATIVE_INFINITY)) {
        last = member;
      }
    }
    return last !== undefined && nowMs - last.evidence.answeredMs >= othersMs ? last : undefined;
  }

  #fails(member: One, latest: readonly One[], nowMs: number): boolean {
    const { evidence } = member;
    if (this.isOut(member) || !this.isSilent(member) || member.exempt !== undefined) return false;
    const sinceMs = evidence.silentSinceMs ?? nowMs - patienceMs;
    return latest.some((other) => {
      return other !== member && other.evidence.answeredMs >= sinceMs + othersMs;
    });
  }

  /** Of those that are not ejected, the two that answered last. */
  #latest(): readonly One[] {
    let [first, second]: (One | undefined)[] = [];
    for (const member of this.#members) {
      if (this.isOut(member)) continue;
      const { answeredMs } = member.evidence;
      if (first === undefined || answeredMs > first.evidence.answeredMs) {
        second = first;
        first = member;
      } else if (second === undefined || answeredMs > second.evidence.answeredMs) second = member;
    }
    return [first, second].filter((one) => one !== undefined);
  }

  #eject(member: One, nowMs: number): void {
    const before = this.#outages.get(member)?.leastMs;
    const leastMs = before === undefined ? firstPauseMs : Math.min(2 * before, longestPauseMs);
    const outage = { sinceMs: nowMs, leastMs, probeMs: nowMs + leastMs, pauseMs: leastMs };
    // The longest ejection comes first.
    this.#outages.delete(member);
    this.#outages.set(member, { ...outage, backMs: undefined });
  }

  #returns(
    { evidence, exempt }: Member,
    { leastMs, sinceMs }: Outage,
    nowMs: number,
  ): 'answer' | 'trial' | 'exempt' | undefined {
    if (exempt !== undefined) return 'exempt';
    if (evidence.answeredMs >= sinceMs + leastMs) return 'answer';
    return nowMs - sinceMs >= trialMs ? 'trial' : undefined;
  }
}
