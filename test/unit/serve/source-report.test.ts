import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { loggerTo } from '../../../src/serve/log.ts';
import { SourceReport } from '../../../src/serve/source-report.ts';
import type { Condition } from '../../../src/source/source.ts';
import { type Resource, resources } from '../../../src/state/change.ts';

const well: Condition = { silenceMs: 5, missingMs: undefined, failure: undefined };

function start() {
  const lines: Record<string, unknown>[] = [];
  const conditions: Partial<Record<Resource, Partial<Condition>>> = {};
  const problems: string[] = [];
  const report = new SourceReport({
    log: loggerTo(
      {
        write: (text) => {
          const { time: _, ...line } = JSON.parse(text);
          lines.push(line);
        },
      },
      0,
    ),
    source: {
      condition: (resource) => ({ ...well, ...conditions[resource] }),
      server: () => 'https://192.0.2.1:6443',
    },
    problem: ({ reason }) => problems.push(reason),
  });
  return { report, conditions, lines, problems };
}

describe('a missing first list', () => {
  it('is reported repeatedly, less often with time but at least every five minutes', () => {
    const { report, conditions, lines } = start();
    for (let seconds = 0; seconds <= 3600; seconds += 1) {
      conditions.services = { missingMs: seconds * 1000, failure: 'no, really' };
      report.check();
    }
    const told = lines.map(({ level, seconds }) => `${level} ${seconds}`);
    expect(told.slice(0, 8)).toEqual([
      'warn 10',
      'warn 20',
      'warn 40',
      'error 80',
      'error 160',
      'error 320',
      'error 620',
      'error 920',
    ]);
    expect(told).toHaveLength(16);
    expect(lines[0]).toEqual({
      level: 'warn',
      resource: 'services',
      seconds: 10,
      err: 'no, really',
      msg: 'Still waiting for the first list',
    });
  });

  it('is reported without a reason while there was no error', () => {
    const { report, conditions, lines } = start();
    conditions.nodes = { missingMs: 10_000 };
    report.check();
    expect(lines.map(({ err }) => err)).toEqual(['the API server has not answered yet']);
  });
});

describe('a silent watch', () => {
  it('is reported, and again when it becomes silent again', () => {
    const { report, conditions, lines } = start();
    const tell = (silenceMs: number): void => {
      conditions.endpointslices = { silenceMs, failure: 'cut' };
      report.check();
    };
    for (const seconds of [119, 121, 122, 200, 243, 5, 121]) tell(seconds * 1000);
    expect(lines.map(({ level, seconds, msg }) => `${level} ${seconds} ${msg}`)).toEqual([
      'error 121 Watch is silent',
      'error 243 Watch is silent',
      'info 243 Watch delivers again',
      'error 121 Watch is silent',
    ]);
  });
});

it.each([
  [10_000, 70_000],
  [9999, 60_000],
])(
  'a process that was stopped for %i ms reports silent watches at %i: it may read pending data',
  async (stoppedMs, atMs) => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { report, conditions, lines } = start();
    const over = new AbortController();
    const running = report.run(over.signal);
    // The clock continues without timers, as for a process that is stopped.
    const now = performance.now.bind(performance);
    vi.spyOn(performance, 'now').mockImplementation(() => now() + stoppedMs);
    conditions.services = { silenceMs: 180_000 };
    await vi.advanceTimersByTimeAsync(atMs - 1000);
    expect(lines).toEqual([]);
    await vi.advanceTimersByTimeAsync(2000);
    expect(lines.map(({ msg }) => msg)).toEqual(['Watch is silent']);
    over.abort();
    await running;
  },
);

it('a silent watch is reported when it has been silent for too long, without earlier checks', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { report, conditions, lines } = start();
  const startedMs = performance.now();
  const seconds = (): number => (performance.now() - startedMs) / 1000;
  Object.defineProperty(conditions, 'services', { get: () => ({ silenceMs: 1000 * seconds() }) });
  const checks = vi.spyOn(report, 'check');
  const over = new AbortController();
  const running = report.run(over.signal);
  await vi.advanceTimersByTimeAsync(119_000);
  expect(checks.mock.calls.length).toBeLessThan(5);
  expect(lines).toEqual([]);
  await vi.advanceTimersByTimeAsync(3000);
  expect(lines.map(({ msg }) => msg)).toEqual(['Watch is silent']);
  over.abort();
  await running;
});

it('the list method is logged once, and when it changes', () => {
  const { report, lines } = start();
  const list = { resource: 'services', reason: undefined } as const;
  report.listed({ ...list, method: 'streaming', result: 'failed', reason: 'no such thing' });
  report.listed({ ...list, method: 'paged', result: 'complete', reason: 'no such thing' });
  report.listed({ ...list, method: 'paged', result: 'complete' });
  report.listed({ ...list, method: 'streaming', result: 'complete' });
  report.listed({ ...list, method: 'streaming', result: 'complete' });
  expect(lines).toEqual([
    {
      level: 'warn',
      resource: 'services',
      method: 'paged',
      err: 'no such thing',
      msg: 'Falling back to list method',
    },
    { level: 'info', resource: 'services', method: 'streaming', msg: 'Using list method' },
  ]);
});

describe('an outage of the API server', () => {
  const fail = (conditions: ReturnType<typeof start>['conditions'], failure?: string): void => {
    for (const resource of resources) conditions[resource] = { ...well, failure };
  };
  const server = 'https://192.0.2.1:6443';

  it('has a begin, a report from time to time, and an end, each of one line', () => {
    // Without a fraction: what has passed is compared with whole seconds.
    const begin = Math.ceil(performance.now());
    let passedMs = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => begin + passedMs);
    const { report, conditions, lines, problems } = start();
    onTestFinished(() => void vi.restoreAllMocks());
    fail(conditions, 'cut');
    for (const resource of resources) {
      report.problem({ subject: `${resource} watch`, field: undefined, reason: 'cut' });
    }
    for (; passedMs < 400_000; passedMs += 1000) {
      report.check();
      if (passedMs === 2000) fail(conditions, 'cannot reach');
    }
    fail(conditions);
    report.check();
    report.check();
    expect(lines).toEqual([
      { level: 'warn', server, err: 'cut', msg: 'Lost the API server; rules stay in force' },
      ...[120, 240].map((seconds) => ({
        ...{ level: 'error', server, err: 'cannot reach', seconds },
        msg: 'API server still does not answer; changes are missing',
      })),
      { level: 'info', server, seconds: 400, msg: 'API server answers again' },
    ]);
    expect(problems).toEqual([]);
  });

  it('is not meant where one watch fails, or one is not used', () => {
    const { report, conditions, lines, problems } = start();
    conditions.nodes = { failure: 'Forbidden' };
    report.problem({ subject: 'nodes watch', field: undefined, reason: 'Forbidden' });
    report.check();
    expect([lines, problems]).toEqual([[], ['Forbidden']]);
    fail(conditions, 'cut');
    conditions.servicecidrs = { silenceMs: undefined };
    report.check();
    expect(lines.map(({ msg }) => msg)).toEqual(['Lost the API server; rules stay in force']);
  });

  it('is noticed within two seconds, and where watches fail one after the other', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { report, conditions, lines, problems } = start();
    const over = new AbortController();
    const running = report.run(over.signal);
    for (const resource of resources) {
      await vi.advanceTimersByTimeAsync(200);
      conditions[resource] = { failure: 'cut' };
      report.problem({ subject: `${resource} watch`, field: undefined, reason: 'cut' });
    }
    await vi.advanceTimersByTimeAsync(2000);
    expect(lines.map(({ msg }) => msg)).toEqual(['Lost the API server; rules stay in force']);
    expect(problems).toEqual([]);
    over.abort();
    await running;
  });
});
