import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import type { ConntrackEvent } from '../../../src/conntrack/events.ts';
import { loggerTo } from '../../../src/serve/log.ts';
import { conntrackMetrics } from '../../../src/serve/metrics.ts';
import { conntrackLog, serviceHealthReport } from '../../../src/serve/part-reports.ts';
import { kernelRefusal, packedEntries } from '../../fake/conntrack.ts';

const of = { family: 'IPv4', protocol: 'UDP' } as const;
const deleted = packedEntries('IPv4', [
  { protocol: 'UDP', from: '172.16.0.9:4001', to: '10.96.0.10:53', answeredBy: '10.244.0.1:53' },
  { protocol: 'UDP', from: '172.16.0.9:4002', to: '10.96.0.10:53' },
]);
const reconciled = { kind: 'reconciled', ...of, durationMs: 30, examined: 9, deleted } as const;
const failed = { kind: 'failed', ...of, error: kernelRefusal('EPERM'), retryMs: 1000 } as const;

function logged(verbosity: number, ...events: ConntrackEvent[]): Record<string, unknown>[] {
  const lines: string[] = [];
  const observer = conntrackLog(loggerTo({ write: (line) => lines.push(line) }, verbosity));
  for (const event of events) observer(event);
  return lines.map((line) => {
    const { time: _, ...rest } = JSON.parse(line);
    return rest;
  });
}

it('metrics count deleted conntrack entries, durations and failures', async () => {
  const registry = new Registry();
  const observe = conntrackMetrics(registry);
  observe(reconciled);
  observe({ ...reconciled, deleted: deleted.slice(0, 1) });
  observe({ ...reconciled, isForAge: true });
  observe(failed);
  const lines = (await registry.metrics()).split('\n');
  const name = 'kubeproxy_conntrack_reconciler';
  expect(lines).toContain(`${name}_deleted_entries_total{ip_family="IPv4"} 3`);
  const bucket = (le: string) =>
    `${name}_sync_duration_seconds_bucket{le="${le}",ip_family="IPv4"}`;
  expect(lines).toContain(`${bucket('0.016')} 0`);
  expect(lines).toContain(`${bucket('0.032')} 3`);
  expect(lines).toContain('fairlead_old_connections_ended_total{ip_family="IPv4"} 2');
  expect(lines).toContain('fairlead_conntrack_failures_total{ip_family="IPv4"} 1');
});

it('each deleted conntrack entry is logged only at the highest verbosity', () => {
  expect(logged(0, reconciled)).toEqual([]);
  const fields = { ...of, examined: 9, deleted: 2, durationMs: 30 };
  expect(logged(2, reconciled)).toEqual([
    { level: 'debug', ...fields, msg: 'Conntrack cleanup done' },
  ]);
  expect(logged(4, reconciled).map(({ entry }) => entry)).toEqual([
    undefined,
    'UDP 172.16.0.9:4001 > 10.96.0.10:53, reply 10.244.0.1:53 > 172.16.0.9:4001',
    'UDP 172.16.0.9:4002 > 10.96.0.10:53, reply 10.96.0.10:53 > 172.16.0.9:4002',
  ]);
});

it('a refused conntrack cleanup is logged with the reason, and whether it is retried', () => {
  const end: ConntrackEvent = { ...failed, retryMs: undefined };
  expect(logged(0, failed, end)).toMatchObject([
    { level: 'warn', err: 'conntrack fake: refused (EPERM)', retryMs: 1000 },
    { msg: 'Could not clean up conntrack entries; leaving them' },
  ]);
});

it('the first conntrack cleanup after a failure is logged at info', () => {
  const lines = logged(0, failed, reconciled, reconciled);
  expect(lines.map(({ msg }) => msg).slice(1)).toEqual(['Conntrack cleanup done']);
});

it('a health-check node port is logged at info when it is opened after a failure', () => {
  const lines: string[] = [];
  const log = loggerTo({ write: (line) => lines.push(line) }, 0);
  const report = serviceHealthReport(log, { serviceHealthFailed: () => {} } as never);
  const port = { service: 'ns/web', port: 31_000 };
  const opened = { ...port, kind: 'opened', family: 'IPv4' } as const;
  report(opened);
  report({ ...port, kind: 'failed', error: new Error('taken'), retryMs: 1000 });
  report(opened);
  report(opened);
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual([
    'Could not listen on health-check node port; retrying',
    'Opened health-check node port',
  ]);
});
