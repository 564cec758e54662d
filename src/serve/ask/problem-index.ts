/**
 * Which Services have problems. A Service is checked again when it was resolved since its last
 * check and a caller asks, so no caller has to check all Services. The check itself is
 * `problemsOf`.
 */
import { type ProblemReason, reasonNames } from '../../ask/problem-reasons.ts';
import { families } from '../../net/address.ts';
import { serviceKey } from '../../state/types.ts';
import { RecentResults } from '../../time/recent.ts';
import type { AgentState } from './agent-state.ts';
import { answerPacer, readingPatienceMs } from './answer-pacer.ts';
import { look } from './look.ts';
import type { KnownProblems, Problem, Subject } from './problem.ts';
import { ownProblems, type ProblemFacts } from './service-problems.ts';

/** How old checks may be that metrics show. */
const recentMs = 5000;
/** Metrics wait for the checks of as many Services. */
const awaitedMax = 500;
/** Checks of more begin after this time, since they delay the answer to a scrape. */
const laterMs = 500;
/**
 * How long the first check waits for readings of the kernel, for each Service: what is known only
 * later would have all checked again, and that takes as long.
 */
const firstPatienceMs = 0.1;

type Known = ProblemFacts & Pick<AgentState, 'machine' | 'secondProxy' | 'stoppedClients'>;

export class ProblemIndex implements KnownProblems {
  readonly #known: Known;
  readonly #checks: RecentResults<void>;
  readonly #recent: RecentResults<void>;
  /** Services that were resolved since their last check. */
  readonly #unchecked = new Set<string>();
  /** A bit for each reason that a Service has; Services without problems are absent. */
  readonly #reasons = new Map<string, number>();
  /** The number of Services by reason. */
  readonly #counts: number[] = reasonNames.map(() => 0);
  /** What is not of Services, with which all Services were checked; undefined: none was. */
  #surroundings: readonly unknown[] | undefined;
  /** All were checked once. */
  #isComplete = false;

  constructor(known: Known) {
    this.#known = known;
    this.#checks = new RecentResults(known);
    this.#recent = new RecentResults({ clock: known.clock, keepMs: recentMs });
  }

  /** The Service was resolved, or is gone. The first check is of all Services. */
  resolved(service: string): void {
    if (this.#surroundings === undefined) return;
    if (this.#known.state.service(service) !== undefined) {
      this.#unchecked.add(service);
      return;
    }
    // Names come and go for months, and perhaps no caller asks again.
    this.#unchecked.delete(service);
    this.#keep(service, []);
  }

  catchUp(): Promise<void> {
    this.#known.unanswered.asked();
    return this.#caughtUp();
  }

  #caughtUp(): Promise<void> {
    return this.#checks.of('', () => this.#catchUp());
  }

  async recentCounts(): Promise<KnownProblems['counts'] | undefined> {
    const isFirst = this.#surroundings === undefined;
    const left = isFirst ? this.#known.state.serviceCount : this.#unchecked.size;
    const { clock } = this.#known;
    if (left > awaitedMax) clock.after(laterMs, () => void this.#caughtUp().catch(() => {}));
    else await this.#recent.of('', () => this.#caughtUp());
    return this.#isComplete ? this.counts : undefined;
  }

  get withProblems(): ReadonlyMap<string, readonly ProblemReason[]> {
    const refused = this.#refused();
    const keys = new Set([...this.#reasons.keys(), ...refused]);
    return new Map(Array.from(keys, (key) => [key, this.#namesOf(key, refused)]));
  }

  get counts(): KnownProblems['counts'] {
    const refused = this.#refused();
    const byReason = new Map(reasonNames.map((name, i) => [name, this.#counts[i]!]));
    byReason.set('refused_by_kernel', refused.size);
    const others = Array.from(refused).filter((key) => !this.#reasons.has(key));
    return { services: this.#reasons.size + others.length, byReason };
  }

  check(subject: Subject): void {
    // It may have gone while an answer was made.
    if (this.#known.state.service(subject.service.key) === undefined) return;
    this.#keep(subject.service.key, ownProblems(this.#known, subject));
  }

  async #catchUp(): Promise<void> {
    const { connectionLimits, foreignRules, machine, sliceSurvey, state } = this.#known;
    const { secondProxy, stoppedClients, takenNodePorts, unanswered, unrouted } = this.#known;
    if (this.#known.engine === undefined) return;
    const isFirst = this.#surroundings === undefined;
    const patienceMs = readingPatienceMs + (isFirst ? firstPatienceMs * state.serviceCount : 0);
    await Promise.all([
      foreignRules.refresh(patienceMs).then(() => stoppedClients.refresh()),
      // The machine is looked at with the devices of routes.
      unrouted.refresh(patienceMs).then(() => machine.refresh()),
      ...[secondProxy, sliceSurvey, takenNodePorts, unanswered].map((one) => one.refresh()),
      connectionLimits.refusals.refresh(),
    ]);
    for (const key of this.#having('flapping')) this.#unchecked.add(key);
    const surroundings = [
      foreignRules.found,
      unrouted.found,
      [...(unrouted.podDevices ?? [])].join(),
      ...families.map((family) => state.serviceCIDRs(family)),
    ];
    const before = this.#surroundings;
    if (before === undefined || surroundings.some((one, i) => one !== before[i])) {
      this.#surroundings = surroundings;
      for (const key of state.serviceKeys()) this.#unchecked.add(key);
    }
    const pacer = answerPacer(this.#known);
    for (const key of Array.from(this.#unchecked)) {
      if (this.#known.engine === undefined) return;
      this.#unchecked.delete(key);
      const service = state.service(key);
      if (service === undefined) {
        this.#keep(key, []);
        continue;
      }
      const { resolved, seen } = await look(this.#known, service, pacer);
      // It may have changed during the pause; then it is checked again.
      if (state.service(key) !== service) continue;
      this.check({ service, seen, excess: resolved.excess });
      if (pacer.due) await pacer.rest();
    }
    this.#isComplete = true;
  }

  #having(reason: ProblemReason): string[] {
    const bit = 1 << reasonNames.indexOf(reason);
    return Array.from(this.#reasons).flatMap(([key, bits]) => ((bits & bit) === 0 ? [] : [key]));
  }

  #keep(service: string, problems: readonly Problem[]): void {
    let bits = 0;
    for (const { reason } of problems) bits |= 1 << reasonNames.indexOf(reason);
    const before = this.#reasons.get(service) ?? 0;
    if (bits === before) return;
    for (let i = 0; i < this.#counts.length; i += 1) {
      this.#counts[i]! += ((bits >> i) & 1) - ((before >> i) & 1);
    }
    if (bits === 0) this.#reasons.delete(service);
    else this.#reasons.set(service, bits);
  }

  #namesOf(service: string, refused: ReadonlySet<string>): readonly ProblemReason[] {
    const bits = this.#reasons.get(service) ?? 0;
    return reasonNames.filter((reason, i) => {
      return reason === 'refused_by_kernel' ? refused.has(service) : ((bits >> i) & 1) !== 0;
    });
  }

  /** Services of which the kernel rejects a port: there are few. */
  #refused(): ReadonlySet<string> {
    const refused = new Set<string>();
    for (const { quarantined } of this.#known.engine?.families ?? []) {
      for (const { forwarding } of quarantined) refused.add(serviceKey(forwarding.servicePort));
    }
    return refused;
  }
}
