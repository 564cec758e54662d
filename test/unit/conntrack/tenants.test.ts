/** What one tenant who asks for every kind of pass all the time leaves to others. */
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { ConntrackEvent } from '../../../src/conntrack/events.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { FakeConntrack, type FakeEntry } from '../../fake/conntrack.ts';
import { ToyClock } from '../sync/double.ts';
import { dns, reconcilerOf } from './build.ts';

/** How long it takes to read the table. */
const dumpMs = 100;

/** A Service in two states, and an entry that contradicts the second one. */
interface Changing {
  readonly states: readonly [Forwarding, Forwarding];
  readonly entry: FakeEntry;
}

function changing(index: number, protocol: 'UDP' | 'SCTP' | 'TCP', answered: boolean): Changing {
  const clusterIP = `10.96.1.${index}`;
  const fields = { name: `service-${index}`, clusterIPs: [clusterIP], protocol };
  const states = [['10.244.0.1', '10.244.0.2'], ['10.244.0.1']] as const;
  const [both, one] = states.map((endpoints) => dns(endpoints, fields));
  const from = `172.16.0.9:${4000 + index}`;
  const answeredBy = '10.244.0.2:5353';
  const entry = { protocol, from, to: `${clusterIP}:53`, answeredBy, answered };
  return { states: [both!, one!], entry };
}

/**
 * A Service for each of the five kinds of passes: for each protocol, one that ends connections, one
 * that frees them.
 */
function ofAllKinds(first: number): readonly Changing[] {
  const [ending, rescued] = [changing(first, 'TCP', true), changing(first + 1, 'TCP', false)];
  const [both, one] = ending.states;
  const ended = [both, one].map((state): Forwarding => {
    return { ...both, endings: { endAfterMs: 0, kept: state.cluster } };
  });
  const all = rescued.states[0];
  const without: Forwarding = {
    ...all,
    deal: {
      ...{ asked: undefined, balance: 'random', because: undefined, local: all.local },
      cluster: rescued.states[1].cluster,
      leftOut: { cluster: new Set([all.cluster.key(1)]), local: new Set() },
    },
  };
  return [
    changing(first + 2, 'UDP', true),
    changing(first + 3, 'SCTP', true),
    changing(first + 4, 'TCP', false),
    { ...ending, states: [ended[0]!, ended[1]!] },
    { ...rescued, states: [all, without] },
  ];
}

/** All five passes, and with the rest after them. */
const passesMs = 5 * dumpMs;
const roundMs = 5 * passesMs;
/** How long TCP handshakes are left alone. */
const graceMs = 500;

class World {
  readonly clock = new ToyClock();
  readonly conntrack = new FakeConntrack();
  readonly events: ConntrackEvent[] = [];
  /** Of the tenant, and of others. */
  readonly services = ofAllKinds(1);
  readonly others = ofAllKinds(101);
  readonly reconciler = reconcilerOf(this, { observer: (event) => this.events.push(event) });
  #state = 0;

  constructor() {
    this.conntrack.before = (operation) => {
      if (operation !== 'dump') return;
      return new Promise<void>((resolve) => void this.clock.after(dumpMs, resolve));
    };
    for (const { states } of [...this.services, ...this.others]) {
      this.reconciler.changed(undefined, states[0]);
    }
    this.reconciler.settled({ nodePortAddresses: 'all' });
    onTestFinished(async () => {
      const stopped = this.reconciler.stop();
      await this.clock.pass(dumpMs);
      await stopped;
    });
  }

  /** Others change once; entries of theirs contradict that. */
  changeOthers(others = this.others): void {
    for (const { entry, states } of others) {
      this.conntrack.add(entry);
      this.reconciler.changed(...states);
    }
  }

  /** The tenant changes what it has, as often as it can. */
  async change(forMs: number): Promise<void> {
    for (const endMs = this.clock.now() + forMs; this.clock.now() < endMs; ) {
      this.#state = 1 - this.#state;
      for (const { states } of this.services) {
        this.reconciler.changed(states[1 - this.#state]!, states[this.#state]!);
      }
      this.reconciler.settled({ nodePortAddresses: 'all' });
      await this.clock.pass(70);
    }
  }

  /** Entries that are left, but for that of a handshake. */
  get left(): string[] {
    const handshake = this.others[2]!.entry.from;
    return this.conntrack.texts.filter((text) => !text.includes(handshake));
  }

  get spentMs(): number {
    const times = this.events.map((event) => (event.kind === 'reconciled' ? event.durationMs : 0));
    return times.reduce((sum, ms) => sum + ms, 0);
  }
}

let world: World;
beforeEach(async () => {
  world = new World();
  await world.clock.pass(10_000);
  world.events.length = 0;
});

describe('a tenant who causes all kinds of conntrack passes all the time', () => {
  it('takes no more than a fifth of the time', async () => {
    await world.change(60_000);
    expect(world.spentMs).toBeGreaterThan(60_000 / 6);
    expect(world.spentMs).toBeLessThanOrEqual(60_000 / 5 + passesMs);
  });

  it('keeps entries of other Services, of any kind, for a round of passes and its rest', async () => {
    await world.change(10_000);
    world.changeOthers();
    expect(world.conntrack.texts).toHaveLength(5);
    await world.change(roundMs + passesMs);
    expect(world.left).toEqual([]);
    // Passes under way are of older handshakes: those of these come with the next ones.
    await world.change(roundMs + graceMs);
    expect(world.conntrack.texts).toEqual([]);
  });

  it('does not keep others from being asked whether they wait for sweeps', async () => {
    const waiting = Array.from({ length: 3000 }, (_, i) => {
      const clusterIPs = [`10.97.${i >> 8}.${i & 0xff}`];
      return dns(['10.244.0.3'], { name: `sticky-${i}`, clusterIPs });
    });
    for (const sticky of waiting) world.reconciler.changed(undefined, sticky);
    world.reconciler.settled({ nodePortAddresses: 'all' });
    await world.clock.pass(10_000);
    await world.change(10_000);
    for (const sticky of waiting) world.reconciler.changed(sticky, undefined);
    for (const sticky of waiting) world.reconciler.changed(undefined, sticky);
    world.changeOthers();
    const isWaiting = ({ servicePort }: Forwarding) => servicePort.name.startsWith('sticky');
    world.reconciler.settled({ nodePortAddresses: 'all' }, () => isWaiting);
    // No change follows with which they would be asked, and passes of all kinds rest or are due.
    await world.clock.pass(roundMs + passesMs);
    expect(world.left).toEqual([]);
    await world.clock.pass(roundMs + graceMs);
    expect(world.conntrack.texts).toEqual([]);
  });
});

it('a conntrack pass that waits for the end of a sync makes the next ones rest no longer', async () => {
  const world = new World();
  await world.clock.pass(10_000);
  const [udp, sctp] = world.others;
  world.changeOthers([udp!]);
  world.reconciler.settled({ nodePortAddresses: 'all' });
  world.reconciler.moving();
  await world.clock.pass(10_000);
  expect(world.conntrack.texts).toHaveLength(1);
  world.reconciler.settled({ nodePortAddresses: 'all' });
  await world.clock.pass(0);
  expect(world.conntrack.texts).toEqual([]);
  world.changeOthers([sctp!]);
  world.reconciler.settled({ nodePortAddresses: 'all' });
  await world.clock.pass(5 * dumpMs - 1);
  expect(world.conntrack.texts).toHaveLength(1);
  await world.clock.pass(1);
  expect(world.conntrack.texts).toEqual([]);
});
