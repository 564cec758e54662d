import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ConntrackEvent } from '../../../src/conntrack/events.ts';
import { formatAddress } from '../../../src/net/address.ts';
import { allPaths } from '../../../src/state/paths.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { FakeConntrack, kernelRefusal } from '../../fake/conntrack.ts';
import { address } from '../state/build.ts';
import { quiet, ToyClock } from '../sync/double.ts';
import { dns, nodeAddress, reconcilerOf } from './build.ts';

const toFirst = 'UDP 172.16.0.9:4001 > 10.96.0.10:53, reply 10.244.0.1:5353 > 172.16.0.9:4001';
const toSecond = 'UDP 172.16.0.9:4002 > 10.96.0.10:53, reply 10.244.0.2:5353 > 172.16.0.9:4002';

const both = dns(['10.244.0.1', '10.244.0.2']);
const one = dns(['10.244.0.1']);

class World {
  readonly clock = new ToyClock();
  readonly conntrack = new FakeConntrack();
  readonly events: ConntrackEvent[] = [];
  readonly reconciler = reconcilerOf(this, { observer: (event) => this.events.push(event) });

  constructor() {
    this.conntrack.add(
      {
        protocol: 'UDP',
        from: '172.16.0.9:4001',
        to: '10.96.0.10:53',
        answeredBy: '10.244.0.1:5353',
      },
      {
        protocol: 'UDP',
        from: '172.16.0.9:4002',
        to: '10.96.0.10:53',
        answeredBy: '10.244.0.2:5353',
      },
    );
  }

  /** One sync, after which `next` is in force instead of `previous`. */
  sync(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    this.reconciler.moving();
    this.reconciler.changed(previous, next);
    this.reconciler.settled({ nodePortAddresses: 'all' });
  }

  get deletions(): string[] {
    return this.events.flatMap((event) =>
      event.kind === 'reconciled'
        ? Array.from({ length: event.deleted.length }, (_, i) => event.deleted.text(i))
        : [],
    );
  }
}

let world: World;
beforeEach(() => {
  world = new World();
});
afterEach(() => world.reconciler.stop());

describe('a conntrack cleanup', () => {
  it('reads answered connections that a Service wants ended once it has lost an endpoint', async () => {
    const tcp = (endpoints: readonly string[]): Forwarding => {
      const of = dns(endpoints, { protocol: 'TCP' });
      return { ...of, endings: { endAfterMs: 1000, kept: of.cluster } };
    };
    const [before, after] = [tcp(['10.244.0.1', '10.244.0.2']), tcp(['10.244.0.1'])];
    world.sync(undefined, before);
    await world.clock.pass(1000);
    expect(world.conntrack.dumps.map(({ state }) => state)).toEqual(['unanswered']);
    world.sync(before, after);
    await world.clock.pass(0);
    expect(world.conntrack.dumps.at(-1)).toMatchObject({ state: 'any' });
    // It no longer asks for that.
    const to = { to: '10.96.0.10:53', answeredBy: '10.244.0.2:5353' };
    world.conntrack.add({ protocol: 'TCP', from: '172.16.0.9:4003', ...to });
    world.sync(before, after);
    world.sync(after, { ...after, endings: undefined });
    await world.clock.pass(100);
    expect(world.events.map(({ kind }) => kind)).not.toContain('failed');
    expect(world.conntrack.texts).toHaveLength(3);
  });

  it('waits with a Service whose clients may get a lost endpoint again, and with no other', async () => {
    const [before, after] = [['10.244.0.3'], ['10.244.0.4']].map((of) => {
      return dns(of, { name: 'other', clusterIPs: ['10.96.0.20'] });
    });
    const other = { from: '172.16.0.9:4005', to: '10.96.0.20:53', answeredBy: '10.244.0.3:5353' };
    world.conntrack.add({ protocol: 'UDP', ...other });
    world.sync(undefined, both);
    world.sync(undefined, before);
    await world.clock.pass(10_000);
    expect(world.conntrack.texts).toHaveLength(3);

    const isDNS = ({ servicePort }: Forwarding): boolean => servicePort.name === 'dns';
    let isSwept = false;
    const unswept = () => (isSwept ? undefined : isDNS);
    world.reconciler.moving();
    world.reconciler.changed(both, one);
    world.reconciler.changed(before, after);
    world.reconciler.settled({ nodePortAddresses: 'all' }, unswept);
    await world.clock.pass(10_000);
    expect(world.conntrack.texts).toEqual([toFirst, toSecond]);
    expect(world.reconciler.upToDate).toBe(false);

    isSwept = true;
    world.reconciler.settled({ nodePortAddresses: 'all' }, unswept);
    await world.clock.pass(10_000);
    expect(world.conntrack.texts).toEqual([toFirst]);
    expect(world.reconciler.upToDate).toBe(true);
  });

  it('asks about some of the frontends that wait for sweeps at a time, and comes to all', async () => {
    const world = new World();
    const waiting = Array.from({ length: 3000 }, (_, i) => {
      const clusterIPs = [`10.97.${i >> 8}.${i & 0xff}`];
      return dns(['10.244.0.3'], { name: `sticky-${i}`, clusterIPs });
    });
    for (const sticky of waiting) world.sync(undefined, sticky);
    world.sync(undefined, both);
    await world.clock.pass(10_000);
    let [asked, mostAtOnce] = [0, 0];
    const unswept = () => {
      asked = 0;
      return ({ servicePort }: Forwarding): boolean => {
        asked += 1;
        mostAtOnce = Math.max(mostAtOnce, asked);
        return servicePort.name.startsWith('sticky');
      };
    };
    world.reconciler.moving();
    for (const sticky of waiting) world.reconciler.changed(sticky, undefined);
    for (const sticky of waiting) world.reconciler.changed(undefined, sticky);
    world.reconciler.changed(both, one);
    world.reconciler.settled({ nodePortAddresses: 'all' }, unswept);
    // It asks about 512 of 3001, five times more with a pause of 50 ms before.
    await world.clock.pass(249);
    expect(world.conntrack.texts).toEqual([toFirst, toSecond]);
    await world.clock.pass(1);
    expect(world.conntrack.texts).toEqual([toFirst]);
    expect(mostAtOnce).toBe(512);
    expect(world.reconciler.upToDate).toBe(false);
    world.reconciler.settled({ nodePortAddresses: 'all' }, () => undefined);
    await world.clock.pass(10_000);
    expect(world.reconciler.upToDate).toBe(true);
  });

  it('reads nothing again for least-connections where no mode asks how many there are', async () => {
    const deal = { asked: undefined, balance: 'least-connections', because: undefined } as const;
    const { cluster, local } = both;
    world.sync(undefined, { ...both, deal: { ...deal, cluster, local, leftOut: undefined } });
    await world.clock.pass(10_000);
    expect(world.conntrack.dumps).toHaveLength(1);
    expect(world.reconciler.open(both.key)).toBeUndefined();
  });

  it('requests only the entries of a frontend if only that one changed', async () => {
    world.sync(undefined, both);
    await world.clock.pass(10_000);
    const asked = world.conntrack.dumps.map(({ destination }) => ({
      address: formatAddress(destination!.address!),
      port: destination!.port,
    }));
    expect(asked).toEqual([{ address: '10.96.0.10', port: 53 }]);
  });

  it('requests all entries of the protocol once if several frontends changed', async () => {
    world.reconciler.changed(undefined, both);
    const other = dns([], { name: 'other', clusterIPs: ['10.96.0.20'] });
    world.reconciler.changed(undefined, other);
    world.reconciler.settled({ nodePortAddresses: 'all' });
    await world.clock.pass(10_000);
    expect(world.conntrack.dumps).toEqual([
      { family: 'IPv4', protocol: 'UDP', state: 'any', zone: 0 },
    ]);
  });
});

describe('conntrack cleanup for TCP', () => {
  const protocol = 'TCP';
  const to = '10.96.0.10:53';
  const answeredBy = '10.244.0.2:5353';
  const bothTcp = dns(['10.244.0.1', '10.244.0.2'], { protocol });
  const oneTcp = dns(['10.244.0.1'], { protocol });

  beforeEach(() => {
    world.conntrack.add(
      { protocol, from: '172.16.0.9:4001', to, answeredBy, answered: true },
      { protocol, from: '172.16.0.9:4002', to, answeredBy, answered: false },
    );
  });

  const pending = 'TCP 172.16.0.9:4002 > 10.96.0.10:53, reply 10.244.0.2:5353 > 172.16.0.9:4002';

  it('keeps new attempts for that time also if others are older', async () => {
    const other = dns(['10.244.0.2'], { protocol, name: 'other', clusterIPs: ['10.96.0.20'] });
    const earlier = {
      protocol,
      from: '172.16.0.9:4003',
      to,
      answeredBy: '10.244.0.3:5353',
    } as const;
    world.conntrack.add({ ...earlier, answered: false });
    const three = dns(['10.244.0.1', '10.244.0.2', '10.244.0.3'], { protocol });
    world.sync(three, bothTcp);
    world.sync(other, undefined);
    await world.clock.pass(400);
    world.sync(bothTcp, oneTcp);
    await world.clock.pass(100);
    expect(world.deletions).toEqual([
      'TCP 172.16.0.9:4003 > 10.96.0.10:53, reply 10.244.0.3:5353 > 172.16.0.9:4003',
    ]);
    await world.clock.pass(2000);
    expect(world.conntrack.texts).not.toContain(pending);
  });

  it('is up to date while attempts may still be answered, and while connections age', () => {
    world.sync(bothTcp, oneTcp);
    expect(world.reconciler.upToDate).toBe(true);
    world.sync(oneTcp, { ...oneTcp, endings: { maxAgeMs: 60_000 } });
    expect(world.reconciler.upToDate).toBe(true);
  });

  it('reads the table every two seconds while changes never end, and each in 2.5 s', async () => {
    const other = dns(['10.244.0.2'], { protocol, name: 'other', clusterIPs: ['10.96.0.20'] });
    for (let ms = 0; ms < 10_000; ms += 100) {
      world.sync(undefined, other);
      if (ms === 8000) world.sync(bothTcp, oneTcp);
      await world.clock.pass(100);
    }
    expect(world.events).toHaveLength(5);
    await world.clock.pass(499);
    expect(world.conntrack.texts).toContain(pending);
    await world.clock.pass(1);
    expect(world.conntrack.texts).not.toContain(pending);
  });
});

describe('conntrack cleanup for an endpoint that failure detection leaves out', () => {
  const to = '10.96.0.10:53';
  const of = { protocol: 'TCP', from: '172.16.0.9:4001', to } as const;
  const both = dns(['10.244.0.1', '10.244.0.2'], { protocol: 'TCP' });
  const without: Forwarding = {
    ...both,
    deal: {
      ...{ asked: undefined, balance: 'random', because: undefined, local: both.local },
      cluster: both.cluster.picked(Uint32Array.of(0)),
      leftOut: { cluster: new Set([both.cluster.key(1)]), local: new Set() },
    },
  };
  const tried = { ...of, answeredBy: '10.244.0.2:5353', answered: false };

  beforeEach(async () => {
    world.sync(undefined, both);
    await world.clock.pass(1000);
  });

  it('spares one that comes back while the table is read', async () => {
    world.conntrack.add(tried);
    world.conntrack.before = (operation) => {
      if (operation !== 'dump') return;
      world.conntrack.before = () => {};
      world.sync(without, both);
    };
    world.sync(both, without);
    await world.clock.pass(10_000);
    expect(world.deletions).toEqual([]);
  });

  it('frees those of pods, too, at a frontend where clients outside have another pool', async () => {
    const frontends = both.frontends.map((one) => ({ ...one, paths: allPaths.outsideLocal }));
    world.conntrack.add(tried);
    world.sync(both, { ...without, frontends });
    await world.clock.pass(0);
    expect(world.deletions).toHaveLength(1);
  });
});

describe('changes during a conntrack cleanup', () => {
  it('cause another cleanup after this one', async () => {
    world.sync(undefined, both);
    world.conntrack.before = (operation) => {
      if (operation !== 'dump') return;
      world.conntrack.before = () => {};
      world.sync(both, one);
    };
    await world.clock.pass(0);
    expect(world.conntrack.texts).toEqual([toFirst]);
    expect(world.conntrack.dumps).toHaveLength(2);
  });

  it('share cleanups: a table that takes long to read is not read all the time', async () => {
    world.conntrack.before = () =>
      new Promise<void>((resolve) => {
        world.clock.after(100, resolve);
      });
    for (let i = 0; i < 1000; i += 1) {
      world.sync(...((i % 2 === 0 ? [one, both] : [both, one]) as [Forwarding, Forwarding]));
      await world.clock.pass(10);
    }
    expect(world.conntrack.dumps.length).toBeGreaterThan(10);
    expect(world.conntrack.dumps.length).toBeLessThanOrEqual(21);
  });
});

describe('conntrack cleanup for node ports', () => {
  const fields = { type: 'NodePort', nodePort: 30053 } as const;
  const here = { protocol: 'UDP', from: '172.16.0.9:4009' } as const;

  it('checks entries when an address begins to accept node ports', async () => {
    const vip = { ...here, to: '192.168.0.100:30053' };
    world.conntrack.add(vip);
    world.reconciler.changed(undefined, dns(['10.244.0.1', '10.244.0.2'], fields));
    world.reconciler.settled({ nodePortAddresses: [address(nodeAddress)] });
    await world.clock.pass(10_000);
    expect(world.deletions).toEqual([]);

    const nodePortAddresses = [address(nodeAddress), address('192.168.0.100')];
    world.reconciler.settled({ nodePortAddresses });
    await world.clock.pass(0);
    expect(world.deletions).toEqual([
      'UDP 172.16.0.9:4009 > 192.168.0.100:30053, reply 192.168.0.100:30053 > 172.16.0.9:4009',
    ]);
    const { length } = world.conntrack.dumps;
    world.reconciler.settled({ nodePortAddresses });
    await world.clock.pass(0);
    expect(world.conntrack.dumps).toHaveLength(length);
  });
});

describe('conntrack cleanup with a kernel that refuses requests', () => {
  it('does not repeat it for ever: it uses the entries of an interrupted dump', async () => {
    world.conntrack.interruptions = Number.POSITIVE_INFINITY;
    world.sync(undefined, dns([]));
    await world.clock.pass(10_000);
    expect(world.conntrack.dumps).toHaveLength(5);
    expect(world.conntrack.texts).toEqual([toSecond]);
  });

  it('stops after some attempts, until the next change', async () => {
    world.conntrack.before = () => {
      throw kernelRefusal('EPERM');
    };
    world.sync(undefined, one);
    await world.clock.pass(3_600_000);
    expect(world.events.map((event) => event.kind === 'failed' && event.retryMs)).toEqual([
      1000,
      2000,
      4000,
      8000,
      16_000,
      undefined,
    ]);
    world.conntrack.before = () => {};
    world.sync(undefined, one);
    await world.clock.pass(0);
    expect(world.conntrack.texts).toEqual([toFirst]);
    world.conntrack.before = () => {
      throw kernelRefusal('EPERM');
    };
    world.sync(one, undefined);
    await world.clock.pass(0);
    expect(world.events.at(-1)).toMatchObject({ kind: 'failed', retryMs: 1000 });
  });

  it('has all attempts for a change that comes while others are tried again', async () => {
    world.conntrack.before = () => {
      throw kernelRefusal('EPERM');
    };
    world.sync(undefined, both);
    await world.clock.pass(20_000);
    world.sync(both, one);
    await world.clock.pass(11_000);
    expect(world.events.at(-1)).toMatchObject({ kind: 'failed', retryMs: 1000 });
    world.conntrack.before = () => {};
    await world.clock.pass(1000);
    expect(world.conntrack.texts).toEqual([toFirst]);
  });

  it('does nothing if the kernel has no connection tracking', async () => {
    world.conntrack.before = () => {
      throw kernelRefusal('EPROTONOSUPPORT');
    };
    world.sync(undefined, one);
    await world.clock.pass(0);
    expect(world.reconciler.upToDate).toBe(true);
    expect(world.events).toEqual([]);
  });

  it('still deletes and counts the other entries', async () => {
    const to = '10.96.0.20:53';
    world.conntrack.add({ protocol: 'UDP', from: '172.16.0.9:4009', to });
    world.conntrack.refused.set(to, 'EBUSY');
    world.reconciler.changed(undefined, one);
    world.reconciler.changed(undefined, dns([], { name: 'other', clusterIPs: ['10.96.0.20'] }));
    world.reconciler.settled({ nodePortAddresses: 'all' });
    await world.clock.pass(0);
    expect(world.deletions).toEqual([toSecond]);
    expect(world.events.at(-1)).toMatchObject({ kind: 'failed', error: { code: 'EBUSY' } });
    world.conntrack.refused.clear();
    await world.clock.pass(1000);
    expect(world.conntrack.texts).toEqual([toFirst]);
  });
});

describe('the end of conntrack cleanup', () => {
  it('waits for the current pass, which deletes nothing any more', async () => {
    world.sync(undefined, one);
    world.conntrack.before = () => world.reconciler.moving();
    await world.clock.pass(0);
    const stopped = world.reconciler.stop();
    await quiet();
    await expect(stopped).resolves.toBeUndefined();
    world.reconciler.settled({ nodePortAddresses: 'all' });
    await world.clock.pass(10_000);
    expect(world.conntrack.texts).toEqual([toFirst, toSecond]);
  });

  it('waits for the entries that are looked at, and not for thousands more', async () => {
    const { clock, conntrack } = world;
    const to = { protocol: 'UDP', to: '10.96.0.10:53', answeredBy: '10.244.0.1:5353' } as const;
    conntrack.add(
      ...Array.from({ length: 10_000 }, (_, i) => ({ ...to, from: `172.16.1.1:${i}` })),
    );
    let stopped: Promise<void> | undefined;
    let turns = 0;
    clock.turn = async () => {
      turns += 1;
      stopped = world.reconciler.stop();
    };
    world.sync(undefined, one);
    await clock.pass(0);
    await stopped;
    expect(turns).toBe(1);
    expect(world.deletions).toEqual([]);
  });

  it('asks no frontend any more whether it waits for sweeps', async () => {
    for (let i = 0; i < 600; i += 1) {
      const clusterIPs = [`10.97.${i >> 8}.${i & 0xff}`];
      world.reconciler.changed(undefined, dns([], { name: `sticky-${i}`, clusterIPs }));
    }
    let asked = 0;
    world.reconciler.settled({ nodePortAddresses: 'all' }, () => () => {
      asked += 1;
      return true;
    });
    await world.clock.pass(0);
    const before = asked;
    expect(before).toBeGreaterThan(0);
    await world.reconciler.stop();
    await world.clock.pass(10_000);
    expect(asked).toBe(before);
  });
});

it.each([
  [2000, 0],
  [2001, 1],
  [4999, 2],
  [5000, 3],
])('others have turns while %i of one more entries are deleted', async (count, expected) => {
  const { clock, conntrack } = world;
  let turns = 0;
  const turn = clock.turn.bind(clock);
  clock.turn = () => {
    turns += 1;
    return turn();
  };
  const to = { protocol: 'UDP', to: '10.96.0.10:53', answeredBy: '10.244.0.2:5353' } as const;
  const clients = Array.from({ length: count - 1 }, (_, i) => `172.16.1.1:${1000 + i}`);
  conntrack.add(...clients.map((from) => ({ ...to, from })));
  await clock.pass(10);
  world.sync(undefined, one);
  await clock.pass(0);
  await quiet();
  expect(world.events).toMatchObject([{ examined: count + 1, durationMs: 0, isForAge: false }]);
  expect(world.conntrack.texts).toEqual([toFirst]);
  expect(turns).toBe(expected);
});

it.each([
  [8, 8],
  [9, 1],
])(
  'connections to %i frontends that lose an endpoint are read by %i dumps',
  async (count, dumps) => {
    const externalIPs = Array.from({ length: count - 1 }, (_, i) => `203.0.113.${i + 1}`);
    const tcp = (endpoints: readonly string[]): Forwarding => {
      const of = dns(endpoints, { protocol: 'TCP', externalIPs });
      return { ...of, endings: { endAfterMs: 1000, kept: of.cluster } };
    };
    const [before, after] = [tcp(['10.244.0.1', '10.244.0.2']), tcp(['10.244.0.1'])];
    const lost = {
      protocol: 'TCP',
      from: '172.16.0.9:4003',
      answeredBy: '10.244.0.2:5353',
    } as const;
    world.conntrack.add({ ...lost, to: '10.96.0.10:53' }, { ...lost, to: '10.96.0.99:53' });
    world.sync(undefined, before);
    await world.clock.pass(10_000);
    world.sync(before, after);
    await world.clock.pass(0);
    expect(world.conntrack.dumps.filter(({ state }) => state === 'any')).toHaveLength(dumps);
    expect(world.deletions).toEqual([
      'TCP 172.16.0.9:4003 > 10.96.0.10:53, reply 10.244.0.2:5353 > 172.16.0.9:4003',
    ]);
  },
);
