import { describe, expect, it } from 'vitest';
import { ClusterEvents } from '../../../src/serve/cluster-events.ts';
import { loggerTo } from '../../../src/serve/log.ts';
import { ReportLimiter } from '../../../src/serve/report-limiter.ts';
import { Reporter } from '../../../src/serve/reporter.ts';
import type { ClusterEvent } from '../../../src/source/kubernetes/event-queue.ts';
import { formatExternalIPNotice } from '../../../src/state/external-ips.ts';
import { address } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';

function rig() {
  const lines: Record<string, unknown>[] = [];
  const told: ClusterEvent[] = [];
  const clock = new ToyClock();
  const counted = { leftOut: 0 };
  const reporter = new Reporter({
    log: loggerTo({ write: (line) => lines.push(JSON.parse(line)) }, 0),
    events: new ClusterEvents({
      sink: { record: (event) => told.push(event) },
      nodeName: 'here',
      uidOf: () => '',
    }),
    clock,
    leftOut: (count) => {
      counted.leftOut += count;
    },
  });
  return { lines, told, clock, counted, reporter };
}

function conflict(name: string, port: string) {
  const loser = { namespace: 'shop', name, port, protocol: 'TCP' } as const;
  const text = `${name}:${port} does not get TCP 203.0.113.1:80`;
  return { kind: 'conflict', service: `shop/${name}`, port: loser, text } as const;
}

describe('a report about an external IP', () => {
  it.each([
    ['cidrs', 'ExternalIPNotAllowed', 'External IP is not allowed', '--external-ip-cidrs'],
    ['namespaces', 'ExternalIPNotAllowed', 'External IP is not allowed', 'does not name shop'],
    ['node', 'ExternalIPOfNode', 'External IP is an address of this node', 'of this node'],
  ] as const)('is in the log and in an Event: %s', (because, reason, msg, words) => {
    const { lines, reporter, told } = rig();
    const notice = { service: 'shop/web', address: address('203.0.113.1'), because };
    const text = formatExternalIPNotice(notice);
    const kind = because === 'node' ? 'external-ip-of-node' : 'external-ip';
    reporter.sync({ kind, service: 'shop/web', text });
    const err = expect.stringMatching(new RegExp(`^external IP 203.0.113.1 is .*${words}`));
    expect(lines).toMatchObject([{ level: 'warn', msg, service: 'shop/web', err }]);
    const where = because === 'node' ? 'node here: ' : '';
    const note = expect.stringMatching(`^${where}external IP 203.0.113.1 is `);
    const regarding = { kind: 'Service', namespace: 'shop', name: 'web' };
    expect(told).toMatchObject([{ type: 'Warning', reason, regarding, note }]);
  });
});

it('objects that a comparison has corrected are not reported as unreadable', () => {
  const { lines, reporter } = rig();
  reporter.problem({ subject: 'pods watch', field: undefined, reason: '', corrected: 2 });
  expect(lines).toMatchObject([{ corrected: 2, msg: expect.stringMatching('^Corrected ') }]);
});

describe('an endpoint that does not answer, or answers again', () => {
  it('is in the log, and in no Event: who names it may not be who has it', async () => {
    const { clock, counted, lines, reporter, told } = rig();
    const of = { service: 'shop/web', family: 'IPv4', port: 'http', protocol: 'TCP' } as const;
    const changes = [
      { kind: 'ejected', unanswered: 8 },
      { kind: 'returned', outMs: 1000, because: 'answer' },
    ] as const;
    for (let i = 0; i < 20; i += 1) {
      const endpoint = `10.9.2.${i}:5001`;
      for (const change of changes) reporter.endpointHealth({ ...of, endpoint, change });
    }
    await clock.pass(60_000);
    expect(lines[0]).toMatchObject({ service: 'shop/web', endpoint: '10.9.2.0:5001' });
    expect(lines).toContainEqual(
      expect.objectContaining({ subject: 'endpoints shop/web', reason: 'endpoint ejected' }),
    );
    expect(counted.leftOut).toBe(20);
    expect(told).toEqual([]);
  });
});

describe('the note of an Event about a Service', () => {
  it('has nothing that moves a cursor or ends a line', () => {
    const { reporter, told } = rig();
    const reason = 'must be one of random, is "\u001b[2J\u001b]0;title\u0007\nWarning  \u202e"';
    reporter.problem({ subject: 'Service shop/web', field: 'spec.type', reason });
    expect(told).toHaveLength(1);
    expect(told[0]!.note).toMatch(/^[ -~]+$/);
    expect(told[0]!.note).toContain('\\u001b[2J');
  });
});

describe('the number of reports about one Service', () => {
  it('is limited for each reason, counted above the limit, and reset in the next period', async () => {
    const { lines, told, clock, counted, reporter } = rig();
    for (let i = 0; i < 4000; i += 1) reporter.sync(conflict('web', `p${i}`));
    reporter.sync({ kind: 'unresolvable', service: 'shop/web', text: 'no' });
    reporter.sync(conflict('cart', 'http'));
    expect(lines).toHaveLength(12);
    expect(told).toHaveLength(12);
    expect(lines[9]).toMatchObject({ service: 'shop/web', port: 'p9/TCP' });

    await clock.pass(59_999);
    expect(lines).toHaveLength(12);
    await clock.pass(1);
    expect(lines).toHaveLength(13);
    expect(lines[12]).toMatchObject({
      level: 'warn',
      subject: 'shop/web',
      reason: 'conflict',
      count: 3990,
      msg: 'Suppressed repeated reports',
    });
    expect(told[12]).toMatchObject({
      type: 'Warning',
      reason: 'ReportsLeftOut',
      regarding: { kind: 'Service', namespace: 'shop', name: 'web' },
      note: 'node here: more of "conflict" were left out; the log of the node has their number',
    });
    expect(counted.leftOut).toBe(3990);

    reporter.sync(conflict('web', 'p0'));
    expect(lines).toHaveLength(14);
    await clock.pass(120_000);
    expect(lines).toHaveLength(14);
  });

  it('is limited for each field, for all elements of a list together', async () => {
    const { lines, told, clock, reporter } = rig();
    const subject = 'Service shop/web';
    for (let i = 0; i < 100; i += 1) {
      reporter.problem({ subject, field: `spec.ports[${i}].port`, reason: 'is missing' });
    }
    reporter.problem({ subject, field: 'spec.type', reason: 'is strange' });
    expect(lines).toHaveLength(11);
    await clock.pass(60_000);
    expect(lines[11]).toMatchObject({
      subject,
      reason: 'source spec.ports[].port',
      count: 90,
    });
    expect(told.at(-1)).toMatchObject({ reason: 'ReportsLeftOut', regarding: { name: 'web' } });
  });

  it('is limited for health check node ports', () => {
    const { lines, reporter } = rig();
    const failed = { kind: 'failed', service: 'shop/web', port: 30100 } as const;
    for (let i = 0; i < 50; i += 1) {
      reporter.serviceHealth({ ...failed, error: new Error('taken'), retryMs: 0 });
    }
    expect(lines).toHaveLength(10);
  });

  it('does not limit Events that are not about a Service', () => {
    const { lines, reporter } = rig();
    for (let i = 0; i < 50; i += 1) {
      const drift = { missing: 1, wrong: 0, unwanted: 0 };
      reporter.sync({ kind: 'drift', family: 'IPv4', purpose: 'audit', drift, writers: 'others' });
    }
    expect(lines).toHaveLength(50);
  });

  it('is reported before the process ends', () => {
    const { lines, reporter } = rig();
    for (let i = 0; i < 12; i += 1) reporter.sync(conflict('web', `p${i}`));
    reporter.close();
    expect(lines.at(-1)).toMatchObject({ count: 2 });
  });
});

function limited() {
  const clock = new ToyClock();
  const leftOut: [string, string, number][] = [];
  const limiter = new ReportLimiter({ clock, leftOut: (...what) => leftOut.push(what) });
  return { clock, leftOut, limiter };
}

describe('the report limiter', () => {
  it('counts a bounded number of subjects of a namespace: its others share one limit', async () => {
    const { clock, leftOut, limiter } = limited();
    let admitted = 0;
    for (let i = 0; i < 50_000; i += 1) {
      if (limiter.admits(`shop/web-${i}`, 'conflict')) admitted += 1;
    }
    expect(admitted).toBe(110);
    expect(limiter.size).toBe(101);
    await clock.pass(60_000);
    expect(leftOut).toEqual([['others in shop', 'conflict', 49_890]]);
    expect(limiter.size).toBe(0);
  });

  it('counts a bounded number of all: beyond it a namespace has one limit, then all have', async () => {
    const { clock, leftOut, limiter } = limited();
    let admitted = 0;
    for (let i = 0; i < 50_000; i += 1) {
      if (limiter.admits(`tenant-${i % 5000}/web-${i}`, 'conflict')) admitted += 1;
    }
    expect(admitted).toBe(1000 + 1000 * 10 + 10);
    expect(limiter.size).toBe(2001);
    await clock.pass(60_000);
    expect(leftOut.at(-1)).toEqual(['others', 'conflict', 38_990]);
  });

  it.each([
    ['Services', 'shop/web', (i: number) => `tenant/web-${i}`],
    ['objects', 'Service shop/web', (i: number) => `EndpointSlice tenant/web-${i}`],
    ['files', 'Service shop/web (a.yaml:3)', (i: number) => `Service tenant/web-${i} (b.yaml:1)`],
    ['the node', 'services watch', (i: number) => `tenant/web-${i}`],
  ])('keeps reports of others where a namespace has thousands: of %s', (_, other, ofTenant) => {
    const { limiter } = limited();
    for (let i = 0; i < 5000; i += 1) limiter.admits(ofTenant(i), `reason-${i % 7}`);
    for (let i = 0; i < 5000; i += 1) limiter.admits(ofTenant(i), 'conflict');
    const admitted = Array.from({ length: 11 }, () => limiter.admits(other, 'conflict'));
    expect(admitted.filter((one) => one)).toHaveLength(10);
  });
});
