import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Environment, ModeConfig } from '../../../../src/modes/mode.ts';
import type { Address } from '../../../../src/net/address.ts';
import { address } from '../../state/build.ts';
import {
  type ClusterSpec,
  clusters,
  configs,
  type Edit,
  edited,
  edits,
  families,
  forwardingsOf,
} from '../nftables/cluster.ts';
import { freshState, Rig } from './rig.ts';

type Happening = Edit | { readonly kind: 'take' | 'drain' | 'crash' | 'audit' | 'break' };

const only = <K extends Exclude<Happening['kind'], Edit['kind']>>(kind: K) => fc.constant({ kind });
const happenings: fc.Arbitrary<Happening> = fc.oneof(
  edits,
  edits,
  edits,
  only('take'),
  only('drain'),
  only('crash'),
  only('audit'),
  only('break'),
);

interface Opening {
  readonly config: ModeConfig;
  readonly cluster: Omit<ClusterSpec, 'environment'>;
}

const openings: fc.Arbitrary<Opening> = families.chain((family) =>
  fc.record({ config: configs(family), cluster: clusters }),
);

/** Node ports need to know their addresses; one VIP is the node's own, another one at times. */
function bindable(family: ModeConfig['family'], environment: Environment): Environment {
  const [own, other] = ['103', '102'].map((host) =>
    address(family === 'IPv4' ? `10.96.0.${host}` : `fd00:96::${host}`),
  ) as [Address, Address];
  const { nodePortAddresses, serviceCIDRs } = environment;
  const listed = nodePortAddresses === 'all' ? [own] : nodePortAddresses;
  const hostAddresses = serviceCIDRs.length % 2 === 0 ? [own] : [own, other];
  return { ...environment, nodePortAddresses: listed, hostAddresses };
}

class Life {
  readonly rig: Rig;
  readonly #config: ModeConfig;
  #spec: ClusterSpec;
  #environment: Environment;

  constructor({ config, cluster }: Opening) {
    this.#config = config;
    this.#spec = { ...cluster, environment: { serviceCIDRs: [], nodePortAddresses: 'all' } };
    this.#environment = bindable(config.family, this.#spec.environment);
    this.rig = new Rig(config, this.#environment);
  }

  get wanted() {
    return forwardingsOf(this.#config.family, this.#spec);
  }

  fresh(): Promise<string> {
    return freshState(this.#config, this.#environment, this.wanted);
  }

  async live(happened: readonly Happening[]): Promise<void> {
    await this.rig.start(this.wanted);
    for (const happening of happened) await this.#happen(happening);
    await this.plan();
    this.rig.take();
    // Chains and sets go when they were seen unused twice.
    for (let i = 0; i < 3 && this.rig.planner.takeDeferred; i += 1) await this.rig.drain();
    expect(this.rig.planner.takeDeferred).toBeUndefined();
  }

  async #happen(happening: Happening): Promise<void> {
    switch (happening.kind) {
      case 'take':
        this.rig.take();
        return;
      case 'drain':
        this.rig.take();
        await this.rig.drain();
        return;
      case 'crash':
        await this.plan();
        await this.rig.crash(this.wanted);
        return;
      case 'audit':
        this.rig.take();
        await this.rig.audit();
        return;
      case 'break':
        // Whatever comes about IPVS first is refused, and all that follows its run is not done.
        await this.plan();
        this.rig.kernel.failNext({ code: 'ENOMEM', forKey: 'TCP' });
        await this.rig.takePartly();
        return;
      default:
        this.#spec = edited(this.#config.family, this.#spec, happening);
        await this.plan();
    }
  }

  async plan(): Promise<void> {
    const next = bindable(this.#config.family, this.#spec.environment);
    if (JSON.stringify(next) !== JSON.stringify(this.#environment)) {
      this.#environment = next;
      await this.rig.environment(next);
    }
    this.rig.plan(this.wanted);
  }
}

describe('the ipvs planner after random changes', () => {
  it('has the same kernel state as a full load of the desired state', async () => {
    const lives = fc.asyncProperty(
      openings,
      fc.array(happenings, { maxLength: 12 }),
      async (opening, happened) => {
        const life = new Life(opening);
        await life.live(happened);
        expect(life.rig.state()).toBe(await life.fresh());
      },
    );
    await fc.assert(lives, { numRuns: 60 });
  });

  it('leaves a kernel state to which a restart writes nothing', async () => {
    const lives = fc.asyncProperty(
      openings,
      fc.array(happenings, { maxLength: 6 }),
      async (opening, happened) => {
        const life = new Life(opening);
        await life.live(happened);
        const { writes } = life.rig.kernel;
        const drift = await life.rig.crash(life.wanted);
        expect(drift).toEqual({ missing: 0, wrong: 0, unwanted: 0 });
        expect(life.rig.kernel.writes).toBe(writes);
      },
    );
    await fc.assert(lives, { numRuns: 60 });
  });
});
