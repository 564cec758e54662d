/** Lives of a planner for property tests, whatever its mode. */
import fc from 'fast-check';
import type { ModeConfig } from '../../../../src/modes/mode.ts';
import type { ProxyMode } from '../../../../src/modes/proxy-mode.ts';
import type { Family } from '../../../../src/net/address.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import {
  type ClusterSpec,
  clusterParts,
  configs,
  type Edit,
  edited,
  edits,
  environments,
  families,
  forwardingsOf,
} from './cluster.ts';
import { Rig } from './rig.ts';

/** What happens to a planner, in any order in which a sync loop may have it happen. */
type Happening =
  | Quiet
  | { readonly kind: 'refuse' | 'refuse deferred' | 'crash' | 'recover' | 'audit' };
export type Quiet = Edit | { readonly kind: 'take' | 'take deferred' };

const only = <K extends Exclude<Happening['kind'], Edit['kind']>>(kind: K) => fc.constant({ kind });

export const quiet: fc.Arbitrary<Quiet> = fc.oneof(
  edits,
  edits,
  only('take'),
  only('take deferred'),
);
export const crashes: fc.Arbitrary<Happening> = fc.oneof(
  quiet,
  quiet,
  only('crash'),
  only('recover'),
  only('audit'),
);
export const failures: fc.Arbitrary<Happening> = fc.oneof(
  crashes,
  only('refuse'),
  only('refuse deferred'),
);

export interface Opening {
  readonly config: ModeConfig;
  readonly cluster: ClusterSpec;
}

/** A mode, and what a kernel means to packets, as text. */
export interface Subject {
  readonly mode: ProxyMode;
  readonly meaning: (kernel: FakeKernel, family: Family) => string;
}

/** Lives through the happenings; what is left over then is planned, but not applied. */
export class Story {
  readonly rig: Rig;
  readonly #subject: Subject;
  readonly #config: ModeConfig;
  readonly #family: Family;
  spec: ClusterSpec;

  constructor(subject: Subject, { config, cluster }: Opening) {
    this.#subject = subject;
    this.#config = config;
    this.#family = config.family;
    this.spec = cluster;
    this.rig = new Rig(config, this.spec.environment, new FakeKernel(), subject.mode);
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
    return this.meaning();
  }

  meaning(): string {
    return this.#subject.meaning(this.rig.kernel, this.#family);
  }

  /** The meaning of a kernel that was empty and loaded with all that is planned. */
  async fresh(): Promise<string> {
    const { environment } = this.spec;
    const rig = new Rig(this.#config, environment, new FakeKernel(), this.#subject.mode);
    await rig.start(this.rig.planned);
    return this.#subject.meaning(rig.kernel, this.#family);
  }
}

export function stories<H extends Happening>(happenings: fc.Arbitrary<H>) {
  const plot = fc.array(happenings, { maxLength: 24 });
  return families.chain((family) => {
    const cluster = fc.record({ ...clusterParts, environment: environments(family) });
    return fc.tuple(fc.record({ config: configs(family), cluster }), plot);
  });
}
