import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ModeConfig } from '../../../../src/modes/mode.ts';
import type { Family } from '../../../../src/state/address.ts';
import {
  type ClusterSpec,
  clusters,
  configs,
  type Edit,
  edited,
  edits,
  families,
  forwardingsOf,
} from './cluster.ts';
import { meddle, meddlings } from './meddler.ts';
import { freshRuleset, isDrift, noDrift, Rig } from './rig.ts';

/** What happens to a planner, in any order in which a sync loop may have it happen. */
type Happening =
  | Quiet
  | { readonly kind: 'refuse' | 'refuse deferred' | 'crash' | 'recover' | 'audit' };
type Quiet = Edit | { readonly kind: 'take' | 'take deferred' };

const only = <K extends Exclude<Happening['kind'], Edit['kind']>>(kind: K) => fc.constant({ kind });

const quiet: fc.Arbitrary<Quiet> = fc.oneof(edits, edits, only('take'), only('take deferred'));
const crashes: fc.Arbitrary<Happening> = fc.oneof(
  quiet,
  quiet,
  only('crash'),
  only('recover'),
  only('audit'),
);
const failures: fc.Arbitrary<Happening> = fc.oneof(
  crashes,
  only('refuse'),
  only('refuse deferred'),
);

interface Opening {
  readonly config: ModeConfig;
  readonly cluster: Omit<ClusterSpec, 'environment'>;
}

/** Lives through the happenings; what is left over then is planned, but not applied. */
class Story {
  readonly rig: Rig;
  readonly #config: ModeConfig;
  readonly #family: Family;
  spec: ClusterSpec;

  constructor({ config, cluster }: Opening) {
    this.#config = config;
    this.#family = config.family;
    this.spec = { ...cluster, environment: { serviceCIDRs: [], nodePortAddresses: 'all' } };
    this.rig = new Rig(config, this.spec.environment);
  }

  get wanted() {
    return forwardingsOf(this.#family, this.spec);
  }

  async live(happenings: readonly Happening[]): Promise<void> {
    await this.rig.start(this.wanted);
    for (const happening of happenings) await this.#happen(happening);
  }

  /** What does not wait for the kernel to be read. */
  liveNow(happenings: readonly Quiet[]): void {
    for (const happening of happenings) this.#happenNow(happening);
  }

  #happenNow(happening: Quiet): void {
    switch (happening.kind) {
      case 'take':
        this.rig.take();
        break;
      case 'take deferred':
        this.rig.takeDeferred();
        break;
      default:
        this.spec = edited(this.#family, this.spec, happening);
        this.plan();
    }
  }

  async #happen(happening: Happening): Promise<void> {
    switch (happening.kind) {
      case 'refuse':
        await this.rig.takeRefused();
        break;
      case 'refuse deferred':
        await this.rig.takeDeferredRefused();
        break;
      case 'crash':
        await this.rig.crash(this.wanted, this.spec.environment);
        break;
      case 'recover':
        await this.rig.recover(this.wanted, this.spec.environment);
        break;
      case 'audit':
        await this.rig.audit();
        break;
      default:
        this.#happenNow(happening);
    }
  }

  plan(): void {
    this.rig.environment(this.spec.environment);
    this.rig.plan(this.wanted);
  }

  /** Brings everything into force, and gives the ruleset. */
  settle(): string {
    this.plan();
    this.rig.take();
    this.rig.drain();
    return this.rig.kernel.ruleset();
  }

  fresh(): Promise<string> {
    return freshRuleset(this.#config, this.spec.environment, this.rig.planned);
  }
}

function stories<H extends Happening>(happenings: fc.Arbitrary<H>) {
  const plot = fc.array(happenings, { maxLength: 24 });
  return families.chain((family) => {
    const opening = fc.record({ config: configs(family), cluster: clusters });
    return fc.tuple(opening, plot);
  });
}

describe('NFTablesPlanner', { timeout: 60_000 }, () => {
  it('comes in steps to where one full load comes', () =>
    fc.assert(
      fc.asyncProperty(stories(quiet), async ([opening, plot]) => {
        const story = new Story(opening);
        await story.live(plot);
        expect(story.settle()).toBe(await story.fresh());
      }),
    ));

  it('writes nothing for a Forwarding that stays as it is', () =>
    fc.assert(
      fc.asyncProperty(stories(quiet), async ([opening, plot]) => {
        const story = new Story(opening);
        await story.live(plot);
        story.settle();
        for (const forwarding of story.rig.planned.values()) {
          story.rig.planner.change(forwarding, { ...forwarding });
        }
        expect(story.rig.planner.take()).toBeUndefined();
        expect(story.rig.planner.deferred).toBe(false);
      }),
    ));

  it('takes over from any process that died at any time', () =>
    fc.assert(
      fc.asyncProperty(stories(crashes), async ([opening, plot]) => {
        const story = new Story(opening);
        await story.live(plot);
        expect(story.settle()).toBe(await story.fresh());
      }),
    ));

  it('writes nothing when it takes over what is right, nor when it audits it', () =>
    fc.assert(
      fc.asyncProperty(stories(crashes), async ([opening, plot]) => {
        const story = new Story(opening);
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
        const story = new Story(opening);
        await story.live(plot);
        story.rig.take();
        expect(await story.rig.audit()).toEqual(noDrift);
      }),
    ));

  it('goes on after batches that the kernel refused', () =>
    fc.assert(
      fc.asyncProperty(stories(failures), async ([opening, plot]) => {
        const story = new Story(opening);
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
          const story = new Story(opening);
          const { rig } = story;
          await story.live(plot);
          story.plan();
          rig.take();
          // What is going to be deleted anyway may be meddled with.
          const exact = !rig.planner.deferred;
          const before = rig.kernel.ruleset();
          for (const deed of deeds) meddle(rig.kernel, opening.config.family, deed);
          const meddled = rig.kernel.ruleset() !== before;
          const { wanted, spec } = story;
          const drift =
            cure === 'audit' ? await rig.audit() : await rig[cure](wanted, spec.environment);
          if (cure === 'audit' && exact) expect(isDrift(drift)).toBe(meddled);
          rig.drain();
          expect(rig.kernel.ruleset()).toBe(await story.fresh());
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
          const story = new Story(opening);
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
