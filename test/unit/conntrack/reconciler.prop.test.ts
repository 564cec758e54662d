/** The reconciler against a slow and simple reading of its rules, over random histories. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { ConntrackReconciler } from '../../../src/conntrack/reconciler.ts';
import { formatAddress } from '../../../src/net/address.ts';
import type { Protocol } from '../../../src/net/protocol.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { FakeConntrack, type FakeEntry } from '../../fake/conntrack.ts';
import { ToyClock } from '../sync/double.ts';
import { dns, nodeAddress, reconcilerOf } from './build.ts';

const clusterIPs = ['10.96.0.10', '10.96.0.20'] as const;
const endpoints = ['10.244.0.1', '10.244.0.2', '10.244.0.3'];

const protocol = fc.constantFrom<Protocol>('UDP', 'SCTP', 'TCP');

/** What one of two Services is at one time; undefined = not there. Its address is its own. */
const shape = fc.option(
  fc.record({
    endpoints: fc.subarray(endpoints),
    protocol,
    target: fc.constantFrom(53, 5353),
    external: fc.boolean(),
    nodePort: fc.boolean(),
  }),
  { nil: undefined, freq: 4 },
);
type Shape = NonNullable<typeof shape extends fc.Arbitrary<infer T> ? T : never>;

const entry = fc.record({
  protocol,
  to: fc.constantFrom(
    ...clusterIPs.flatMap((ip) => [`${ip}:53`, `${ip}:54`]),
    ...[0, 1].flatMap((number) => [
      `203.0.113.${number}:53`,
      `${nodeAddress}:${30_000 + number}`,
      `198.51.100.7:${30_000 + number}`,
    ]),
  ),
  answeredBy: fc.option(
    fc
      .tuple(fc.constantFrom(...endpoints, '10.244.9.9'), fc.constantFrom(53, 5353))
      .map(([ip, port]) => `${ip}:${port}`),
    { nil: undefined, freq: 4 },
  ),
  answered: fc.boolean(),
  zone: fc.constantFrom(0, 0, 0, 7),
});
type Drawn = typeof entry extends fc.Arbitrary<infer T> ? T : never;

const history = fc.array(
  fc.record({ shapes: fc.tuple(shape, shape), entries: fc.array(entry, { maxLength: 12 }) }),
  { minLength: 1, maxLength: 6 },
);

function forwardingOf(of: Shape | undefined, number: number): Forwarding | undefined {
  if (of === undefined) return undefined;
  return dns(of.endpoints, {
    name: `service-${number}`,
    type: 'NodePort',
    clusterIPs: [clusterIPs[number]!],
    externalIPs: of.external ? [`203.0.113.${number}`] : [],
    nodePort: of.nodePort ? 30_000 + number : 0,
    protocol: of.protocol,
    target: of.target,
  });
}

type State = readonly (Forwarding | undefined)[];

/** `PROTOCOL ADDRESS:PORT` of every frontend, with its endpoints. */
function frontendsOf(state: State): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const forwarding of state) {
    for (const frontend of forwarding?.frontends ?? []) {
      const ip = frontend.address ? formatAddress(frontend.address.bytes) : nodeAddress;
      const name = `${forwarding!.servicePort.protocol} ${ip}:${frontend.port}`;
      found.set(name, forwarding!.serving.texts());
    }
  }
  return found;
}

/** The model: whether the entry contradicts `now`, after a time in which `former` was right. */
function contradicts(of: FakeEntry, now: Map<string, string[]>, former: Map<string, string[]>) {
  if (of.zone !== 0 || (of.protocol === 'TCP' && of.answered)) return false;
  const name = `${of.protocol} ${of.to}`;
  const source = of.answeredBy ?? of.to;
  const right = now.get(name);
  return right === undefined ? former.get(name)?.includes(source) : !right.includes(source);
}

function textOf(of: FakeEntry): string {
  return `${of.protocol} ${of.from} > ${of.to}, reply ${of.answeredBy ?? of.to} > ${of.from}`;
}

class World {
  readonly clock = new ToyClock();
  readonly reconciler: ConntrackReconciler;

  constructor(conntrack: FakeConntrack) {
    this.reconciler = reconcilerOf({ conntrack, clock: this.clock });
  }

  async sync(previous: State, next: State): Promise<void> {
    this.reconciler.moving();
    next.forEach((forwarding, i) => {
      const before = previous[i];
      const moved = before?.servicePort.protocol !== forwarding?.servicePort.protocol;
      if (moved) this.reconciler.changed(before, undefined);
      this.reconciler.changed(moved ? undefined : before, forwarding);
    });
    this.reconciler.settled({ nodePortAddresses: 'all' });
    await this.clock.pass(20_000);
  }
}

/** Source ports distinguish entries. */
function added(conntrack: FakeConntrack, drawn: readonly Drawn[], step: number): FakeEntry[] {
  const entries = drawn.map(({ answeredBy, ...rest }, i): FakeEntry => {
    const from = `172.16.0.9:${1000 + step * 100 + i}`;
    return { ...rest, from, ...(answeredBy === undefined ? {} : { answeredBy }) };
  });
  conntrack.add(...entries);
  return entries;
}

it('the conntrack reconciler deletes no entry that matches what is in force', async () => {
  await fc.assert(
    fc.asyncProperty(history, async (steps) => {
      const conntrack = new FakeConntrack();
      const world = new World(conntrack);
      let state: State = [undefined, undefined];
      let all: FakeEntry[] = [];
      for (const [step, { shapes, entries }] of steps.entries()) {
        const former = frontendsOf(state);
        const next = shapes.map(forwardingOf);
        all = [...all, ...added(conntrack, entries, step)];
        await world.sync(state, next);
        state = next;
        const left = conntrack.texts;
        const deleted = all.filter((of) => !left.includes(textOf(of)));
        for (const of of deleted) {
          expect(contradicts(of, frontendsOf(state), former), textOf(of)).toBe(true);
        }
        all = all.filter((of) => !deleted.includes(of));
      }
      await world.reconciler.stop();
    }),
    { numRuns: 150 },
  );
});

it('the conntrack reconciler deletes all contradicting entries at a start, and none at the next start', async () => {
  await fc.assert(
    fc.asyncProperty(history, async ([first]) => {
      const conntrack = new FakeConntrack();
      const all = added(conntrack, first!.entries, 0);
      const state = first!.shapes.map(forwardingOf);
      const none: State = [undefined, undefined];
      const world = new World(conntrack);
      await world.sync(none, state);
      await world.reconciler.stop();
      const now = frontendsOf(state);
      const expected = all.filter((of) => !contradicts(of, now, new Map())).map(textOf);
      expect(conntrack.texts).toEqual(expected.sort());

      const again = new World(conntrack);
      await again.sync(none, state);
      await again.reconciler.stop();
      expect(conntrack.texts).toEqual(expected);
    }),
    { numRuns: 150 },
  );
});

it('the conntrack reconciler keeps no entry to an endpoint that was removed while it ran', async () => {
  await fc.assert(
    fc.asyncProperty(shape, shape, fc.array(entry, { maxLength: 12 }), async (a, b, drawn) => {
      const conntrack = new FakeConntrack();
      const world = new World(conntrack);
      const before = [forwardingOf(a, 0), undefined];
      await world.sync([undefined, undefined], before);
      const all = added(conntrack, drawn, 0);
      const after = [forwardingOf(b, 0), undefined];
      const former = frontendsOf(before);
      const now = frontendsOf(after);
      await world.sync(before, after);
      await world.reconciler.stop();
      const left = conntrack.texts;
      for (const of of all) {
        const wasRight = former.get(`${of.protocol} ${of.to}`)?.includes(of.answeredBy ?? of.to);
        if (wasRight && contradicts(of, now, former)) expect(left).not.toContain(textOf(of));
      }
    }),
    { numRuns: 300 },
  );
});
