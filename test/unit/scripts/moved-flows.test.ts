/** Which failed connections a test on a cluster blames on the load balancer. */
import { describe, expect, it } from 'vitest';
import {
  countFailures,
  type FailedConnection,
  judge,
  readArrivals,
  readLists,
} from '../../cluster/moved-flows.ts';

const failure: FailedConnection = {
  ...{
    url: 'http://10.90.0.1/slow',
    message: 'read ECONNRESET',
    fromMs: 100_000,
    untilMs: 125_000,
  },
  ...{ source: '10.88.0.2', sourcePort: 43210, target: '10.90.0.1' },
};

/** As `conntrack -E -e NEW -o timestamp` prints it. */
function seen(seconds: string, port = 43210): string {
  return (
    `[${seconds}]\t    [NEW] tcp      6 120 SYN_SENT src=10.88.0.2 dst=10.90.0.1 sport=${port} ` +
    'dport=80 [UNREPLIED] src=10.244.1.3 dst=10.89.0.11 sport=8080 dport=61234\n'
  );
}

const lists = readLists('90.5 n1 n2\n124.6 n2\n');

describe('A failed connection', () => {
  it('was moved if a second node saw it after the balancer’s list had changed', () => {
    const arrivals = [
      ...readArrivals('n1', seen('99.000000', 1) + seen('100.010000')),
      ...readArrivals('n2', seen('124.900000')),
    ];
    expect(judge(failure, arrivals, lists)).toEqual({
      isMoved: true,
      evidence: [
        '00:01:40.010 its first packet at n1',
        '00:02:04.600 the balancer\'s list: "n1 n2" became "n2"',
        '00:02:04.900 its first packet at n2',
      ],
    });
  });

  it.each<[string, Record<string, string>, string]>([
    ['no other node saw it', { n1: seen('100.010000') }, '90.5 n1 n2\n124.6 n2\n'],
    [
      'the balancer’s list did not change',
      { n1: seen('100.010000'), n2: seen('124.900000') },
      '90.5 n1 n2\n',
    ],
    [
      'the list changed only before',
      { n1: seen('100.010000'), n2: seen('124.900000') },
      '90.5 n1 n2\n99.9 n2\n',
    ],
    [
      'its node had forgotten it, and routed it to another',
      { n1: seen('100.010000') + seen('124.800000'), n2: seen('124.900000') },
      '90.5 n1 n2\n124.6 n2\n',
    ],
    [
      'the other node saw an earlier connection from that port',
      { n1: seen('100.010000'), n2: seen('60.000000') },
      '90.5 n1 n2\n124.6 n2\n',
    ],
  ])('was not moved by the balancer if %s', (_, flows, printed) => {
    const arrivals = Object.entries(flows).flatMap(([node, text]) => readArrivals(node, text));
    expect(judge(failure, arrivals, readLists(printed)).isMoved).toBe(false);
  });
});

it('all failures of the last line are counted', () => {
  const line = (failures: object): string => `${JSON.stringify({ asked: 5, failures })}\n`;
  expect(countFailures(line({ a: 1 }) + line({ a: 2, b: 1 }))).toBe(3);
});
