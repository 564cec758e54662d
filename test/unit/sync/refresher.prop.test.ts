/** A Service that changes while another one is refreshed is refreshed after that. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ClusterState } from '../../../src/state/store.ts';
import { Refresher } from '../../../src/sync/refresher.ts';
import { Pacer } from '../../../src/time/pacer.ts';
import { service } from '../state/build.ts';
import { SteppedClock } from './double.ts';

const names = fc.nat({ max: 7 });
const plan = fc.record({
  /** How many steps each Service has. */
  steps: fc.array(fc.constantFrom(0, 1, 5, 30, 200), { minLength: 8, maxLength: 8 }),
  changes: fc.array(fc.record({ name: names, touched: fc.array(names, { maxLength: 2 }) }), {
    maxLength: 20,
  }),
});

it('loses no change of a Service that comes in a turn of another one', async () => {
  await fc.assert(
    fc.asyncProperty(plan, async ({ changes, steps }) => {
      const clock = new SteppedClock();
      const state = new ClusterState();
      state.markSynced('services');
      state.markSynced('endpointslices');
      const stale = new Set<string>();
      let touched: readonly number[] = [];
      const touch = (name: number): void => {
        stale.add(`ns/${name}`);
        state.touch(`ns/${name}`);
      };
      const refresher = new Refresher({
        clock,
        state,
        sliceMs: 2,
        *refresh(key) {
          stale.delete(key);
          for (const name of touched) touch(name);
          touched = [];
          for (let i = 0; i < steps[Number(key.slice(3))]!; i += 1) {
            clock.ms += 0.1;
            yield;
          }
        },
      });
      const finish = (): void => {
        while (!refresher.idle) refresher.work(new Pacer(clock, 2));
      };
      for (const name of steps.keys()) {
        state.apply({ kind: 'service', service: service({ name: `${name}` }) });
      }
      finish();
      for (const change of changes) {
        touched = change.touched;
        touch(change.name);
        refresher.work(new Pacer(clock, 2));
      }
      finish();
      expect({ size: state.changed.size, stale: [...stale] }).toEqual({ size: 0, stale: [] });
    }),
    { numRuns: 300 },
  );
});
