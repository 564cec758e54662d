/** Any life of a cluster, with sockets that are only written down: also SCTP has some. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type {
  Drift,
  Environment,
  ModeConfig,
  Planner,
  Repair,
} from '../../../../src/modes/mode.ts';
import { ModePlanner } from '../../../../src/modes/planner.ts';
import { UserspaceBackend, type UserspaceTypes } from '../../../../src/modes/userspace/backend.ts';
import { sameForwarding } from '../../../../src/state/equal.ts';
import type { Forwarding } from '../../../../src/state/types.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { WrittenSockets } from '../../../fake/sockets.ts';
import { address } from '../../state/build.ts';
import {
  type ClusterSpec,
  clusters,
  configs,
  type Edit,
  edited,
  edits,
  type Forwardings,
  forwardingsOf,
} from '../nftables/cluster.ts';

interface Opening {
  readonly config: ModeConfig;
  readonly cluster: Omit<ClusterSpec, 'environment'>;
}

/** The kernel makes IPv6 addresses local in its own time, which a fake has not. */
const openings: fc.Arbitrary<Opening> = fc.record({ config: configs('IPv4'), cluster: clusters });

type Happening = Edit | { readonly kind: 'take' | 'crash' | 'renew' | 'audit' | 'refuse' };

const only = <K extends Exclude<Happening['kind'], Edit['kind']>>(kind: K) => fc.constant({ kind });
const happenings: fc.Arbitrary<Happening> = fc.oneof(
  edits,
  edits,
  edits,
  only('take'),
  only('crash'),
  only('renew'),
  only('audit'),
  only('refuse'),
);

/** Sockets need to know the node's addresses; one VIP is such an address, another one at times. */
function bindable(environment: Environment): Environment {
  const [own, other] = [address('10.96.0.103'), address('10.96.0.102')];
  const { nodePortAddresses, serviceCIDRs } = environment;
  const listed = nodePortAddresses === 'all' ? [own] : nodePortAddresses;
  const hostAddresses = serviceCIDRs.length % 2 === 0 ? [own] : [own, other];
  return { ...environment, nodePortAddresses: listed, hostAddresses };
}

class Life {
  readonly kernel = new FakeKernel();
  readonly #config: ModeConfig;
  #spec: ClusterSpec;
  #environment: Environment;
  #sockets = new WrittenSockets();
  #planner: Planner;
  #planned: Forwardings = new Map();

  constructor(config: ModeConfig, spec: ClusterSpec) {
    this.#config = config;
    this.#spec = spec;
    this.#environment = bindable(spec.environment);
    this.#planner = this.#newPlanner();
  }

  get wanted(): Forwardings {
    return forwardingsOf(this.#config.family, this.#spec);
  }

  /** The same cluster, loaded in one step. */
  async fresh(): Promise<string> {
    const life = new Life(this.#config, this.#spec);
    await life.start();
    return life.state();
  }

  async live(happened: readonly Happening[]): Promise<void> {
    await this.start();
    for (const happening of happened) await this.#happen(happening);
    await this.#plan();
    await this.#take();
  }

  async #happen(happening: Happening): Promise<void> {
    switch (happening.kind) {
      case 'take':
        await this.#take();
        return;
      case 'crash':
        this.#sockets = new WrittenSockets();
        this.#planner = this.#newPlanner();
        await this.start();
        return;
      case 'renew':
        this.#planner = this.#newPlanner();
        await this.start();
        return;
      case 'audit':
        await this.#take();
        expect(await this.#audit()).toEqual({ missing: 0, wrong: 0, unwanted: 0 });
        return;
      case 'refuse':
        await this.#take();
        await this.#refused();
        return;
      default:
        this.#spec = edited(this.#config.family, this.#spec, happening);
        await this.#plan();
    }
  }

  /** A batch that fails leaves all as it was. */
  async #refused(): Promise<void> {
    const inForce = new Map(this.#planned);
    const before = this.state();
    this.#spec = { ...this.#spec, frontends: [...this.#spec.frontends].reverse() };
    await this.#plan();
    this.#sockets.refusals = 1;
    const batch = this.#planner.take();
    const result = await batch?.apply?.(this.kernel);
    const isRefused = this.#sockets.refusals < 1;
    this.#sockets.refusals = 0;
    if (!isRefused) {
      batch?.committed({ kind: 'applied' });
      return;
    }
    batch?.refused();
    expect(result).toMatchObject({ kind: 'failed', partly: false });
    expect(this.state()).toBe(before);
    await this.#planner.resume(inForce.values(), noPause);
    this.#planned = inForce;
    await this.#plan();
  }

  async start(): Promise<void> {
    this.#environment = bindable(this.#spec.environment);
    await this.#planner.changeEnvironment(this.#environment, noPause);
    this.#planned = this.wanted;
    const found = await this.#planner.observe(this.kernel, noPause);
    await this.#repair(await found.restore(this.#planned.values(), noPause));
  }

  async #audit(): Promise<Drift> {
    const found = await this.#planner.observe(this.kernel, noPause);
    return this.#repair(await found.repair(noPause));
  }

  async #repair(repair: Repair): Promise<Drift> {
    const drifts = [repair.drift];
    for (const wanted of this.#planned.values()) {
      drifts.push(repair.compare(wanted));
      await this.#take();
    }
    drifts.push(await repair.finish(noPause));
    await this.#take();
    const sum = (key: keyof Drift): number => drifts.reduce((all, drift) => all + drift[key], 0);
    return { missing: sum('missing'), wrong: sum('wrong'), unwanted: sum('unwanted') };
  }

  async #plan(): Promise<void> {
    const environment = bindable(this.#spec.environment);
    if (JSON.stringify(environment) !== JSON.stringify(this.#environment)) {
      this.#environment = environment;
      await this.#planner.changeEnvironment(environment, noPause);
    }
    const { wanted } = this;
    for (const key of new Set([...this.#planned.keys(), ...wanted.keys()])) {
      const [before, after] = [this.#planned.get(key), wanted.get(key)];
      if (!isSame(before, after)) this.#planner.change(before, after);
    }
    this.#planned = wanted;
  }

  async #take(): Promise<void> {
    const batch = this.#planner.take();
    if (batch === undefined) return;
    expect(await batch.apply?.(this.kernel)).toEqual({ kind: 'applied' });
    batch.committed({ kind: 'applied' });
  }

  #newPlanner(): Planner {
    return new ModePlanner<UserspaceTypes>({
      family: this.#config.family,
      backend: () => new UserspaceBackend(this.#config, this.#sockets),
      environment: this.#environment,
      bindsAddresses: true,
    });
  }

  state(): string {
    return [...(this.kernel.links.texts('fairlead0') ?? []), ...this.#sockets.texts()].join('\n');
  }
}

function isSame(before: Forwarding | undefined, after: Forwarding | undefined): boolean {
  if (before === undefined || after === undefined) return before === after;
  return sameForwarding(before, after);
}

describe('the userspace planner after random changes', () => {
  it('has the same sockets and addresses as a full load of the desired state', async () => {
    const lives = fc.asyncProperty(
      openings,
      fc.array(happenings, { maxLength: 12 }),
      async ({ config, cluster }, happened) => {
        const environment = { serviceCIDRs: [], nodePortAddresses: 'all' } as const;
        const life = new Life(config, { ...cluster, environment });
        await life.live(happened);
        expect(life.state()).toBe(await life.fresh());
      },
    );
    await fc.assert(lives, { numRuns: 100 });
  });
});
