import { describe, expect, it } from 'vitest';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import type { Reply } from '../../../../src/kernel/ops.ts';
import type { Drift, Observation } from '../../../../src/modes/mode.ts';
import type { Forwarding } from '../../../../src/state/types.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import type { FakeKernel } from '../../../fake/kernel.ts';
import { kernelWith } from '../../../fake/kernel-with.ts';
import { all, clusterIP, config, environment, forwarding, pool } from './forwardings.ts';
import { noDrift, Rig } from './rig.ts';

type Order = (entries: readonly Buffer[]) => readonly Buffer[];

/** The kernel, but the entries of a pool map come in one record, in this order. */
function ordered(kernel: FakeKernel, order: Order): Kernel {
  const inOrder = (records: readonly Reply[]): readonly Reply[] => {
    const found = records.filter((record) => record.kind === 'elements');
    const [first] = found;
    if (first === undefined || first.dataLength === 0) return records;
    const stride = first.keyLength + first.dataLength;
    const entries = found.flatMap((record) =>
      Array.from({ length: record.count }, (_, i) =>
        Buffer.from(record.entries.subarray(i * stride, (i + 1) * stride)),
      ),
    );
    return [{ ...first, count: entries.length, entries: Buffer.concat(order(entries)) }];
  };
  const dump: Kernel['dump'] = async (request) => {
    const { records, consistent } = await kernel.dump(request);
    return { records: inOrder(records), consistent };
  };
  return kernelWith(kernel, { dump });
}

/** A process that finds what another has left there for `before`. */
class Restart {
  readonly #planner;
  readonly #kernel: Kernel;

  private constructor(rig: Rig, order: Order) {
    this.#planner = rig.newPlanner();
    this.#kernel = ordered(rig.kernel, order);
  }

  static async after(before: Forwarding, order: Order): Promise<Restart> {
    const rig = new Rig(config, environment);
    await rig.start(all(before));
    return new Restart(rig, order);
  }

  observe(): Promise<Observation> {
    return this.#planner.observe(this.#kernel, noPause);
  }

  async repair(found: Observation, wanted: Forwarding): Promise<Drift> {
    const repair = await found.restore([wanted], noPause);
    expect(repair.drift).toEqual(noDrift);
    const drift = repair.compare(wanted);
    expect(await repair.finish(noPause)).toEqual(noDrift);
    return drift;
  }
}

/** The addon's: by their bytes, in which an index has its low byte first. */
const sorted: Order = (entries) => [...entries].sort(Buffer.compare);

const orders: Readonly<Record<string, Order>> = {
  'by index': (entries) => entries,
  'by bytes': sorted,
  'the last one first': (entries) => [...entries].reverse(),
  'those at odd indexes last': (entries) => [
    ...entries.filter((_, i) => i % 2 === 0),
    ...entries.filter((_, i) => i % 2 === 1),
  ],
};

describe('the observation of a pool', () => {
  const hosts = Array.from({ length: 600 }, (_, i) => i + 1);

  for (const [name, order] of Object.entries(orders)) {
    it(`is the same if its entries arrive ${name}`, async () => {
      const before = forwarding('web', pool(...hosts));
      const restart = await Restart.after(before, order);
      const found = await restart.observe();
      const adopted = found.adopt(forwarding('web', pool(...hosts.toReversed())));
      expect(adopted.cluster.texts()).toEqual(before.cluster.texts());
      expect(await restart.repair(found, adopted)).toEqual(noDrift);
    });
  }

  it('shows which endpoints differ from the desired ones', async () => {
    const restart = await Restart.after(forwarding('web', pool(1, 2, 3, 4)), sorted);
    const drift = await restart.repair(
      await restart.observe(),
      forwarding('web', pool(1, 9, 3, 8)),
    );
    expect(drift).toEqual({ missing: 0, wrong: 2, unwanted: 0 });
  });
});

describe('the observation of a Forwarding', () => {
  const local = {
    local: pool(2, 3),
    frontends: [clusterIP('10.96.0.1'), clusterIP('10.96.0.2', 'outsideLocal')],
  };

  for (const [name, one] of Object.entries({
    'of one endpoint': forwarding('web', pool(1)),
    'of several endpoints': forwarding('web', pool(1, 2, 3)),
    'with a pool of this node': forwarding('web', pool(1, 2, 3), local),
    'without endpoints': forwarding('web', pool(), {
      frontends: [clusterIP('10.96.0.1', 'reject')],
    }),
  })) {
    it(`${name} that the kernel has in its order is adopted unchanged`, async () => {
      const restart = await Restart.after(one, sorted);
      const found = await restart.observe();
      expect(found.adopt(one)).toBe(one);
      expect(await restart.repair(found, one)).toEqual(noDrift);
    });
  }

  it("has the kernel's order of both its pools", async () => {
    const before = forwarding('web', pool(1, 2, 3), local);
    const restart = await Restart.after(before, sorted);
    const after = forwarding('web', pool(3, 2, 1), { ...local, local: pool(3, 2) });
    const adopted = (await restart.observe()).adopt(after);
    expect(adopted.cluster.texts()).toEqual(before.cluster.texts());
    expect(adopted.local.texts()).toEqual(before.local.texts());
  });

  it("keeps the kernel's order, though some endpoints are new", async () => {
    const restart = await Restart.after(forwarding('web', pool(1, 2, 3)), sorted);
    const adopted = (await restart.observe()).adopt(forwarding('web', pool(4, 3, 2)));
    expect(adopted.cluster.texts()).toEqual(pool(4, 2, 3).texts());
  });
});
