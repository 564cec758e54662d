import { describe, expect, test } from 'vitest';
import { CLIENT_IP, NODE_BRIDGE_IP, POD_B_IP } from '../../lab/addresses.ts';
import { describeTally, judge, mergeTallies } from '../../lab/expectation.ts';
import type { Outcome, Tally } from '../../lab/outcome.ts';
import {
  answered,
  answeredByAny,
  answeredByOne,
  chosenAgain,
  closed,
  type Expectation,
  refused,
  reset,
  silence,
  unreachable,
} from '../../lab/story.ts';

const OWN = CLIENT_IP.IPv4;
const MASQUERADED = NODE_BRIDGE_IP.IPv4;

function by(server: string, source: string, port = 8080): Outcome {
  return { kind: 'answered', by: server, port, source, own: OWN };
}

function once(...outcomes: Outcome[]): Tally {
  return outcomes.map((outcome) => ({ count: 1, outcome }));
}

const NOTHING_WRONG = { problems: [], missing: [] };

describe('the expectation of a story about servers', () => {
  test('reports servers as missing, not wrong, until they have answered', () => {
    const verdict = judge(answered({ 'pod-a': 'own', 'pod-b': 'own' }), once(by('pod-a', OWN)));
    expect(verdict).toEqual({ problems: [], missing: ['pod-b'] });
  });

  test('accepts optional servers that do not answer', () => {
    const either = { 'pod-a': 'own', 'pod-b': 'own' } as const;
    expect(judge(answeredByAny(either), once(by('pod-a', OWN)))).toEqual(NOTHING_WRONG);
    expect(judge(answeredByOne(either), once(by('pod-a', OWN)))).toEqual(NOTHING_WRONG);
  });

  test('rejects turns if one server must answer every time', () => {
    const verdict = judge(
      answeredByOne({ 'pod-a': 'own', 'pod-b': 'own' }),
      once(by('pod-a', OWN), by('pod-b', OWN)),
    );
    expect(verdict.problems).toEqual(['one server was to answer every time, not pod-a and pod-b']);
  });

  test('rejects unexpected servers', () => {
    const verdict = judge(answered({ 'pod-a': 'own' }), once(by('pod-a', OWN), by('pod-c', OWN)));
    expect(verdict.problems).toEqual(['pod-c:8080 must not answer']);
  });

  test('may name servers with their port, and then rejects other ports', () => {
    const onlyOne = answered({ 'pod-a:8081': 'own' });
    expect(judge(onlyOne, once(by('pod-a', OWN, 8081)))).toEqual(NOTHING_WRONG);
    expect(judge(onlyOne, once(by('pod-a', OWN, 8080))).problems).toEqual([
      'pod-a:8080 must not answer',
    ]);
  });
});

describe('the expectation of a story about source addresses', () => {
  test.each([
    { expected: 'own', source: OWN, right: true },
    { expected: 'own', source: MASQUERADED, right: false },
    { expected: 'node', source: MASQUERADED, right: true },
    { expected: 'node', source: OWN, right: false },
    { expected: 'any', source: '192.0.2.77', right: true },
    { expected: NODE_BRIDGE_IP, source: MASQUERADED, right: true },
    { expected: NODE_BRIDGE_IP, source: NODE_BRIDGE_IP.IPv6, right: true },
    { expected: NODE_BRIDGE_IP, source: POD_B_IP.IPv4, right: false },
  ] as const)('accepts $source: $right, if $expected is expected', (each) => {
    const verdict = judge(answered({ 'pod-a': each.expected }), once(by('pod-a', each.source)));
    expect(verdict.problems.length === 0).toBe(each.right);
  });

  test('names the owner of a wrong address', () => {
    const verdict = judge(answered({ 'pod-a': 'own' }), once(by('pod-a', MASQUERADED)));
    expect(verdict.problems).toEqual([
      "pod-a saw 10.244.1.1 (an address of node), expected the client's own address",
    ]);
  });
});

describe('the expectation of a story about attempts without an answer', () => {
  const outcomes = {
    reset: { kind: 'reset' },
    closed: { kind: 'closed' },
    silence: { kind: 'timeout' },
    port: { kind: 'unreachable', icmp: 'port-unreachable', from: '192.168.10.1' },
    prohibited: { kind: 'unreachable', icmp: 'admin-prohibited', from: '192.168.10.1' },
    looped: { kind: 'unreachable', icmp: 'time-exceeded', from: '192.168.10.1' },
    answer: by('pod-a', OWN),
  } as const satisfies Record<string, Outcome>;

  const accepted: readonly [Expectation, readonly (keyof typeof outcomes)[]][] = [
    [reset, ['reset']],
    [closed, ['closed']],
    [silence, ['silence']],
    [unreachable(), ['port']],
    [unreachable('admin-prohibited'), ['prohibited']],
    [refused, ['reset', 'port']],
  ];

  test.each(accepted)('as in %o are met by %o and nothing else', (expectation, names) => {
    const right = Object.entries(outcomes)
      .filter(([, outcome]) => judge(expectation, once(outcome)).problems.length === 0)
      .map(([name]) => name);
    expect(right).toEqual(names);
  });

  test('reports each as wrong if an answer is expected', () => {
    const verdict = judge(answered({ 'pod-a': 'own' }), once(outcomes.answer, outcomes.silence));
    expect(verdict.problems).toEqual(['silence']);
  });
});

test('the affinity of a client ends when one of them is reset', () => {
  const reached = by('pod-a', OWN);
  const wasReset: Outcome = { kind: 'reset' };
  expect(judge(chosenAgain('pod-a'), once(reached, wasReset))).toEqual(NOTHING_WRONG);
  expect(judge(chosenAgain('pod-a'), once(reached, reached)).problems).toEqual([
    'no connection was reset',
  ]);
  expect(judge(chosenAgain('pod-a'), once(by('pod-b', OWN), wasReset)).problems).toHaveLength(1);
});

test('equal outcomes of two rounds are counted together', () => {
  const merged = mergeTallies(
    [{ count: 3, outcome: { kind: 'reset' } }],
    [
      { count: 2, outcome: { kind: 'reset' } },
      { count: 1, outcome: { kind: 'timeout' } },
    ],
  );
  expect(describeTally(merged)).toBe('5 × reset, 1 × silence');
});
