/** What looks at EndpointSlices and rules find, and how much they look at. */
import { describe, expect, it } from 'vitest';
import { Address, formatAddress, parseCIDR } from '../../../src/net/address.ts';
import { answerPacer } from '../../../src/serve/ask/answer-pacer.ts';
import { withAnswers } from '../../../src/serve/ask/endpoint-answers.ts';
import { serviceAddresses } from '../../../src/serve/ask/endpoint-problems.ts';
import { StoppedClients } from '../../../src/serve/ask/foreign-rules/stopped-clients.ts';
import { ownProblems, type ProblemFacts } from '../../../src/serve/ask/service-problems.ts';
import { SliceSurvey } from '../../../src/serve/ask/slice-survey.ts';
import { resolveInSteps, type Seen } from '../../../src/state/resolve.ts';
import { finish } from '../../../src/state/steps.ts';
import { ClusterState } from '../../../src/state/store.ts';
import { forwarding, pool } from '../modes/nftables/forwardings.ts';
import { context, ips, ready, service, slice } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';

const clusterCIDR = [parseCIDR('10.0.0.0/8')!];
const config = { clusterCIDR };
const problemIndex = { resolved: () => {} };

describe('a survey of EndpointSlices', () => {
  /** Services of one endpoint each, whose addresses count up to `count`, and begin again. */
  function surveyOf(services: number, count: number) {
    const [clock, state] = [new ToyClock(), new ClusterState()];
    for (let i = 0; i < services; i += 1) {
      const [key, name, n] = [`ns/web-${i}`, `web-${i}`, i % count];
      state.apply({ kind: 'service', service: service({ name }) });
      const of = { key, service: key, pods: String(1e9 + i).slice(-4) };
      state.apply({ kind: 'slice', slice: slice({ [`10.0.${n >> 8}.${n & 255}`]: ready }, of) });
    }
    return { clock, state, survey: new SliceSurvey({ clock, config, problemIndex, state }) };
  }

  it('names an address of two pods that it finds twice, ten seconds apart', async () => {
    const { clock, survey } = surveyOf(2, 1);
    const foundAfter = async (ms: number) => {
      await clock.pass(ms);
      await survey.refresh();
      return survey.problems('ns/web-0').map(({ text }) => text());
    };
    expect([await foundAfter(0), await foundAfter(9999)]).toEqual([[], []]);
    expect(await foundAfter(1)).toEqual([expect.stringMatching(/10\.0\.0\.0 .* of ns\/web-1: /)]);
  });

  it('compares all endpoints, however many passes that takes', async () => {
    const { clock, survey } = surveyOf(17_000, 16_990);
    await survey.refresh();
    await clock.pass(10_000);
    await survey.refresh();
    const last = [9, 10, 16_990, 16_999].map((i) => survey.problems(`ns/web-${i}`).length);
    expect(last).toEqual([1, 0, 1, 1]);
  });

  it('remembers 64 addresses of a Service from one survey to the next', async () => {
    const { clock, state, survey } = surveyOf(2, 1);
    const foundOf = async (addresses: readonly string[]): Promise<number> => {
      for (const [i, key] of ['ns/web-0', 'ns/web-1'].entries()) {
        const of = { key, service: key, pods: `pod${i}`.repeat(addresses.length) };
        const endpoints = Object.fromEntries(addresses.map((one) => [one, ready]));
        state.apply({ kind: 'slice', slice: slice(endpoints, of) });
      }
      await clock.pass(10_000);
      await survey.refresh();
      return survey.problems('ns/web-1').length;
    };
    const all = ips(65);
    const found = [await foundOf(all), await foundOf(all), await foundOf(all.slice(63))];
    expect([...found, await foundOf(all.slice(63))]).toEqual([0, 3, 1, 2]);
  });
});

it.each([
  [1, 100],
  [2000, 3],
  [20_000, 1],
])('of %i ports, %i endpoints each are looked up among addresses of Services', (ports, most) => {
  const { cluster: endpoints, ...rest } = forwarding('web', pool(...Array(200).keys()));
  const one = { candidates: { endpoints }, port: { protocol: 'TCP' }, forwarding: rest };
  const seen = Array(ports).fill(one) as Parameters<typeof serviceAddresses>[3];
  const foundAt = (i: number) => {
    const { key } = Address.from(endpoints.address(i));
    type Owners = Parameters<typeof serviceAddresses>[0]['owners'];
    const ownerOf: Owners['ownerOf'] = (_family, _protocol, { address }) =>
      address?.key === key ? 'ns/other' : undefined;
    const owners = { ownerOf, ownerInsteadOf: () => undefined };
    return serviceAddresses({ owners }, new ClusterState(), 'ns/web', seen).length;
  };
  expect([foundAt(most - 1), foundAt(most)]).toEqual([1, 0]);
});

it.each([
  [4095, 1],
  [4096, 0],
])('a problem of port %i of a Service, counted from 0: %i are found', (index, found) => {
  const state = new ClusterState();
  const web = service();
  const endpoints = slice({ '10.0.0.5': ready });
  state.apply({ kind: 'service', service: web });
  state.apply({ kind: 'slice', slice: endpoints });
  const one: Seen[] = [];
  finish(resolveInSteps(web, [endpoints], context, (seen) => void one.push(seen)));
  const seen = Array<Seen>(index).fill(one[0]!);
  const known = {
    ...{ state, clock: { wallMs: () => 0 } },
    connectionLimits: { obstacleOf: () => undefined, refusals: { of: () => [] } },
    eventHistory: { recent: { countOf: () => 0 } },
    failureDetection: { silentIn: () => [] },
    serviceHealth: { failureOf: () => undefined },
    sliceSurvey: { problems: () => [] },
    takenNodePorts: { problems: () => [] },
    unanswered: { of: () => new Map() },
  } as unknown as ProblemFacts;
  const all = [...seen, { ...one[0]!, rangeRefusal: 'it overlaps' }];
  expect(ownProblems(known, { service: web, seen: all, excess: [] })).toHaveLength(found);
});

describe('a look for pods that rules stop', () => {
  function clientsOf(pods: number, ports: number) {
    const clock = new ToyClock();
    const senders = Array.from({ length: pods }, (_, i) => Uint8Array.of(10, 0, 0, i));
    const all = Array.from({ length: ports }, (_, i) => forwarding(`web-${i}`, pool(1)));
    const clients = new StoppedClients({
      ...{ clock, config, state: { node: undefined } },
      engine: {
        families: [{ family: 'IPv4', inForce: new Map(all.map((one) => [one.key, one])) }],
        interfaces: [],
      },
      foreignRules: {
        get found() {
          return { mode: 'nftables', all: [{ chains: new Map([['in', [{ senders }]]]) }] };
        },
        // The last port alone is stopped.
        obstacles: ([one]: [{ forwarding: unknown }], _: unknown, client?: object) =>
          client && one.forwarding === all.at(-1) ? [{ text: () => 'A rule.' }] : [],
      },
    } as unknown as ConstructorParameters<typeof StoppedClients>[0]);
    return { clients, clock, senders };
  }

  async function found(pods: number, ports: number, left = pods): Promise<string[]> {
    const { clients, senders } = clientsOf(pods, ports);
    await clients.refresh();
    senders.length = left;
    return clients.findings.map(({ check }) => check);
  }

  it('is made again after ten seconds', async () => {
    const { clients, clock, senders } = clientsOf(1, 1);
    const foundAfter = async (ms: number): Promise<number> => {
      await clock.pass(ms);
      await clients.refresh();
      return clients.findings.length;
    };
    expect(await foundAfter(0)).toBe(1);
    senders.push(Uint8Array.of(10, 0, 0, 7));
    expect([await foundAfter(9999), await foundAfter(1)]).toEqual([1, 2]);
  });

  it('names the first eight, and one port of the first thousand', async () => {
    const named = Array.from({ length: 8 }, (_, i) => Address.from(Uint8Array.of(10, 0, 0, i)));
    const texts = named.map(({ bytes }) => `pod ${formatAddress(bytes)}`);
    expect(await found(9, 1)).toEqual(texts);
    // A rule is gone, and the next look comes later.
    expect(await found(2, 1, 1)).toEqual(texts.slice(0, 1));
    expect([await found(1, 1000), await found(1, 1001)]).toEqual([texts.slice(0, 1), []]);
  });
});

it('an answer lets others have the event loop after a quarter of a millisecond', async () => {
  const clock = new ToyClock();
  const pacer = answerPacer({ clock });
  const dueAfter = async (ms: number): Promise<boolean> => {
    await clock.pass(ms);
    return pacer.due;
  };
  expect([await dueAfter(0.24), await dueAfter(0.02)]).toEqual([false, true]);
});

it('an endpoint without new connections is said to be so for whole seconds', () => {
  const known = { attempts: 3, answers: 1, resets: 2, isSilent: true, outMs: 61_500 };
  const failureDetection = { state: { kind: 'on' }, answersOf: () => known };
  const seen = { forwarding: forwarding('web', pool(1)), candidates: { endpoints: pool(1) } };
  const [shown] = withAnswers({ failureDetection } as never, seen as never, [{} as never]);
  expect(shown!.detection).toMatchObject({ attempts: 3, silent: true, ejectedSeconds: 61 });
});
