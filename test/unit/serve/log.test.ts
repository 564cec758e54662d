import { describe, expect, it } from 'vitest';
import type { AgentEvent } from '../../../src/connect-time/maps/events.ts';
import { EndpointList } from '../../../src/net/endpoint-list.ts';
import { loggerTo, readable } from '../../../src/serve/log.ts';
import { syncLog } from '../../../src/serve/sync-log.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { committed } from './committed.ts';

const forwarding: Forwarding = {
  key: 'shop/cart:http/TCP',
  servicePort: { namespace: 'shop', name: 'cart', port: 'http', protocol: 'TCP' },
  family: 'IPv4',
  frontends: [],
  cluster: EndpointList.empty.IPv4,
  local: EndpointList.empty.IPv4,
  hairpin: EndpointList.empty.IPv4,
  serving: EndpointList.empty.IPv4,
  affinityTimeoutSeconds: 0,
  sourceRanges: [],
  nodeInSourceRanges: false,
  rulesOnly: false,
  healthCheckNodePort: 0,
};

const refused: AgentEvent = {
  kind: 'quarantined',
  family: 'IPv4',
  retryMs: 2000,
  quarantined: {
    key: 'shop/cart:http/TCP',
    forwarding,
    failure: { op: 1, entry: 0, code: 'EINVAL', message: 'Invalid argument' },
    attempts: 2,
    failedAtMs: 0,
    retryAtMs: 2000,
    inForce: undefined,
    isLeft: false,
  },
};

function logged(verbosity: number, ...events: AgentEvent[]): Record<string, unknown>[] {
  const lines: string[] = [];
  const observer = syncLog(loggerTo({ write: (line) => lines.push(line) }, verbosity));
  for (const event of events) observer(event);
  return lines.map((line) => {
    const { time: _, ...rest } = JSON.parse(line);
    return rest;
  });
}

describe('the log', () => {
  it('names the Service, its port, the family and the reason of a rejection', () => {
    expect(logged(0, refused)).toEqual([
      {
        level: 'error',
        service: 'shop/cart',
        port: 'http/TCP',
        family: 'IPv4',
        err: 'Invalid argument (EINVAL)',
        attempts: 2,
        retryMs: 2000,
        msg: 'Kernel rejected Service port; continuing without it',
      },
    ]);
  });

  it('names what the connect-time maps lack, and is silent about their audits', () => {
    const ofMaps = (of: AgentEvent): AgentEvent =>
      ({ kind: 'connect-time', family: 'IPv4', of }) as AgentEvent;
    const audited: AgentEvent = { kind: 'audited', family: 'IPv4', durationMs: 1 };
    expect(logged(9, ofMaps(audited), ofMaps(refused))).toMatchObject([
      {
        level: 'warn',
        service: 'shop/cart',
        msg: 'Kernel rejected Service port in connect-time maps; packet rules handle it',
      },
    ]);
  });

  it('warns of drift with its numbers, and does not warn of changes by a start', () => {
    const drift = { missing: 2, wrong: 1, unwanted: 0 };
    const event = { kind: 'drift', writers: 'others', family: 'IPv6', drift } as const;
    expect(logged(0, { ...event, purpose: 'audit' }, { ...event, purpose: 'start' })).toEqual([
      {
        level: 'warn',
        family: 'IPv6',
        purpose: 'audit',
        ...drift,
        msg: 'Repaired rules that another program changed',
      },
      {
        level: 'info',
        family: 'IPv6',
        added: 2,
        changed: 1,
        removed: 0,
        msg: 'Updated kernel state at start',
      },
    ]);
  });

  it('shows how long a change took, and the part of the kernel', () => {
    const [line] = logged(2, committed);
    expect(line).toMatchObject({ applyMs: 4, sinceChangeMs: 7 });
    expect(logged(2, { ...committed, stages: undefined })[0]).not.toHaveProperty('sinceChangeMs');
  });

  it('rounds times to meaningful digits', () => {
    const lines: Record<string, unknown>[] = [];
    const log = loggerTo({ write: (line) => lines.push(JSON.parse(line)) }, 0);
    log.info({ applyMs: 0.123456, durationMs: 98.7654321, retryMs: 12345.678, count: 1.5 }, '');
    expect(lines).toMatchObject([{ applyMs: 0.123, durationMs: 98.8, retryMs: 12346, count: 1.5 }]);
  });

  it('has lines for each sync only at a higher verbosity', () => {
    const done = {
      kind: 'done',
      family: 'IPv4',
      ok: true,
      healthy: true,
      durationMs: 1,
      workMs: 1,
    } as const;
    const events: AgentEvent[] = [
      { ...done, purpose: 'changes' },
      { kind: 'queued', family: 'IPv4' },
    ];
    expect(logged(0, ...events)).toHaveLength(0);
    expect(logged(2, ...events)).toHaveLength(1);
    expect(logged(4, ...events)).toHaveLength(2);
  });

  it('has no warning for an element that expired before its deletion', () => {
    const failures = [{ op: 0, entry: 0, code: 'ENOENT', message: 'No such file or directory' }];
    const event = { kind: 'failed', family: 'IPv4', failures, retryMs: 0 } as const;
    expect(logged(0, { ...event, purpose: 'sweep' })).toHaveLength(0);
    expect(logged(0, { ...event, purpose: 'changes' })).toHaveLength(1);
  });

  it('has no error for what another program changed during a sync', () => {
    const failures = [{ op: 0, entry: 0, code: 'ENOENT', message: 'No such file or directory' }];
    const event = { kind: 'failed', family: 'IPv4', purpose: 'audit', failures } as const;
    expect(logged(0, { ...event, retryMs: 0, isMoved: true })).toEqual([]);
    expect(logged(0, { ...event, retryMs: 0, isMoved: false })).toMatchObject([{ level: 'error' }]);
  });

  it('is readable on a terminal', () => {
    const lines: string[] = [];
    const stream = { write: (line: string) => lines.push(readable(line)) };
    loggerTo(stream, 0).warn({ service: 'shop/cart', retryMs: 5 }, 'Service is slow');
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3} warn {2}Service is slow service=shop\/cart retryMs=5$/,
    );
  });

  it('prevents values from forging other fields', () => {
    const text = (fields: object): string => {
      let found = '';
      const stream = { write: (line: string) => (found = readable(line)) };
      loggerTo(stream, 0).warn(fields, 'M');
      return found.slice(found.indexOf(' M ') + 3);
    };
    expect(text({ zone: 'a level=info' })).toBe('zone="a level=info"');
    expect(text({ zone: 'a=b', next: 1 })).toBe('zone="a=b" next=1');
    expect(text({ zone: 'say "x"' })).toBe('zone="say \\"x\\""');
    expect(text({ zone: '', next: true })).toBe('zone="" next=true');
    expect(text({ zone: 'a\tb\u00a0c' })).toBe('zone="a\\tb\u00a0c"');
    expect(text({ 'a b=c': 'x' })).toBe('"a b=c"=x');
    expect(text({ list: ['a b=c'] })).toBe('list=["a b=c"]');
    expect(text({ address: '[fd00::1]:80', who: 'ns/web:http/TCP' })).toBe(
      'address=[fd00::1]:80 who=ns/web:http/TCP',
    );
  });
});
