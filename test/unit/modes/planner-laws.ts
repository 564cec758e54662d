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

export function describePlanner<M>(
  name: string,
  subject: Subject,
  { meddle, meddlings }: Meddler<M>,
): void {
  describe(name, { timeout: 300_000 }, () => {
    it('comes in steps to where one full load comes', () =>
      fc.assert(
        fc.asyncProperty(stories(quiet), async ([opening, plot]) => {
          const story = new Story(subject, opening);
          await story.live(plot);
          expect(story.settle()).toBe(await story.fresh());
        }),
      ));

    it('writes nothing for a Forwarding that stays as it is', () =>
      fc.assert(
        fc.asyncProperty(stories(quiet), async ([opening, plot]) => {
          const story = new Story(subject, opening);
          await story.live(plot);
          story.settle();
          for (const forwarding of story.rig.planned.values()) {
            story.rig.planner.change(forwarding, { ...forwarding });
          }
          expect(story.rig.planner.take()).toBeUndefined();
          expect(story.rig.planner.takeDeferred).toBeUndefined();
        }),
      ));

    it('takes over from any process that died at any time', () =>
      fc.assert(
        fc.asyncProperty(stories(crashes), async ([opening, plot]) => {
          const story = new Story(subject, opening);
          await story.live(plot);
          expect(story.settle()).toBe(await story.fresh());
        }),
      ));

    it('writes nothing when it takes over what is right, nor when it audits it', () =>
      fc.assert(
        fc.asyncProperty(stories(crashes), async ([opening, plot]) => {
          const story = new Story(subject, opening);
          await story.live(plot);
          story.settle();
          const { rig, spec, wanted } = story;
          const { writes } = rig.kernel;
          expect(await rig.audit()).toEqual(noDrift);
          expect(await rig.crash(wanted, spec.environment)).toEqual(noDrift);
          expect(await rig.recover(wanted, spec.environment)).toEqual(noDrift);
          rig.drain();
          expect(rig.kernel.writes).toBe(writes);
        }),
      ));

    it('sees no drift in what it wrote itself, whatever still waits to be deleted', () =>
      fc.assert(
        fc.asyncProperty(stories(quiet), async ([opening, plot]) => {
          const story = new Story(subject, opening);
          await story.live(plot);
          story.rig.take();
          expect(await story.rig.audit()).toEqual(noDrift);
        }),
      ));

    it('goes on after batches that the kernel refused', () =>
      fc.assert(
        fc.asyncProperty(stories(failures), async ([opening, plot]) => {
          const story = new Story(subject, opening);
          await story.live(plot);
          expect(story.settle()).toBe(await story.fresh());
        }),
      ));

    it('undoes whatever another program did to the table, and nothing else', () =>
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
      ));

    it('repairs in slices while the cluster goes on changing', () =>
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
      ));
  });
}
