/**
 * Which connections are ended, and when, over random lives of two Services that share endpoints.
 * They are compared with a model: a table of the times at which endpoints left.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { formatAddress } from '../../../src/net/address.ts';
import type { Endings } from '../../../src/state/endings.ts';
import { finish } from '../../../src/state/steps.ts';
import type { Forwarding, Service } from '../../../src/state/types.ts';
import { Departures } from '../../../src/sync/departures.ts';
import { FakeConntrack, type FakeEntry } from '../../fake/conntrack.ts';
import {
  draining,
  type Endpoint,
  ready,
  resolveOne,
  service,
  slice,
  slicePort,
  stopping,
  unready,
} from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';
import { nodeAddress, reconcilerOf } from './build.ts';

const hosts = ['10.244.0.1', '10.244.0.2', '10.244.0.3'];
const conditions = [ready, draining, stopping, unready] as const;

/** A Service at one time: its endpoints, and how long connections to those that left stay. */
const shape = fc.record({
  endpoints: fc.dictionary(fc.constantFrom(...hosts), fc.constantFrom<Endpoint>(...conditions)),
  endAfterMs: fc.constantFrom(undefined, 1000, 5000),
  external: fc.boolean(),
});
type Shape = typeof shape extends fc.Arbitrary<infer T> ? T : never;

const entry = fc.record({
  to: fc.constantFrom(
    ...[0, 1].flatMap((n) => [
      `10.96.0.${n}:80`,
      `203.0.113.${n}:80`,
      `${nodeAddress}:${30_000 + n}`,
    ]),
    '10.96.0.9:80',
    '198.51.100.7:30000',
  ),
  host: fc.constantFrom(...hosts, '10.244.9.9'),
  port: fc.constantFrom(8080, 8080, 9090),
  answered: fc.boolean(),
});

const life = fc.array(
  fc.record({
    shapes: fc.tuple(shape, shape),
    entries: fc.array(entry, { maxLength: 8 }),
    passMs: fc.constantFrom(500, 1500, 6000),
  }),
  { minLength: 2, maxLength: 7 },
);

function serviceOf(number: number, { endAfterMs, external }: Shape): Service {
  const endings: Endings | undefined = endAfterMs === undefined ? undefined : { endAfterMs };
  return service({
    name: `service-${number}`,
    type: 'NodePort',
    clusterIPs: [`10.96.0.${number}`],
    externalIPs: external ? [`203.0.113.${number}`] : [],
    endings,
    ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30_000 + number }],
  });
}

/** `ADDRESS:PORT` of its frontends. */
function placesOf({ frontends }: Forwarding): string[] {
  return frontends.map(({ address: at, port }) => {
    return `${at === undefined ? nodeAddress : formatAddress(at.bytes)}:${port}`;
  });
}

class World {
  readonly clock = new ToyClock();
  readonly conntrack = new FakeConntrack();
  readonly #last: (Forwarding | undefined)[] = [undefined, undefined];
  readonly #now: Shape[] = [];
  readonly #departures = new Departures({
    clock: this.clock,
    state: {
      touch: (key) => this.apply(Number(key.at(-1)), this.#now[Number(key.at(-1))]!),
    },
  });
  readonly #reconciler = reconcilerOf(this);

  /** The Service is so, and in force. Returns its frontends before. */
  apply(number: number, next: Shape): string[] {
    this.#now[number] = next;
    const of = serviceOf(number, next);
    const ports = [slicePort('http', 8080)];
    const resolved = resolveOne(of, [slice(next.endpoints, { ports })]);
    const [forwarding] = finish(this.#departures.note(of, [resolved]));
    const before = this.#last[number];
    this.#reconciler.moving();
    this.#reconciler.changed(before, forwarding);
    this.#reconciler.settled({ nodePortAddresses: 'all' });
    this.#last[number] = forwarding;
    return before === undefined ? [] : placesOf(before);
  }

  placesOf(number: number): string[] {
    return placesOf(this.#last[number]!);
  }

  async stop(): Promise<void> {
    this.#departures.stop();
    await this.#reconciler.stop();
  }
}

/** What is known of one Service. */
interface Model {
  shape: Shape | undefined;
  /** When the endpoints left that have left. */
  readonly left: Map<string, number>;
}

/** Endpoints whose time is over, and `ADDRESS:PORT` of the frontends whose connections that ends. */
interface Gone {
  readonly hosts: readonly string[];
  readonly places: readonly string[];
}

/** The endpoints whose time is over between two moments. */
function overBy({ left, shape: at }: Model, now: number): string[] {
  const { endAfterMs } = at ?? {};
  if (endAfterMs === undefined) return [];
  return [...left].filter(([, leftAt]) => leftAt + endAfterMs <= now).map(([host]) => host);
}

it('only connections of the Service to endpoints whose time is over are ended', async () => {
  await fc.assert(
    fc.asyncProperty(life, async (steps) => {
      const world = new World();
      const models: Model[] = [0, 1].map(() => ({ shape: undefined, left: new Map() }));
      let alive: FakeEntry[] = [];
      let port = 1000;
      for (const { entries, passMs, shapes } of steps) {
        const began = world.clock.now();
        const gone = shapes.map((next, number): Gone[] => {
          const model = models[number]!;
          const { shape: before } = model;
          const placesBefore = world.apply(number, next);
          const follows = before?.endAfterMs !== undefined && next.endAfterMs !== undefined;
          if (!follows) model.left.clear();
          const had = follows ? Object.keys(before.endpoints) : [];
          for (const host of had) if (!(host in next.endpoints)) model.left.set(host, began);
          for (const host of Object.keys(next.endpoints)) model.left.delete(host);
          model.shape = next;
          // Less time than before ends connections immediately. Frontends that come with the same
          // change had no connections to the Service until now.
          return [{ hosts: overBy(model, began), places: placesBefore }];
        });
        const drawn = entries.map(({ answered, host, port: target, to }): FakeEntry => {
          port += 1;
          const from = `172.16.0.9:${port}`;
          return { protocol: 'TCP', from, to, answered, answeredBy: `${host}:${target}` };
        });
        // Unanswered ones are the reconciler's own matter, which knows no time.
        const added = drawn.filter(({ answered }) => answered);
        world.conntrack.add(...added);
        alive.push(...added);
        await world.clock.pass(passMs);
        const now = world.clock.now();
        models.forEach((model, number) => {
          const places = world.placesOf(number);
          for (const { hosts } of gone[number]!) for (const host of hosts) model.left.delete(host);
          const over = overBy(model, now);
          gone[number]!.push({ hosts: over, places });
          alive = alive.filter(({ answeredBy, to }) => {
            return !gone[number]!.some((one) => {
              const isOver = one.hosts.some((host) => answeredBy === `${host}:8080`);
              return isOver && one.places.includes(to) && places.includes(to);
            });
          });
          for (const host of over) model.left.delete(host);
        });
        const expected = alive.map(({ answeredBy, from, to }) => {
          return `TCP ${from} > ${to}, reply ${answeredBy} > ${from}`;
        });
        expect(world.conntrack.texts).toEqual(expected.sort());
      }
      await world.stop();
    }),
    { numRuns: 150 },
  );
});
