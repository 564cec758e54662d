/** What must hold of every mode's planner whose batches are transactions, in any life. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Family } from '../../../src/net/address.ts';
import type { FakeKernel } from '../../fake/kernel.ts';
import { crashes, failures, quiet, Story, type Subject, stories } from './nftables/life.ts';
import { isDrift, noDrift } from './nftables/rig.ts';

/** Another program that edits what the mode has in the kernel. */
export interface Meddler<M> {
  readonly meddlings: fc.Arbitrary<M>;
  readonly meddle: (kernel: FakeKernel, family: Family, meddling: M) => void;
}

/** Of a test. */
export const longestMs = 300_000;
/** The simulation meets the same laws in each change; `scripts/nightly` asks for more. */
export const runs = {
  numRuns: Number(process.env.FAIRLEAD_RUNS ?? 40),
  interruptAfterTimeLimit: longestMs - 20_000,
};

export function describePlanner<M>(
  name: string,
  subject: Subject,
  { meddle, meddlings }: Meddler<M>,
): void {
  describe(name, { timeout: longestMs }, () => {
    it('reaches in steps the same state as one full load, and writes nothing for an unchanged Forwarding then', () =>
      fc.assert(
        fc.asyncProperty(stories(quiet), async ([opening, plot]) => {
          const story = new Story(subject, opening);
          await story.live(plot);
          expect(story.settle()).toBe(await story.fresh());
          for (const forwarding of story.rig.planned.values()) {
            story.rig.planner.change(forwarding, { ...forwarding });
          }
          expect(story.rig.planner.take()).toBeUndefined();
          expect(story.rig.planner.takeDeferred).toBeUndefined();
        }),
        runs,
      ));

    it('takes over from any process that died at any time, and writes nothing when it adopts or audits a correct state', () =>
      fc.assert(
        fc.asyncProperty(stories(crashes), async ([opening, plot]) => {
          const story = new Story(subject, opening);
          await story.live(plot);
          expect(story.settle()).toBe(await story.fresh());
          const { rig, spec, wanted } = story;
          const { writes } = rig.kernel;
          expect(await rig.audit()).toEqual(noDrift);
          expect(await rig.crash(wanted, spec.environment)).toEqual(noDrift);
          expect(await rig.recover(wanted, spec.environment)).toEqual(noDrift);
          rig.drain();
          expect(rig.kernel.writes).toBe(writes);
        }),
        runs,
      ));

    it('reports no drift for what it wrote itself, at any moment of the audit too, whatever deletions are deferred', () =>
      fc.assert(
        fc.asyncProperty(
          stories(quiet),
          fc.array(fc.array(quiet, { maxLength: 3 }), { maxLength: 24 }),
          async ([opening, plot], moments) => {
            const story = new Story(subject, opening);
            const { rig } = story;
            await story.live(plot);
            rig.take();
            const later = [...moments];
            const drift = await rig.auditBeside(() => {
              story.liveNow(later.shift() ?? []);
              rig.take();
            });
            expect(drift).toEqual(noDrift);
            expect(story.settle()).toBe(await story.fresh());
          },
        ),
        runs,
      ));

    it('continues after batches that the kernel refused', () =>
      fc.assert(
        fc.asyncProperty(stories(failures), async ([opening, plot]) => {
          const story = new Story(subject, opening);
          await story.live(plot);
          expect(story.settle()).toBe(await story.fresh());
        }),
        runs,
      ));

    it('undoes all changes of its table by another program, and nothing else', () =>
      fc.assert(
        fc.asyncProperty(
          stories(quiet),
          fc.array(meddlings, { minLength: 1, maxLength: 6 }),
          fc.constantFrom('audit', 'crash', 'recover'),
          async ([opening, plot], deeds, cure) => {
            const story = new Story(subject, opening);
            const { rig } = story;
            await story.live(plot);
            story.plan();
            rig.take();
            // What is going to be deleted anyway may be meddled with.
            const exact = rig.planner.takeDeferred === undefined;
            const before = story.meaning();
            for (const deed of deeds) meddle(rig.kernel, opening.config.family, deed);
            const meddled = story.meaning() !== before;
            const { wanted, spec } = story;
            const drift =
              cure === 'audit' ? await rig.audit() : await rig[cure](wanted, spec.environment);
            // A comment on a rule means nothing, and is drift all the same.
            if (cure === 'audit' && exact && meddled) expect(isDrift(drift)).toBe(true);
            rig.drain();
            expect(story.meaning()).toBe(await story.fresh());
            expect(await rig.audit()).toEqual(noDrift);
          },
        ),
        runs,
      ));

    it('repairs in slices while the cluster continues to change', () =>
      fc.assert(
        fc.asyncProperty(
          stories(quiet),
          fc.array(meddlings, { maxLength: 3 }),
          fc.array(fc.array(quiet, { maxLength: 3 }), { maxLength: 4 }),
          async ([opening, plot], deeds, slices) => {
            const story = new Story(subject, opening);
            const { rig } = story;
            await story.live(plot);
            story.plan();
            rig.take();
            for (const deed of deeds) meddle(rig.kernel, opening.config.family, deed);
            await rig.audit();
            const later = [...slices];
            await rig.audit(() => story.liveNow(later.shift() ?? []));
            expect(story.settle()).toBe(await story.fresh());
          },
        ),
        runs,
      ));
  });
}
