import { describe, expect, it } from 'vitest';
import type { Environment } from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import { type Forwarding, forwardingKey } from '../../../src/state/types.ts';
import type { ForwardingFollower, Unswept } from '../../../src/sync/follower.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { config } from '../modes/nftables/forwardings.ts';
import { address } from '../state/build.ts';
import { quiet, refusal, ToyClock, type ToyKernel } from './double.ts';
import { Owners } from './handover-life.ts';
import { World, webService } from './world.ts';

/** The state that a follower knows from its notifications. */
class Follower implements ForwardingFollower {
  readonly held = new Map<string, Forwarding>();
  /** Keys of changes whose `previous` is not what was reported before. */
  readonly surprises: string[] = [];
  isUpToDate = false;
  #unswept: Unswept = () => undefined;
  nodePortAddresses: Environment['nodePortAddresses'] = [];

  moving(): void {
    this.isUpToDate = false;
  }

  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const servicePort = (next ?? previous)?.servicePort;
    if (servicePort === undefined) return;
    const key = forwardingKey(servicePort);
    if (this.held.get(key) !== previous) this.surprises.push(key);
    if (next === undefined) this.held.delete(key);
    else this.held.set(key, next);
  }

  settled({ nodePortAddresses }: Environment, unswept: Unswept): void {
    this.isUpToDate = true;
    this.nodePortAddresses = nodePortAddresses;
    this.#unswept = unswept;
  }

  /** Names of Services whose connections may be followed. */
  get names(): string[] {
    const unswept = this.isUpToDate ? this.#unswept() : () => true;
    const names = [...this.held.values()].filter((one) => unswept?.(one) !== true);
    return names.map(({ servicePort }) => servicePort.name).sort();
  }
}

async function started(services: number) {
  const follower = new Follower();
  const world = new World<ToyKernel>({}, undefined, undefined, follower);
  world.addServices(0, services);
  await world.start();
  return { world, follower };
}

describe('a follower of what is in force', () => {
  it('is notified of those whose state of packets must be deleted only after that', async () => {
    const { world, follower } = await started(3);
    world.kernel.bindings.set('a binding', 'web-1');
    const settledAtSweep: string[][] = [];
    world.kernel.refuse = (ops) => {
      if (ops.some(({ was }) => was === 'b')) settledAtSweep.push(follower.names);
      return undefined;
    };
    world.setEndpoints('web-1', '10.244.9.9');
    await world.clock.pass(0);
    expect(settledAtSweep).toEqual([['web-0', 'web-2']]);
    expect(follower.names).toEqual(['web-0', 'web-1', 'web-2']);
  });

  it('receives the changes and deletions of a recovery', async () => {
    const { world, follower } = await started(5);
    let refusals = 1;
    world.kernel.refuse = () => (refusals-- > 0 ? refusal('ENOBUFS') : undefined);
    const release = world.kernel.hold('reads');
    world.setEndpoints('web-1', '10.244.9.9');
    await world.clock.pass(0);
    // The kernel is being read: changes now are not part of a normal sync.
    world.removeService('web-2');
    await quiet();
    expect(follower.isUpToDate).toBe(false);
    release();
    await world.clock.pass(0);
    expect(follower.held).toEqual(new Map(world.sync.inForce));
    expect([...follower.held.keys()].sort()).toEqual(
      ['web-0', 'web-1', 'web-3', 'web-4'].map((name) => `default/${name}:http/TCP`),
    );
    expect(follower.surprises).toEqual([]);
    expect(follower.isUpToDate).toBe(true);
  });

  it('receives the deletion of what only a failed recovery brought into force', async () => {
    const follower = new Follower();
    const world = new World<ToyKernel>({ batchBytesMax: 150 }, undefined, undefined, follower);
    world.addServices(0, 3);
    await world.start();
    const refused = ['web-1', 'web-6'];
    world.kernel.refuse = (ops) => {
      if (!ops.some(({ object }) => object.includes(refused[0]!))) return undefined;
      refused.shift();
      return refusal('ENOBUFS');
    };
    const release = world.kernel.hold('reads');
    world.setEndpoints('web-1', '10.244.9.9');
    await world.clock.pass(0);
    world.addServices(5, 7);
    await quiet();
    release();
    await quiet();
    expect(world.kinds('failed').map(({ purpose }) => purpose)).toEqual(['changes', 'recovery']);
    expect(follower.held.has('default/web-5:http/TCP')).toBe(true);
    world.kernel.refuse = () => undefined;
    world.removeService('web-5');
    await world.clock.pass(1000);
    expect(follower.held).toEqual(new Map(world.sync.inForce));
    expect(follower.surprises).toEqual([]);
  });

  it.each(['keeps the rest', 'is deleted'])(
    'hears in a repair of a loss before the gain of another, when who loses %s',
    async (end) => {
      const owners = new Owners();
      const world = new World(
        { batchBytesMax: 1 },
        new FakeKernel(),
        (environment) => nftablesMode.planner(config, environment),
        owners,
      );
      world.addServices(0, 3);
      const externalIPs = [address('192.0.2.1')];
      world.setService(webService('web-2', 2, { externalIPs }));
      await world.start();
      world.kernel.failNext({ code: 'ENOBUFS' });
      if (end === 'is deleted') world.removeService('web-2');
      else world.setService(webService('web-2', 2));
      world.setService(webService('web-0', 0, { externalIPs }));
      await world.clock.pass(0);
      expect(world.kinds('failed').map(({ purpose }) => purpose)).toEqual(['changes']);
      expect(owners.contested).toEqual([]);
      const [held, owned] = [[...world.sync.inForce.values()], owners.keys()];
      expect(owned).toEqual(new Set(held.map(({ key }) => key)));
    },
  );

  it('has received all that the kernel holds when the kernel is read without commits', async () => {
    class BusyClock extends ToyClock {
      #calls = 0;
      override now(): number {
        this.#calls += 1;
        return super.now() + this.#calls;
      }
    }
    const follower = new Follower();
    const world = new World<ToyKernel>({}, undefined, undefined, follower, new BusyClock());
    world.addServices(0, 200);
    const applied = Promise.withResolvers<void>();
    const changed = follower.changed.bind(follower);
    follower.changed = (previous, next) => {
      changed(previous, next);
      applied.resolve();
    };
    world.synced();
    world.run();
    await applied.promise;
    const read = async () => [follower.held.size, Object.keys(world.forwarded).length];
    expect(await world.ruleset.readAlone(read)).toEqual([200, 200]);
  });

  it('is notified of being up to date also if the kernel refuses a Service', async () => {
    const { world, follower } = await started(3);
    world.kernel.refuse = (ops) => {
      const op = ops.findIndex(({ object }) => object.includes('web-1'));
      return op < 0 ? undefined : refusal('EINVAL', op);
    };
    world.setEndpoints('web-1', '10.244.9.9');
    await world.clock.pass(0);
    expect(follower.held).toEqual(new Map(world.sync.inForce));
    expect(follower.isUpToDate).toBe(true);
  });

  it('receives the addresses that accept node ports, once they do', async () => {
    const { world, follower } = await started(1);
    expect(follower.nodePortAddresses).toBe('all');
    const nodePortAddresses = [address('192.168.0.1')];
    world.environment = { serviceCIDRs: [], nodePortAddresses };
    const release = world.kernel.hold();
    world.loop.wake();
    await quiet();
    expect(follower.nodePortAddresses).toBe('all');
    release();
    await world.clock.pass(0);
    expect(follower.nodePortAddresses).toBe(nodePortAddresses);
  });
});
