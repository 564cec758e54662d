/** Which slots endpoints get, and what becomes of them when endpoints and weights change. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hashSeed } from '../../../src/kernel/nft/rule.ts';
import type { EndpointKey, EndpointList } from '../../../src/net/endpoint-list.ts';
import { noLimits, serviceSlotsMax, unaskedSlotsMax } from '../../../src/state/budget.ts';
import {
  type Balance,
  balances,
  type Deal,
  dealInSteps,
  formatFallback,
  slotCountsInSteps,
  slotsOfEach,
  slotsOf as slotsOfPool,
  spreadInSteps,
} from '../../../src/state/deal.ts';
import { hashTableInSteps, standardSize } from '../../../src/state/hash-table.ts';
import { keepSlots } from '../../../src/state/pool.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { finish } from '../../../src/state/steps.ts';
import type { Forwarding, Service } from '../../../src/state/types.ts';
import { hashed } from '../../fake/jhash.ts';
import { pool } from '../modes/nftables/forwardings.ts';
import {
  context,
  type Endpoint,
  http,
  ips,
  portsOf,
  ready,
  readyLocal,
  resolveOne,
  service,
  slice,
  slicePort,
} from './build.ts';

const dealOf = (...all: Parameters<typeof dealInSteps>) => finish(dealInSteps(...all));
const hashTable = (...all: Parameters<typeof hashTableInSteps>) => finish(hashTableInSteps(...all));
const spread = (...all: Parameters<typeof spreadInSteps>) => finish(spreadInSteps(...all));
const slotCounts = (weights: readonly number[], slotsMax: number) =>
  finish(slotCountsInSteps(weights, slotsMax, false));

const everywhere = Number.POSITIVE_INFINITY;
const weights = fc.array(fc.nat(65_535), { minLength: 1, maxLength: 60 });
const positive = weights.filter((all) => all.some((weight) => weight > 0));

const keysOf = (list: EndpointList): EndpointKey[] =>
  Array.from({ length: list.length }, (_, i) => list.key(i));
const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i + 1);

describe('the slots of weights', () => {
  it('give each endpoint its share, to a slot of 256 and those that small shares need', () => {
    fc.assert(
      fc.property(positive, (all) => {
        const counts = slotCounts(all, everywhere);
        const small = all.filter((weight) => weight > 0 && (weight * 256) / sum(all) < 1).length;
        all.forEach((weight, i) => {
          const error = Math.abs(counts[i]! / sum(counts) - weight / sum(all));
          expect(error).toBeLessThanOrEqual((1 + small) / 256);
        });
      }),
    );
  });

  it('number zero without a weight, one at least with one, and no more than allowed', () => {
    fc.assert(
      fc.property(positive, fc.nat(300), (all, most) => {
        const counts = slotCounts(all, most);
        expect(counts.map((count) => count > 0)).toEqual(all.map((weight) => weight > 0));
        const sharers = all.filter((weight) => weight > 0).length;
        expect(sum(counts)).toBeLessThanOrEqual(Math.max(sharers, Math.min(most, 256)));
      }),
    );
  });

  it.each([
    { all: [100, 100, 100], counts: [1, 1, 1] },
    { all: [100, 300], counts: [1, 3] },
    { all: [50, 100, 100], counts: [1, 2, 2] },
    { all: [0, 7], counts: [0, 1] },
    { all: [1, 65_535], counts: [1, 255] },
    { all: [0, 7, 7], counts: [0, 1, 1], isSteady: true },
    { all: [0, 7, 21], counts: [0, 64, 192], isSteady: true },
  ])('of $all are $counts', ({ all, counts, isSteady = false }) => {
    expect(finish(slotCountsInSteps(all, everywhere, isSteady))).toEqual(counts);
  });

  it('stand apart, so that turns do not come in bursts', () => {
    const slots = spread(pool(1, 2), [4, 2]);
    expect(slots.texts().map((text) => text.at(-6))).toEqual(['1', '2', '1', '1', '2', '1']);
  });
});

describe('10,000 connections', () => {
  /** The part of connections of clients at 10.0.0.1, 10.0.0.2 … that each endpoint gets. */
  const drawn = (list: EndpointList, slots: EndpointList): number[] => {
    const counts = new Map<string, number>();
    const key = new Uint8Array(8);
    const view = new DataView(key.buffer);
    for (let i = 0; i < 10_000; i += 1) {
      view.setUint32(0, 0x0a000001 + (i >> 3));
      view.setUint16(4, 32_768 + 8 * (i % 3571));
      const text = slots.text(hashed(key, hashSeed, slots.length));
      counts.set(text, (counts.get(text) ?? 0) + 1);
    }
    return list.texts().map((text) => (counts.get(text) ?? 0) / 10_000);
  };

  it.each([
    [[100, 100, 100]],
    [[100, 200, 50, 0]],
    [[1, 65_535]],
    [[7, 11, 13, 17, 19, 23, 29, 31]],
    [upTo(40)],
  ])('are shared out by the weights %j to 3 %%, with a table of maglev or without', (all) => {
    const list = pool(...upTo(all.length));
    const tables = [spread(list, slotCounts(all, everywhere)), hashTable(list, all, everywhere)];
    for (const slots of tables) {
      drawn(list, slots).forEach((share, i) => {
        expect(Math.abs(share - all[i]! / sum(all))).toBeLessThan(0.03);
      });
    }
  });
});

describe('slots that are kept in order', () => {
  const lists = fc.array(fc.nat(5), { minLength: 1, maxLength: 30 }).map((ids) => pool(...ids));

  it('are those of next, and change no more positions than they must', () => {
    fc.assert(
      fc.property(lists, lists, (previous, next) => {
        const kept = keepSlots(previous, next);
        expect(kept.texts().sort()).toEqual(next.texts().sort());
        const common = Math.min(previous.length, next.length);
        const before = previous.texts(common);
        const needed = sum(
          [...new Set(before)].map((text) => {
            const due = next.texts().filter((one) => one === text).length;
            return Math.max(0, before.filter((one) => one === text).length - due);
          }),
        );
        const changed = before.filter((text, i) => text !== kept.text(i)).length;
        expect(changed).toBe(needed);
      }),
    );
  });
});

describe('the table of maglev', () => {
  const equal = (count: number): number[] => upTo(count).map(() => 100);
  const table = (list: EndpointList): EndpointList => {
    return hashTable(list, equal(list.length), everywhere);
  };

  it.each([2, 3, 5, 10, 16, 20])(
    'changes hands in at most 1.5/n of its slots when one of %i endpoints goes',
    (count) => {
      const before = table(pool(...upTo(count)));
      expect(before.length).toBe(standardSize);
      for (const gone of upTo(count)) {
        const after = table(pool(...upTo(count).filter((id) => id !== gone)));
        let moved = 0;
        for (let i = 0; i < before.length; i += 1) {
          // What has only one endpoint left is not drawn from a table.
          const next = after.length === 1 ? after.text(0) : after.text(i);
          if (before.text(i) !== next) moved += 1;
        }
        expect(moved / before.length).toBeLessThanOrEqual(1.5 / count);
      }
    },
  );

  it('is the one of rounds in which endpoints have turns by their weights', () => {
    const some = fc.array(fc.nat(9), { minLength: 1, maxLength: 7 });
    fc.assert(
      fc.property(some, (all) => {
        fc.pre(all.some((weight) => weight > 0));
        const list = pool(...upTo(all.length));
        const slots = hashTable(list, all, 61);
        const most = Math.max(...all);
        // Who has had a turn after how many rounds, played one by one.
        const turns = all.map(() => 0);
        for (let round = 1; sum(turns) < slots.length; round += 1) {
          all.forEach((weight, i) => {
            const isDue = Math.floor((round * weight) / most) > turns[i]!;
            if (isDue && sum(turns) < slots.length) turns[i]! += 1;
          });
        }
        expect(slotsOfEach(list, slots)).toEqual(turns);
      }),
    );
  });

  it('is never changed: clients and nodes rely on these slots', () => {
    const list = pool(1, 2, 3, 4, 5);
    const hosts = hashTable(list, equal(5), 13).texts();
    expect(hosts.map((text) => text.split(/[.:]/)[3]).join('')).toMatchInlineSnapshot(
      `"2145123324351"`,
    );
  });

  it.each([
    ['equal weights', equal(2000)],
    ['one great weight', [65_535, ...upTo(1999).map(() => 1)]],
  ])('is made in small steps: %s', (_, weights) => {
    const list = pool(...upTo(2000));
    const steps = hashTableInSteps(list, weights, everywhere);
    let count = 0;
    let step = steps.next();
    for (; !step.done; step = steps.next()) count += 1;
    expect(step.value.length).toBe(65_521);
    // Who has which turn is looked at twice, and then the turns are taken.
    expect(count).toBeGreaterThan((3 * 65_521) / 128);
    expect(count).toBeLessThan((5 * 65_521) / 128);
    expect(step.value.equals(hashTable(list, weights, everywhere))).toBe(true);
  });

  it('has as many slots as are allowed, and one for each endpoint if it can', () => {
    const lengths = [7, 12, 1000].map((most) => hashTable(pool(1, 2, 3), equal(3), most).length);
    expect(lengths).toEqual([7, 7, 509]);
    expect(hashTable(pool(...upTo(8)), equal(8), 7).length).toBe(8);
    expect(table(pool(...upTo(1000))).length).toBe(16_381);
  });
});

describe('the deal of a Service port', () => {
  const cluster = pool(1, 2, 3);
  const local = pool(2);
  const deal = (asked: Balance | undefined, given?: readonly number[], here?: readonly Balance[]) =>
    dealOf(
      {
        asked,
        weights: given && new Map(given.map((weight, i) => [cluster.key(i), weight])),
        slotsMax: everywhere,
        here: here && { name: 'this mode', balances: new Set(here), usesTables: true },
        canRemember: true,
      },
      { cluster, local },
    );

  it('has weights without a balance', () => {
    const { asked, balance, ...slots } = deal(undefined, [100, 200]) as Deal;
    expect({ asked, balance }).toEqual({ asked: undefined, balance: 'random' });
    // The third has the weight of those that have none.
    expect(slotsOfEach(cluster, slots.cluster)).toEqual([1, 2, 1]);
    expect(slots.local).toBe(local);
  });

  it('shares out evenly among endpoints that all have the weight 0', () => {
    expect(deal('random', [0, 0, 0])!.cluster).toBe(cluster);
  });

  it.each(balances.filter((one) => one !== 'random'))(
    'falls to random where %s cannot be done, and says so',
    (asked) => {
      const done = deal(asked, undefined, balances)!;
      expect(done.balance).toBe(asked);
      expect(formatFallback(done)).toBeUndefined();
      const { balance, ...rest } = deal(asked, undefined, [])!;
      expect(balance).toBe('random');
      expect(formatFallback({ balance, ...rest })).toBe(
        `balance ${asked} is not done: this mode cannot do it; connections are shared out as without it`,
      );
      expect(rest.cluster).toBe(cluster);
    },
  );
});

it.each([
  { counts: [0, 0], weights: [100, 100], slots: [128, 128] },
  // With four more each, to the power of three.
  { counts: [4, 8], weights: [100, 100], slots: [197, 59] },
  { counts: [100, 0], weights: [100, 100], slots: [23, 233] },
  { counts: [0, 0], weights: [300, 100], slots: [192, 64] },
  { counts: [300, 100], weights: [300, 100], slots: [192, 64] },
  { counts: [0, 9], weights: [100, 0], slots: [256, 0] },
  { counts: [9, 0], weights: [100, 0], slots: [256, 0] },
  { counts: [], weights: Array(200).fill(1), slots: Array(200).fill(2) },
])('$counts connections at weights of $weights have $slots slots', ({ counts, weights, slots }) => {
  const cluster = pool(...upTo(weights.length));
  const byKey = (of: number[]) => new Map(of.map((number, i) => [cluster.key(i), number]));
  const asks = { asked: 'least-connections', here: undefined, canRemember: true } as const;
  const given = { weights: byKey(weights), open: byKey(counts), slotsMax: everywhere };
  const deal = dealOf({ ...asks, ...given }, { cluster, local: cluster })!;
  expect(slotsOfEach(cluster, deal.cluster)).toEqual(slots);
});

it('the deal of weights rests at each 1,024 endpoints, whatever it does with them', () => {
  const restsOf = (count: number): number => {
    const cluster = pool(...upTo(count));
    const weights = new Map(upTo(count).map((weight, i) => [cluster.key(i), weight]));
    const input = { asked: undefined, here: undefined, canRemember: true, slotsMax: everywhere };
    return [...dealInSteps({ ...input, weights }, { cluster, local: cluster })].length;
  };
  // It reads weights, divides, apportions, sorts and spreads them, and copies 4,096 slots a time.
  expect(restsOf(8192) - restsOf(4096)).toBe(5 * 4 + 2);
});

describe('weights of a kernel that lacks what they need', () => {
  const cluster = pool(1, 2);
  const weights = new Map([[cluster.key(0), 300]]);
  const deal = (
    asked: Balance | undefined,
    fields: object,
    given?: typeof weights,
    other: object = {},
  ) =>
    dealOf(
      {
        asked,
        weights: given,
        ...other,
        slotsMax: everywhere,
        here: { name: 'this mode', balances: new Set(balances), usesTables: false, ...fields },
        canRemember: true,
      },
      { cluster, local: cluster },
    );

  it.each([undefined, 'random'] as const)('do not count, and it is told: %s', (asked) => {
    const lacks = new Map<Balance, string>([['random', 'scheduler wrr']]);
    const without = deal(asked, { lacks }, weights)!;
    expect(without.cluster).toBe(cluster);
    expect(formatFallback(without)).toBe(
      'weights do not count: this kernel lacks scheduler wrr; all endpoints get as many connections',
    );
    expect(deal('maglev', { lacks }, weights)!.cluster.length).toBe(4);
    expect(deal(asked, { lacks })?.because).toBeUndefined();
  });
});

describe('the deal of a Service', () => {
  const sliced = (weight: number | undefined, hosts: Record<string, Endpoint>) => {
    return slice(hosts, { key: `ns/${Object.keys(hosts).join()}-${weight}`, weight });
  };

  it('has the weights of its EndpointSlices, in each pool', () => {
    const { deal, cluster, local } = resolveOne(
      service({
        internalTrafficPolicy: 'Local',
        externalTrafficPolicy: 'Local',
        type: 'NodePort',
        ports: [{ ...http, nodePort: 30080 }],
      }),
      [
        sliced(300, { '10.0.0.1': readyLocal }),
        sliced(100, { '10.0.0.2': readyLocal, '10.0.0.3': ready }),
        // The greater one counts.
        sliced(50, { '10.0.0.1': readyLocal }),
      ],
    );
    expect(slotsOfEach(cluster, deal!.cluster)).toEqual([3, 1, 1]);
    expect(slotsOfEach(local, deal!.local)).toEqual([3, 1]);
  });

  it('of maglev is the same on six nodes, in whatever order they get its EndpointSlices', () => {
    const hosts = upTo(12).map((id) => `10.0.0.${id}`);
    const tables = [0, 1, 2, 3, 4, 5].map((node) => {
      const order = [...hosts.slice(2 * node), ...hosts.slice(0, 2 * node)];
      const slices = order.map((host) => {
        const isHere = hosts.indexOf(host) % 6 === node;
        return slice({ [host]: isHere ? readyLocal : ready }, { key: `ns/${host}` });
      });
      const asked = service({ balancing: { balance: 'maglev' } });
      return resolveOne(asked, slices).deal!.cluster.texts();
    });
    expect(tables[0]).toHaveLength(4093);
    for (const table of tables) expect(table).toEqual(tables[0]);
  });

  it('has fewer slots where it has many frontends, and all nodes have as many', () => {
    const slots = (ports: number): number => {
      const [{ deal }] = resolve(
        service({ balancing: { balance: 'maglev' }, ports: portsOf(ports) }),
        [sliced(undefined, { '10.0.0.1': ready, '10.0.0.2': ready })].map((one) => ({
          ...one,
          ports: portsOf(ports).map(({ name }) => slicePort(name, 8080)),
        })),
        context,
      ) as [Forwarding];
      return deal!.cluster.length;
    };
    // 8,192 for all frontends, and 64 for each port, each address and each endpoint.
    expect([slots(1), slots(2), slots(15), slots(16), slots(100), slots(20_000)]).toEqual([
      4093, 4093, 509, 509, 127, 2,
    ]);
  });

  it('has as many slots at each of its ports, all of which count with their node ports', () => {
    const ports = portsOf(16).map((port, i) => ({ ...port, nodePort: 30_000 + i }));
    const asked = service({ balancing: { balance: 'maglev' }, type: 'NodePort', ports });
    const one = sliced(undefined, { '10.0.0.1': ready, '10.0.0.2': ready });
    const slices = [{ ...one, ports: ports.map(({ name }) => slicePort(name, 8080)) }];
    const lengthsOf = (fields: Partial<Service>): number[] =>
      resolve({ ...asked, ...fields }, slices, context).map(({ deal }) => deal!.cluster.length);
    expect(new Set(lengthsOf({}))).toEqual(new Set([251]));
    expect(lengthsOf({})).toHaveLength(16);
    // A frontend has two pools then.
    expect(new Set(lengthsOf({ externalTrafficPolicy: 'Local' }))).toEqual(new Set([127]));
  });

  it('has fewer slots where its namespace asks for many, and few that it does not ask for', () => {
    const hosts = Object.fromEntries(upTo(9).map((id) => [`10.0.0.${id}`, ready]));
    /** At eight frontends; `part`: what an endpoint has of its share, which does not answer. */
    const slotsOf = (asked: Partial<Service>, slots: number, part = 1, weight?: number): number => {
      const parts = () => new Map([[pool(1).key(0), part]]);
      const health = { isAny: true, maxEjected: 50, parts, services: () => [] };
      const shares = { of: () => ({ ...noLimits, slots }), total: () => 10 * slots };
      const one = { ...service({ externalIPs: ips(7) }), ...asked };
      const slices = [sliced(undefined, hosts), sliced(weight, { '10.0.0.10': ready })];
      const [forwarding] = resolve(one, slices, { ...context, limits: noLimits, shares, health });
      return slotsOfPool(forwarding!, 'cluster').length;
    };
    const balancing = { balance: 'maglev' } as const;
    expect(slotsOf({ balancing }, serviceSlotsMax)).toBe(1021);
    expect(slotsOf({ balancing }, 2048)).toBe(251);
    expect(slotsOf({}, serviceSlotsMax, 0.5)).toBe(unaskedSlotsMax / 8);
    expect(slotsOf({}, serviceSlotsMax, 0.5, 65_535)).toBe(256);
    expect(slotsOf({}, 512, 0.5)).toBe(64);
  });

  it('takes no turns where more ports remember something than may', () => {
    const limits = { ...noLimits, affinityPorts: 2 };
    const balancesOf = (balance: Balance, affinityTimeoutSeconds = 0): Balance[] => {
      const asks = service({ affinityTimeoutSeconds, balancing: { balance }, ports: portsOf(3) });
      return resolve(asks, [], { ...context, limits }).map(({ deal }) => deal!.balance);
    };
    expect(balancesOf('round-robin')).toEqual(['round-robin', 'round-robin', 'random']);
    expect(balancesOf('maglev', 60)).toEqual(['maglev', 'maglev', 'maglev']);
  });
});

describe('endpoints that do not answer', () => {
  const list = (hosts: number): EndpointList => pool(...upTo(hosts));

  it('get no slots, but never more than their part of a pool, nor all of it', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 30 }),
        fc.nat(100),
        fc.array(fc.nat(40)),
        fc.constantFrom<Balance | undefined>(undefined, 'random', 'flow-hash', 'round-robin'),
        fc.boolean(),
        (hosts, percent, silent, asked, isOne) => {
          const cluster = list(hosts);
          const local = isOne ? cluster : list(Math.ceil(hosts / 3));
          const known = list(41);
          const health = new Map(silent.map((i) => [known.key(i), 0]));
          const input = { asked, weights: undefined, health, maxEjected: percent };
          const all = { ...input, slotsMax: everywhere, here: undefined, canRemember: true };
          const deal = dealOf(all, { cluster, local });
          for (const one of ['cluster', 'local'] as const) {
            const whole = { cluster, local }[one];
            const counts = slotsOfEach(whole, (deal ?? { cluster, local })[one]);
            const without = counts.filter((count) => count === 0).length;
            const asks = upTo(whole.length).filter((i) => health.has(whole.key(i - 1))).length;
            const most = Math.min(Math.floor((whole.length * percent) / 100), whole.length - 1);
            expect(without).toBe(Math.min(asks, most));
            const leftOut = keysOf(whole).filter((_, i) => counts[i] === 0);
            expect(new Set(deal?.leftOut?.[one])).toEqual(new Set(leftOut));
          }
        },
      ),
    );
  });

  it('get a part of their share while it grows, together with their weight', () => {
    const cluster = list(3);
    const weights = new Map([[cluster.key(2), 200]]);
    const health = new Map([[cluster.key(2), 0.5]]);
    const limits = { maxEjected: 50, slotsMax: everywhere, here: undefined, canRemember: true };
    const pools = { cluster, local: cluster };
    // Half of twice the weight of the others: all get the same.
    expect(dealOf({ asked: undefined, weights, health, ...limits }, pools)).toBeUndefined();
    const alone = dealOf({ asked: undefined, weights, ...limits }, pools)!;
    expect(slotsOfEach(cluster, alone.cluster)).toEqual([1, 1, 2]);
  });
});
