import { describe, expect, it } from 'vitest';
import { ProxyHealth } from '../../../src/serve/health.ts';
import { rfc3339Nano } from '../../../src/serve/health-answer.ts';
import type { Condition } from '../../../src/source/source.ts';
import type { Resource } from '../../../src/state/change.ts';
import type { Node } from '../../../src/state/types.ts';
import { node } from '../state/build.ts';

const startMs = Date.UTC(2026, 0, 2, 3, 4, 5);

function healthAt(known: Node | undefined = node()) {
  const time = { ms: startMs, jumpedMs: 0 };
  const silence: Partial<Record<Resource, number>> = {};
  const conditions: Partial<Record<Resource, Partial<Condition>>> = {};
  const condition = (resource: Resource) => ({
    silenceMs: silence[resource],
    missingMs: undefined,
    failure: undefined,
    ...conditions[resource],
  });
  const seen = {
    clock: { now: () => time.ms, wallMs: () => time.ms + time.jumpedMs },
    source: { condition },
    state: { node: known } as { node: Node | undefined },
    config: { healthzNodeShutdown: true },
    nodeListed: true,
    timeoutMs: 60_000,
    overLimit: 0,
    behindMs: 0,
  };
  const health = new ProxyHealth(seen);
  return { health, time, seen, silence, conditions };
}

describe('a jump of the clock', () => {
  const hoursMs = 5 * 3_600_000;

  it.each([hoursMs, -hoursMs])('by %d ms makes nothing overdue, and hides nothing', (jumpMs) => {
    const { health, time } = healthAt();
    health.updated('IPv4');
    health.queued('IPv4');
    time.jumpedMs += jumpMs;
    expect(health.answer('/livez').status).toBe(200);
    time.ms += 60_000;
    expect(health.answer('/livez').status).toBe(503);
    expect(JSON.parse(health.answer('/livez').body).currentTime).toBe(
      rfc3339Nano(time.ms + jumpMs),
    );
    time.jumpedMs -= 2 * jumpMs;
    expect(health.answer('/livez').status).toBe(503);
    health.updated('IPv4');
    expect(health.answer('/livez').status).toBe(200);
  });
});

describe('/readyz', () => {
  it('is healthy once every family that requested a sync has done its first one', () => {
    const { health, seen, time } = healthAt();
    expect(health.answer('/readyz').status).toBe(503);
    health.queued('IPv4');
    health.queued('IPv6');
    health.updated('IPv4');
    expect(health.answer('/readyz').status).toBe(503);
    health.updated('IPv6');
    expect(health.answer('/readyz')).toEqual(health.answer('/livez'));
    seen.state.node = node({ deleted: true });
    expect(health.answer('/readyz').status).toBe(200);
    health.queued('IPv6');
    time.ms += 60_000;
    expect(health.answer('/readyz').status).toBe(503);
  });
});

describe('/healthz', () => {
  it('has the body of kube-proxy, with its field order', () => {
    const { health, time } = healthAt();
    health.queued('IPv6');
    health.updated('IPv6');
    time.ms += 1500;
    health.updated('IPv4');
    time.ms += 250;
    expect(health.answer('/healthz')).toEqual({
      status: 200,
      headers: { 'Content-Type': 'application/json', 'X-Content-Type-Options': 'nosniff' },
      body:
        '{"lastUpdated":"2026-01-02T03:04:06.75Z","currentTime":"2026-01-02T03:04:06.75Z",' +
        '"nodeEligible":true,"healthy":true,"status":{' +
        '"IPv4":{"lastUpdated":"2026-01-02T03:04:06.5Z","healthy":true},' +
        '"IPv6":{"lastUpdated":"2026-01-02T03:04:05Z","healthy":true}}}',
    });
  });

  it('is healthy, without a status, before any family has reported', () => {
    const { health } = healthAt();
    expect(health.answer('/healthz').status).toBe(200);
    expect(health.answer('/healthz').body).toBe(
      '{"lastUpdated":"2026-01-02T03:04:05Z","currentTime":"2026-01-02T03:04:05Z",' +
        '"nodeEligible":true,"healthy":true}',
    );
  });

  it('is unhealthy if a sync of one family is overdue, whatever the other does', () => {
    const { health, time } = healthAt();
    health.updated('IPv4');
    time.ms += 10_000;
    health.queued('IPv4');
    time.ms += 30_000;
    health.queued('IPv4');
    time.ms += 29_999;
    expect(health.answer('/healthz').status).toBe(200);
    time.ms += 1;
    health.updated('IPv6');
    const { status, body } = health.answer('/healthz');
    expect(status).toBe(503);
    expect(JSON.parse(body)).toEqual({
      lastUpdated: '2026-01-02T03:05:15Z',
      currentTime: '2026-01-02T03:05:15Z',
      nodeEligible: true,
      healthy: false,
      status: {
        IPv4: { lastUpdated: '2026-01-02T03:04:05Z', healthy: false },
        IPv6: { lastUpdated: '2026-01-02T03:05:15Z', healthy: true },
      },
    });
    health.updated('IPv4');
    expect(health.answer('/healthz').status).toBe(200);
  });

  it('shows the time of the last update only while it is unhealthy', () => {
    const { health, time, seen } = healthAt();
    health.updated('IPv4');
    time.ms += 5000;
    expect(JSON.parse(health.answer('/healthz').body).lastUpdated).toBe('2026-01-02T03:04:10Z');
    seen.state.node = node({ deleted: true });
    expect(JSON.parse(health.answer('/healthz').body).lastUpdated).toBe('2026-01-02T03:04:05Z');
  });

  it('never becomes unhealthy while no sync is requested', () => {
    const { health, time } = healthAt();
    health.updated('IPv4');
    time.ms += 86_400_000;
    expect(health.answer('/healthz').status).toBe(200);
  });

  it.each([
    ['is unknown', undefined, 503],
    ['is being deleted', node({ deleted: true }), 503],
    ['is about to be scaled away', node({ taintKeys: ['ToBeDeletedByClusterAutoscaler'] }), 503],
    ['is shutting down', node({ isShuttingDown: true }), 503],
    ['has any other taint', node({ taintKeys: ['node.kubernetes.io/not-ready'] }), 200],
  ])('if the node %s', (_, known, status) => {
    const { health, seen } = healthAt();
    seen.state.node = known;
    health.updated('IPv4');
    const reply = health.answer('/healthz');
    expect(reply.status).toBe(status);
    expect(JSON.parse(reply.body)).toMatchObject({ nodeEligible: status === 200, healthy: true });
  });
});

it('has /healthz alone fail while no endpoint of another node answers', () => {
  const { health } = healthAt();
  health.updated('IPv4');
  health.isCutOff = true;
  expect([health.answer('/healthz').status, health.answer('/livez').status]).toEqual([503, 200]);
});

it('answers as kube-proxy does while the node shuts down, unless a setting says otherwise', () => {
  const { health, seen } = healthAt();
  seen.config.healthzNodeShutdown = false;
  seen.state.node = node({ isShuttingDown: true });
  health.updated('IPv4');
  expect(health.answer('/healthz').status).toBe(200);
});

describe('a missing first list in health answers', () => {
  it('is named with its reason, and does not change the health', () => {
    const { health, conditions } = healthAt();
    conditions.services = { missingMs: 12_345, failure: 'Unauthorized' };
    conditions.servicecidrs = { missingMs: 20 };
    for (const { status, body } of [health.answer('/healthz'), health.answer('/livez')]) {
      expect(status).toBe(200);
      expect(JSON.parse(body)).toMatchObject({
        missingLists: {
          services: { seconds: 12.345, reason: 'Unauthorized' },
          servicecidrs: { seconds: 0.02 },
        },
      });
    }
    conditions.services = {};
    conditions.servicecidrs = {};
    expect(health.answer('/livez').body).not.toContain('missingLists');
  });
});

describe('a silent watch in health answers', () => {
  it('is named with its silence, and makes no node unhealthy: it may be silent everywhere', () => {
    const { health, silence } = healthAt();
    silence.services = 120_000;
    silence.endpointslices = 120_001;
    for (const reply of [health.answer('/healthz'), health.answer('/livez')]) {
      expect(reply.status).toBe(200);
      const body = JSON.parse(reply.body);
      expect(body).toMatchObject({ healthy: true, staleWatches: { endpointslices: 120.001 } });
      expect(Object.keys(body.staleWatches)).toEqual(['endpointslices']);
    }
  });

  it('is not named once it receives events again', () => {
    const { health, silence } = healthAt();
    silence.nodes = 500_000;
    expect(health.answer('/livez').body).toContain('"staleWatches":{"nodes":500}');
    silence.nodes = 10;
    expect(health.answer('/livez').body).not.toContain('staleWatches');
  });
});

describe('a Service that exceeds its limits', () => {
  it('is counted in health answers, and does not make the node unhealthy', () => {
    const { health, seen } = healthAt();
    expect(health.answer('/livez').body).not.toContain('servicesOverLimit');
    seen.overLimit = 2;
    expect(health.answer('/healthz').status).toBe(200);
    expect(JSON.parse(health.answer('/livez').body)).toMatchObject({
      healthy: true,
      servicesOverLimit: 2,
    });
  });
});

describe('a node with more changes than it can write', () => {
  it('reports how far it is behind, and stays healthy', () => {
    const { health, seen } = healthAt();
    expect(health.answer('/livez').body).not.toContain('behindSeconds');
    seen.behindMs = 3210;
    for (const reply of [health.answer('/healthz'), health.answer('/livez')]) {
      expect(reply.status).toBe(200);
      expect(JSON.parse(reply.body)).toMatchObject({ healthy: true, behindSeconds: 3.21 });
    }
  });
});

describe('/livez', () => {
  it('does not depend on the Node', () => {
    const { health } = healthAt(node({ deleted: true }));
    health.updated('IPv4');
    const { status, body } = health.answer('/livez');
    expect(status).toBe(200);
    expect(Object.keys(JSON.parse(body))).toEqual([
      'lastUpdated',
      'currentTime',
      'healthy',
      'status',
    ]);
  });

  it('is unhealthy if a sync is overdue, even if none ever was done', () => {
    const { health, time } = healthAt();
    health.queued('IPv4');
    time.ms += 60_000;
    const { status, body } = health.answer('/livez');
    expect(status).toBe(503);
    expect(JSON.parse(body).lastUpdated).toBe('0001-01-01T00:00:00Z');
  });
});

describe('rfc3339Nano', () => {
  it.each([
    [0, '1970-01-01T00:00:00Z'],
    [10_000, '1970-01-01T00:00:10Z'],
    [1.5, '1970-01-01T00:00:00.0015Z'],
    [123.456, '1970-01-01T00:00:00.123456Z'],
    [999.9999, '1970-01-01T00:00:01Z'],
  ])('prints %d ms without trailing zeroes', (ms, text) => {
    expect(rfc3339Nano(ms)).toBe(text);
  });
});
