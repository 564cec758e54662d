/**
 * Which endpoints of one Service port get no new connections, and which come back. What happens to
 * an endpoint in one pool changes no other: each looks at the answers for itself. Pure.
 */
import type { EndpointKey } from '../net/endpoint-list.ts';
import { type EndpointChange, mostEjected } from '../state/detection.ts';
import { grownPart, growthStepMs } from '../state/growth.ts';
import { type Evidence, patienceMs } from './evidence.ts';

/** Attempts in a row without an answer. With a loss of 10 % that is one in a hundred million. */
export const attemptsLeast = 8;
/** Others must have answered this long after it stopped: they may have stopped, too. */
const othersMs = patienceMs / 2;
/** An endpoint is out for this time at least; each time it comes soon again, for twice as long. */
const firstPauseMs = 1000;
const longestPauseMs = 60_000;
/** This long after its return, the next time counts as the first one. */
const forgetMs = 600_000;
/** It is tried by clients again after this time, whether or not a probe has succeeded. */
const trialMs = 300_000;

/** One endpoint of a pool. */
export interface Member {
  readonly key: EndpointKey;
  /** `10.244.0.5:8080` */
  readonly text: string;
  readonly evidence: Evidence;
  /** Why no probe may be sent to it, and it always gets connections; undefined: one may. */
  readonly exempt: string | undefined;
}

/** An endpoint that is out, or was not long ago. */
interface Outage {
  readonly sinceMs: number;
  /** How often it was out, one soon after the other. */
  readonly times: number;
  /** When the next probe is due, and how long the pause after that one is. */
  probeMs: number;
  pauseMs: number;
  /** When it came back; undefined: it is out. */
  backMs: number | undefined;
}

export type Change = EndpointChange & { readonly member: Member };

interface PoolSettings {
  /** The most endpoints that are out, in percent. */
  readonly maxEjected: number;
  /** How long the share of one that comes back grows. */
  readonly growthMs: number;
}

export class Pool<One extends Member = Member> {
  #members: readonly One[] = [];
  readonly #outages = new Map<One, Outage>();
  /** With which member `suspects` begins: all have their turn. */
  #next = 0;

  get members(): readonly One[] {
    return this.#members;
  }

  /** Those that have gone are forgotten: when they come again, they are new. */
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

  /** The time at which it was left out; undefined: it is not out. */
  outSinceMs(member: One): number | undefined {
    return this.isOut(member) ? this.#outages.get(member)!.sinceMs : undefined;
  }

  /** Whether the endpoint answers nothing, as far as is known by now. */
  isSilent({ evidence }: Member): boolean {
    return evidence.unanswered() >= attemptsLeast;
  }

  /** Leaves endpoints out, and takes them back. */
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

  /** All endpoints get connections again. Resolves to whether some did not, or got less. */
  release(): boolean {
    const had = this.#outages.size > 0;
    this.#outages.clear();
    return had;
  }

  /** The part of its share that each endpoint has which has not all of it; 0: it is out. */
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

  /** Endpoints that are to be probed now, because much depends on their answer. */
  *suspects(nowMs: number): Generator<One> {
    let hasSuspect = false;
    const { length } = this.#members;
    const first = this.#next;
    for (let i = 0; i < length; i += 1) {
      const at = (first + i) % length;
      const member = this.#members[at]!;
      if (member.exempt !== undefined) continue;
      const outage = this.#outages.get(member);
      if (outage !== undefined && outage.backMs === undefined) {
        if (nowMs < outage.probeMs) continue;
        outage.probeMs = nowMs + outage.pauseMs;
        outage.pauseMs = Math.min(outage.pauseMs * 2, longestPauseMs);
      } else if (member.evidence.unanswered() >= 2) hasSuspect = true;
      else continue;
      this.#next = at + 1;
      yield member;
    }
    if (hasSuspect) yield* this.#witness(nowMs);
  }

  /** One that answered last, so that it is known whether it is the node that reaches nothing. */
  *#witness(nowMs: number): Generator<One> {
    let last: One | undefined;
    for (const member of this.#members) {
      if (member.exempt !== undefined || this.isOut(member)) continue;
      if (member.evidence.unanswered() > 0) continue;
      if (member.evidence.answeredMs > (last?.evidence.answeredMs ?? Number.NEGATIVE_INFINITY)) {
        last = member;
      }
    }
    if (last !== undefined && nowMs - last.evidence.answeredMs >= othersMs) yield last;
  }

  #fails(member: One, latest: readonly One[], nowMs: number): boolean {
    const { evidence, exempt } = member;
    if (exempt !== undefined || this.isOut(member) || !this.isSilent(member)) return false;
    const sinceMs = evidence.silentSinceMs ?? nowMs - patienceMs;
    return latest.some((other) => {
      return other !== member && other.evidence.answeredMs >= sinceMs + othersMs;
    });
  }

  /** Of those that are not out, the two that were the last to answer. */
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
    const before = this.#outages.get(member)?.times ?? 0;
    const pauseMs = Math.min(firstPauseMs * 2 ** before, longestPauseMs);
    const outage = { sinceMs: nowMs, times: before + 1, probeMs: nowMs + pauseMs, pauseMs };
    // The one that has been out for the longest comes first.
    this.#outages.delete(member);
    this.#outages.set(member, { ...outage, backMs: undefined });
  }

  #returns(
    { evidence }: Member,
    { sinceMs, times }: Outage,
    nowMs: number,
  ): 'answer' | 'trial' | undefined {
    const outMs = nowMs - sinceMs;
    const leastMs = Math.min(firstPauseMs * 2 ** (times - 1), longestPauseMs);
    if (outMs >= leastMs && evidence.answeredMs >= sinceMs + leastMs) return 'answer';
    return outMs >= trialMs ? 'trial' : undefined;
  }
}
