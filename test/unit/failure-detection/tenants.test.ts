/**
 * No tenant changes the pool of another one, whatever it does to its own Services, EndpointSlices
 * and endpoints: also when its endpoints are the pods of the other one.
 */
import { describe, expect, it } from 'vitest';
import { FollowedPorts } from '../../../src/failure-detection/ports.ts';
import type { Detection } from '../../../src/state/detection.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { forwardingId } from '../../../src/state/types.ts';
import { context, ips, portsOf, ready, service, slice, slicePort } from '../state/build.ts';
import { byAnnotation, eject, unknown, World } from './world.ts';

const probing: Detection = { mode: 'eject', probes: true };
const pods = ['10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4'];

function world(): World {
  const made = new World();
  made.detection.choose(byAnnotation);
  return made;
}

/** What became of the endpoints of `ns/victim`. */
function changesOf({ events }: World): string[] {
  return events
    .filter(({ service }) => service === 'ns/victim')
    .map(({ change, endpoint }) => `${change.kind} ${endpoint}`);
}

describe('a tenant whose endpoints are the pods of another one', () => {
  it('does not have them left out by probes that only it has asked for', async () => {
    const one = world();
    const key = one.say('victim', pods, eject);
    const hostile = one.say('hostile', pods, probing, 'hostile');
    await one.traffic(pods, 8);
    // From now on a policy refuses this node, and one pod has no clients for a while.
    one.refusing.add(pods[0]!);
    await one.traffic(pods.slice(1), 80);
    expect(one.events.map(({ service }) => service)).toContain(hostile);
    expect(changesOf(one)).toEqual([]);
    expect(one.parts(key)).toEqual({});
  });

  it('does not keep one in that is dead, by trials of its own pools', async () => {
    const one = world();
    const [dead, living] = pods as [string, string];
    one.deaf.add(dead);
    const turn = async (i: number): Promise<void> => {
      if (i % 2 === 0) one.add('attempts', dead);
      await one.traffic([living, '10.9.0.1'], 1);
    };
    // After five minutes, one of these tries the endpoint again every three seconds.
    for (let i = 0; i < 1260; i += 1) {
      if (i % 12 === 0) one.say(`hostile-${i}`, [dead, '10.9.0.1'], eject, 'hostile');
      await turn(i);
    }
    const key = one.say('victim', [dead, living], eject);
    for (let i = 0; i < 40; i += 1) await turn(i);
    const trials = one.events.filter(({ change }) => change.kind === 'returned');
    expect(trials.length).toBeGreaterThan(2);
    expect(changesOf(one)).toEqual([`ejected ${dead}:8080`]);
    expect(one.parts(key)).toEqual({ [`${dead}:8080`]: 0 });
  });

  it('makes and deletes Services without a change of the pool of the other one', async () => {
    const life = async (hostile: (one: World, turn: number) => void): Promise<unknown[]> => {
      const one = world();
      const key = one.say('victim', pods, eject);
      const found: unknown[] = [];
      for (let i = 0; i < 160; i += 1) {
        hostile(one, i);
        if (i === 12) one.deaf.add(pods[1]!);
        if (i === 60) one.deaf.delete(pods[1]!);
        await one.traffic([...pods, '10.9.0.1'], 1);
        found.push(one.parts(key));
      }
      return [changesOf(one), ...found];
    };
    const alone = await life(() => {});
    expect(alone[0]).toEqual([`ejected ${pods[1]}:8080`, `returned ${pods[1]}:8080`]);
    const beside = await life((one, turn) => {
      for (let i = 0; i < 4; i += 1) {
        const detection: Detection = i % 2 === 0 ? eject : { mode: 'observe', probes: false };
        if ((turn + i) % 3 === 0) one.say(`s${i}`, [...pods, '10.9.0.1'], detection, 'hostile');
        if ((turn + i) % 7 === 5) one.forget(`hostile/s${i}`);
      }
    });
    expect(beside).toEqual(alone);
  });

  it('makes the node open no more than eight connections a second to one of them', async () => {
    const one = world();
    for (let i = 0; i < 500; i += 1) one.say(`hostile-${i}`, pods.slice(0, 1), probing, 'hostile');
    await one.clock.pass(10_000);
    expect(one.probed.length).toBeGreaterThanOrEqual(10);
    expect(one.probed.length).toBeLessThanOrEqual(80);
  });

  it('also where it names 300 ports of it, of which none answers', async () => {
    const one = world();
    one.deaf.add(pods[0]!);
    nameAllPorts(one);
    for (let i = 0; i < 40; i += 1) {
      one.add('attempts', pods[0]!);
      await one.clock.pass(250);
    }
    const sent = one.probedAt.filter((to) => to.startsWith(`${pods[0]}:`));
    expect(sent.length).toBeGreaterThanOrEqual(72);
    expect(sent.length).toBeLessThanOrEqual(82);
    expect(new Set(sent).size).toBeGreaterThanOrEqual(40);
  });

  it('and no more than half of them for it, where the other one needs them', async () => {
    const one = world();
    const lost = pods[0]!;
    const at = `${lost}:8080`;
    const key = one.say('victim', pods, probing);
    nameAllPorts(one);
    // In nearly all turns these, and `hostile` after them, come before the namespace of the victim.
    for (let i = 0; i < 30; i += 1) one.say('web', [`10.2.0.${i}`], probing, `z-${i}`);
    await one.traffic(pods, 40);
    const regular = one.probedAt.filter((to) => to === at).length;
    expect(regular).toBeGreaterThanOrEqual(9);
    one.deaf.add(lost);
    await one.traffic(pods, 12);
    expect(one.parts(key)).toEqual({ [at]: 0 });
    one.deaf.delete(lost);
    await one.traffic(pods, 12);
    expect(changesOf(one)).toEqual([`ejected ${at}`, `returned ${at}`]);
  });
});

/** 300 ports of a pod, as endpoints of a Service of another namespace. */
function nameAllPorts(one: World): void {
  const all = [pods[0]!, '10.9.0.1'];
  one.say('all-ports', all, probing, 'hostile', portsOf(300), (i) => 10_000 + i);
}

it('the node opens no more than 20 connections a second for a namespace', async () => {
  const one = world();
  const all = ips(300);
  for (const ip of all) one.deaf.add(ip);
  one.say('silent', [...all, ...pods], eject, 'hostile');
  const healthy = Array.from({ length: 20 }, (_, i) => `10.1.0.${i}`);
  one.say('healthy', healthy, { mode: 'observe', probes: true }, 'hostile');
  await one.traffic(pods, 4);
  for (let i = 0; i < 12; i += 1) {
    for (const ip of all) one.add('attempts', ip);
    await one.traffic(pods, 1);
  }
  one.probed.length = 0;
  await one.traffic(pods, 40);
  expect(one.probed.length).toBeGreaterThanOrEqual(190);
  expect(one.probed.length).toBeLessThanOrEqual(205);
  // However many are suspected, some are for those whose Service asks for regular ones.
  const regular = one.probed.filter((ip) => healthy.includes(ip)).length;
  expect(regular).toBeGreaterThanOrEqual(78);
  expect(regular).toBeLessThanOrEqual(82);
});

describe('a tenant with as many failing endpoints as it can have', () => {
  /** Half of its endpoints are dead, and clients try all of them. */
  function crowd(one: World, detection: Detection): () => Promise<void> {
    const all = ips(2000);
    const dead = all.filter((_, i) => i % 2 === 0);
    for (const ip of dead) one.deaf.add(ip);
    for (let i = 0; i < all.length; i += 2) {
      one.say(`hostile-${i}`, all.slice(i, i + 2), detection, 'hostile');
    }
    return async () => {
      for (const ip of dead) one.add('attempts', ip);
      await one.traffic(pods, 1);
    };
  }
  const victims = ['192.168.0.1', '192.168.0.2', '192.168.0.3'];

  it('delays neither probes that another one asks for, nor the return of its endpoints', async () => {
    const one = world();
    const turn = crowd(one, probing);
    one.say('victim', victims, probing);
    const turns = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i += 1) {
        const living = victims.filter((ip) => !one.deaf.has(ip));
        for (const ip of victims) one.add('attempts', ip, 2);
        for (const ip of living) one.add('answers', ip, 2);
        await turn();
      }
    };
    await turns(40);
    const probed = one.probed.filter((ip) => ip === victims[1]).length;
    expect(probed).toBeGreaterThanOrEqual(8);
    one.deaf.add(victims[0]!);
    await turns(16);
    one.deaf.delete(victims[0]!);
    await turns(24);
    const at = `${victims[0]}:8080`;
    expect(changesOf(one)).toEqual([`ejected ${at}`, `returned ${at}`]);
  });

  it('has its own ports probed in turn, all of them', async () => {
    const one = world();
    const turn = crowd(one, { mode: 'observe', probes: true });
    for (let i = 0; i < 40; i += 1) await turn();
    expect(one.probed.length).toBeGreaterThanOrEqual(190);
    expect(new Set(one.probed).size).toBe(one.probed.length);
  });
});

it('however many ports a tenant has, those without an endpoint that is followed cost nothing', () => {
  const ports = new FollowedPorts(unknown);
  const asked = { mode: 'eject', probes: true, growthMs: 0 } as const;
  const portCount = 2000 + 500;
  const of = (endpoints: readonly string[]) => {
    const all = Object.fromEntries(endpoints.map((ip) => [ip, ready]));
    const named = portsOf(portCount);
    const slices = [slice(all, { ports: named.map(({ name }) => slicePort(name, 8080)) })];
    return resolve(service({ ports: named }), slices, context);
  };
  for (const one of of([])) expect(ports.follow(one, asked)).toBeUndefined();
  expect([ports.size, ports.leftOut]).toEqual([0, 0]);
  const served = of(['10.0.0.1']);
  for (const one of served) ports.follow(one, asked);
  expect([ports.size, ports.leftOut]).toEqual([2000, 500]);
  const last = served.at(-1)!;
  expect(ports.of(last.family, last.key)).toBeUndefined();
  expect(ports.leftOutOf(last.family, last.key)).toBe(1);
  for (const one of served) ports.forget(forwardingId(one.family, one.key));
  expect([ports.size, ports.leftOut, ports.leftOutOf(last.family, last.key)]).toEqual([0, 0, 0]);
});

it('however many tenants name the same endpoints, a bounded number is followed', async () => {
  const one = world();
  const all = ips(1000);
  for (let i = 0; i < 10; i += 1) {
    for (const name of ['a', 'b']) one.say(name, all, eject, `tenant-${i}`);
  }
  await one.clock.pass(500);
  const { endpoints, leftOut } = one.detection.totals;
  expect(endpoints).toBe(8000);
  expect(leftOut).toBe(20 * all.length - 8000);
});

it('all endpoints of a port with more than can be probed in a second have their turn', async () => {
  const one = world();
  one.say('web', ips(900), { mode: 'observe', probes: true });
  await one.clock.pass(15_000);
  expect(one.probed.length).toBeGreaterThanOrEqual(295);
  expect(new Set(one.probed).size).toBe(one.probed.length);
});

describe('a tenant whose Service has very many ports', () => {
  const portCount = 1000;
  const msOfEach = 0.1;

  /** The most ports that come or go in one turn, until there are as many endpoints. */
  async function mostInOneTurn({ clock, detection }: World, endpointsAtEnd: number) {
    let nowMs = clock.now();
    clock.now = () => (nowMs += msOfEach);
    let [most, before] = [0, detection.totals.endpoints];
    const passing = (async () => {
      while (before !== endpointsAtEnd) await clock.pass(1000);
    })();
    while (before !== endpointsAtEnd) {
      await new Promise((resolve) => setImmediate(resolve));
      const { endpoints } = detection.totals;
      most = Math.max(most, Math.abs(endpoints - before));
      before = endpoints;
    }
    await passing;
    return most;
  }

  it('has them followed in steps, and forgotten in steps', async () => {
    const one = world();
    const { detection } = one;
    await one.clock.pass(0);
    const key = one.say('web', pods.slice(0, 1), eject, 'hostile', portsOf(portCount));
    expect(detection.totals.endpoints).toBe(0);
    expect(await mostInOneTurn(one, portCount)).toBeLessThan(portCount / 10);
    one.forget(key);
    expect(await mostInOneTurn(one, 0)).toBeLessThan(portCount / 10);
  });

  it('has none of them followed once it asks for nothing, also when it does so between two steps', async () => {
    const one = world();
    const { clock, detection } = one;
    await clock.pass(0);
    let nowMs = clock.now();
    clock.now = () => (nowMs += msOfEach);
    const say = (asked: Detection | undefined): void =>
      void one.say('web', pods.slice(0, 1), asked, 'hostile', portsOf(portCount));
    say(eject);
    const passing = clock.pass(0);
    while (detection.totals.endpoints === 0) await new Promise((done) => setImmediate(done));
    expect(detection.totals.endpoints).toBeLessThan(portCount);
    say(undefined);
    await passing;
    for (let i = 0; i < 20; i += 1) await clock.pass(1000);
    expect(detection.totals).toMatchObject({ services: 0, endpoints: 0 });
    expect(detection.isAny).toBe(false);
  });
});
