/** Compares outcomes with what a story expects, and describes differences. Pure. */
import { ACTORS, type ActorName, addressesOf, familyOf } from './addresses.ts';
import type { Outcome, Tally } from './outcome.ts';
import type { Expectation, SeenSource } from './story.ts';

type Answered = Extract<Outcome, { kind: 'answered' }>;

/** `problems` make a step fail; `missing` servers may still come with more connections. */
export interface Verdict {
  readonly problems: readonly string[];
  readonly missing: readonly string[];
}

export function judge(expectation: Expectation, tally: Tally): Verdict {
  const outcomes = tally.map(({ outcome }) => outcome);
  if (expectation.kind === 'answered') return judgeAnswers(expectation, outcomes);
  if (expectation.kind === 'some-reset') return judgeSomeReset(expectation.by, outcomes);
  const wrong = outcomes.filter((outcome) => !matches(expectation, outcome));
  return { problems: wrong.map(describeOutcome), missing: [] };
}

/** Adds up the counts of two rounds. */
export function mergeTallies(a: Tally, b: Tally): Tally {
  const counts = new Map<string, number>();
  for (const { count, outcome } of [...a, ...b]) {
    const key = JSON.stringify(outcome);
    counts.set(key, (counts.get(key) ?? 0) + count);
  }
  return Array.from(counts, ([key, count]) => ({ count, outcome: JSON.parse(key) as Outcome }));
}

type NotAnswered = Exclude<Expectation, { kind: 'answered' | 'some-reset' }>;

function matches(expectation: NotAnswered, outcome: Outcome): boolean {
  switch (expectation.kind) {
    case 'silence':
      return outcome.kind === 'timeout';
    case 'refused':
      return outcome.kind === 'reset' || isPortUnreachable(outcome);
    case 'unreachable':
      return outcome.kind === 'unreachable' && outcome.icmp === expectation.icmp;
    default:
      return outcome.kind === expectation.kind;
  }
}

/** Other ICMP errors have other causes: a routing loop, or a missing route. */
function isPortUnreachable(outcome: Outcome): boolean {
  return outcome.kind === 'unreachable' && outcome.icmp === 'port-unreachable';
}

function judgeAnswers(
  { by, spread }: Extract<Expectation, { kind: 'answered' }>,
  outcomes: readonly Outcome[],
): Verdict {
  const problems: string[] = [];
  const seen = new Set<string>();
  for (const outcome of outcomes) {
    if (outcome.kind !== 'answered') {
      problems.push(describeOutcome(outcome));
      continue;
    }
    const expected = Object.keys(by).find((server) => isServer(server, outcome));
    if (expected === undefined) {
      problems.push(`${outcome.by}:${outcome.port} must not answer`);
      continue;
    }
    seen.add(expected);
    if (!isSeenSource(by[expected]!, outcome)) {
      const wanted = describeSource(by[expected]!);
      problems.push(`${expected} saw ${whose(outcome)}, expected ${wanted}`);
    }
  }
  if (spread === 'one' && seen.size > 1) {
    problems.push(`one server was to answer every time, not ${[...seen].join(' and ')}`);
  }
  const missing = spread === 'every' ? Object.keys(by).filter((server) => !seen.has(server)) : [];
  return { problems, missing };
}

function judgeSomeReset(server: string, outcomes: readonly Outcome[]): Verdict {
  const isExpected = (outcome: Outcome): boolean =>
    outcome.kind === 'reset' || (outcome.kind === 'answered' && isServer(server, outcome));
  const problems = outcomes.filter((outcome) => !isExpected(outcome)).map(describeOutcome);
  const wasReset = outcomes.some(({ kind }) => kind === 'reset');
  return { problems: wasReset ? problems : [...problems, 'no connection was reset'], missing: [] };
}

function isServer(expected: string, { by, port }: Answered): boolean {
  return expected === by || expected === `${by}:${port}`;
}

function isSeenSource(expected: SeenSource, { source, own }: Answered): boolean {
  switch (expected) {
    case 'any':
      return true;
    case 'own':
      return source === own;
    case 'node':
      return addressesOf('node').includes(source);
    default:
      return source === expected[familyOf(source)];
  }
}

function describeSource(source: SeenSource): string {
  switch (source) {
    case 'any':
      return 'any address';
    case 'own':
      return "the client's own address";
    case 'node':
      return "the node's address";
    default:
      return `${source.IPv4} or ${source.IPv6}`;
  }
}

/** `10.244.1.1 (an address of node)`. The client's own address is described as such. */
function whose({ source, own }: Answered): string {
  if (source === own) return `${source} (the client's own)`;
  const holder = ACTORS.find((actor: ActorName) => addressesOf(actor).includes(source));
  return holder === undefined ? source : `${source} (an address of ${holder})`;
}

export function describeExpectation(expectation: Expectation): string {
  switch (expectation.kind) {
    case 'answered': {
      const servers = Object.entries(expectation.by).map(
        ([server, source]) => `${server} seeing ${describeSource(source)}`,
      );
      const quantity = { every: 'all of', one: 'always the same of', any: 'any of' };
      const choice = servers.length > 1 ? `${quantity[expectation.spread]} ` : '';
      return `answered by ${choice}${servers.join(', ')}`;
    }
    case 'unreachable':
      return `ICMP ${expectation.icmp}`;
    case 'some-reset':
      return `reset at least once, otherwise answered by ${expectation.by}`;
    case 'refused':
      return 'refused by a reset or ICMP port-unreachable';
    default:
      return expectation.kind;
  }
}

export function describeOutcome(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'answered':
      return `answered by ${outcome.by}:${outcome.port} seeing ${whose(outcome)}`;
    case 'unreachable':
      return `ICMP ${outcome.icmp} from ${outcome.from}`;
    case 'timeout':
      return 'silence';
    case 'error':
      return `not sent: ${outcome.detail}`;
    default:
      return outcome.kind;
  }
}

export function describeTally(tally: Tally): string {
  return tally.map(({ count, outcome }) => `${count} × ${describeOutcome(outcome)}`).join(', ');
}
