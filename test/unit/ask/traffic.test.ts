import { describe, expect, it } from 'vitest';
import { trafficSchema } from '../../../src/ask/traffic.ts';
import { ratesOf } from '../../../src/cli/ask/top.ts';
import type { AgentState } from '../../../src/serve/ask/agent-state.ts';
import { trafficOf } from '../../../src/serve/ask/traffic.ts';
import type { ServiceTraffic } from '../../../src/serve/service-counters.ts';
import { ToyClock } from '../sync/double.ts';
import { problems } from './schema.ts';
import { item, reading } from './traffic.ts';

function counted(service: string, connections: number, refused = 0): ServiceTraffic {
  const sent = { tried: connections, answered: connections - 2, reset: 1 };
  return {
    ...{ family: 'IPv4', namespace: 'ns', service, port: 'http', protocol: 'TCP', connections },
    refusals: new Map([['no_endpoints', refused]]),
    endpoints: new Map([['10.244.0.2:8080', { connections, outcomes: sent }]]),
    outcomes: sent,
  };
}

function agentStateOf(
  services: readonly ServiceTraffic[] | undefined,
  serviceMetrics = false,
): AgentState {
  const clock = new ToyClock();
  const read = async () => services && { readAtMs: clock.now(), services };
  const state = { service: () => undefined, serviceKeys: () => ['ns/web'], unserved: new Map() };
  const serviceBytes = { bytesOf: () => undefined };
  const parts = { clock, state, counters: { read }, config: { serviceMetrics }, serviceBytes };
  return parts as unknown as AgentState;
}

async function trafficFor(query: string, services: readonly ServiceTraffic[]) {
  const traffic = await trafficOf(agentStateOf(services), new URLSearchParams(query));
  expect(problems(trafficSchema.json, traffic)).toEqual([]);
  return traffic;
}

describe('/fairlead/v1/traffic', () => {
  it('lists Service ports with traffic, and reasons of refusals', async () => {
    const { items } = await trafficFor('', [counted('web', 7, 2), counted('idle', 0)]);
    expect(items).toEqual([
      {
        ...{ namespace: 'ns', service: 'web', port: 'http', protocol: 'TCP', family: 'IPv4' },
        connections: 7,
        refusals: [{ reason: 'no_endpoints', packets: 2 }],
      },
    ]);
  });

  it('lists endpoints of the requested Service', async () => {
    const services = [counted('web', 7), counted('other', 1)];
    const { items } = await trafficFor('namespace=ns&service=web', services);
    expect(items).toMatchObject([
      {
        service: 'web',
        endpoints: [
          {
            ...{ endpoint: '10.244.0.2:8080', connections: 7 },
            outcomes: { tried: 7, answered: 5, reset: 1, unanswered: 1 },
          },
        ],
      },
    ]);
  });

  it('reports that the Service does not exist, and suggests a similar name', async () => {
    const asked = trafficFor('namespace=ns&service=wbe', []);
    await expect(asked).rejects.toMatchObject({
      status: 404,
      message: expect.stringMatching(
        /^this proxy serves no Service ns\/wbe: .*; did you mean ns\/web\?$/,
      ),
    });
    await expect(trafficFor('service=none', [])).rejects.toMatchObject({ status: 404 });
  });

  it('returns pages', async () => {
    const services = Array.from({ length: 5 }, (_, i) => counted(`web-${i}`, i));
    const names: string[] = [];
    let last: string | undefined = '1';
    for (let pages = 0; last !== undefined && pages < 9; pages += 1) {
      const page = await trafficFor(`limit=2&continue=${last}`, services);
      names.push(...page.items.map(({ service }) => service));
      last = page.continue;
    }
    expect(names).toEqual(['web-1', 'web-2', 'web-3', 'web-4']);
  });

  it.each([
    [false, /--service-metrics.*"serviceMetrics: true"/],
    [true, /^the proxy is starting/],
  ])('reports why there are no counters (serviceMetrics: %s)', async (serviceMetrics, reason) => {
    const asked = trafficOf(agentStateOf(undefined, serviceMetrics), new URLSearchParams());
    await expect(asked).rejects.toThrow(reason);
  });
});

describe('the rates of two readings', () => {
  it('are the differences per second', () => {
    const before = reading('10:00:00', [item('web', 100, 10)]);
    const after = reading('10:00:04', [item('web', 500, 30), item('new', 2)]);
    expect(ratesOf(before, after, 'connections')).toMatchObject({
      seconds: 4,
      items: [
        {
          ...{ service: 'web', connections: 500, connectionsPerSecond: 100 },
          refusals: [{ reason: 'no_endpoints', packetsPerSecond: 5 }],
          endpoints: [{ endpoint: '10.244.0.2:8080', connectionsPerSecond: 100 }],
        },
        { service: 'new', connectionsPerSecond: 0.5 },
      ],
    });
  });

  it('start at 0 again if the counter was reset', () => {
    const before = reading('10:00:00', [item('web', 100)]);
    const rates = ratesOf(before, reading('10:00:02', [item('web', 8)]), 'connections');
    expect(rates!.items).toMatchObject([{ connectionsPerSecond: 4 }]);
  });

  it.each([
    ['connections', ['a', 'c', 'b']],
    ['refusals', ['b', 'a', 'c']],
    ['name', ['a', 'b', 'c']],
  ] as const)('are sorted by %s', (sort, names) => {
    const items = [item('c', 5, 1), item('b', 1, 9), item('a', 9, 2)];
    const rates = ratesOf(reading('10:00:00', []), reading('10:00:02', items), sort);
    expect(rates!.items.map(({ service }) => service)).toEqual(names);
  });

  it('are undefined if the kernel was not read in between', () => {
    const same = reading('10:00:00', [item('web', 100)]);
    expect(ratesOf(same, same, 'connections')).toBeUndefined();
  });
});
