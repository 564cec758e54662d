/** What must hold of mode ipvs in any life: of its batches, the kernel may take a part. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { linkName, tableName } from '../../../../src/modes/ipvs/layout.ts';
import {
  defaultIPVSSettings,
  type Environment,
  type ModeConfig,
} from '../../../../src/modes/mode.ts';
import { addressFields } from '../../../../src/modes/own-addresses.ts';
import type { Family } from '../../../../src/net/address.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import { batch } from '../../../conformance/ops.ts';
import type { FakeKernel } from '../../../fake/kernel.ts';
import { Refusal } from '../../../fake/refusal.ts';
import { address } from '../../state/build.ts';
import {
  type ClusterSpec,
  clusters,
  configs,
  type Edit,
  edited,
  edits,
  type Forwardings,
  families,
  forwardingsOf,
} from '../nftables/cluster.ts';
import { noDrift } from '../nftables/rig.ts';
import { longestMs, runs } from '../planner-laws.ts';
import { freshState, Rig } from './rig.ts';

/** `op`: the first one that a kernel refuses. */
type Deed = Edit | { readonly kind: (typeof deedKinds)[number]; readonly op: number };
const deedKinds = ['take', 'drain', 'audit', 'crash', 'recover', 'refuse'] as const;
const deeds: fc.Arbitrary<Deed> = fc.oneof(
  edits,
  fc.record({ kind: fc.constantFrom(...deedKinds), op: fc.nat(20) }),
);

/** An address of a Service that is this machine's own, too. */
const shared = { IPv4: address('10.96.0.101'), IPv6: address('fd00:96::101') };

class Life {
  readonly rig: Rig;
  readonly #config: ModeConfig;
  #spec: ClusterSpec;

  constructor(config: ModeConfig, cluster: Omit<ClusterSpec, 'environment'>) {
    this.#config = config;
    this.#spec = { ...cluster, environment: { serviceCIDRs: [], nodePortAddresses: [] } };
    this.rig = new Rig(config, this.environment);
  }

  get environment(): Environment {
    return this.#spec.environment;
  }

  /** IPVS has no ranges of ports. */
  get #wanted(): Forwardings {
    const all = [...forwardingsOf(this.#config.family, this.#spec)];
    return new Map(
      all.map(([key, { frontends, ...one }]) => {
        return [key, { ...one, frontends: frontends.filter((each) => !each.lastPort) }];
      }),
    );
  }

  async live(all: readonly Deed[]): Promise<void> {
    await this.rig.start(this.#wanted);
    for (const deed of all) await this.#live(deed);
    this.rig.take();
  }

  async #live(deed: Deed): Promise<void> {
    const { rig } = this;
    switch (deed.kind) {
      case 'take':
        rig.take();
        return;
      case 'drain':
        rig.take();
        await rig.drain();
        return;
      case 'audit':
        rig.take();
        expect(await rig.audit()).toEqual(noDrift);
        return;
      case 'refuse':
        rig.kernel.failNext({ code: 'ENOMEM', op: deed.op });
        return rig.takePartly();
      case 'crash':
      case 'recover':
        await this.cure(deed.kind);
        return;
      default:
        await this.#edit(deed);
    }
  }

  async cure(how: 'audit' | 'crash' | 'recover'): Promise<void> {
    if (how === 'audit') await this.rig.audit();
    else await this.rig[how](this.#wanted, this.environment);
  }

  async #edit(edit: Edit): Promise<void> {
    const { family } = this.#config;
    this.#spec = edited(family, this.#spec, edit);
    if (edit.kind === 'environment') {
      const { nodePortAddresses: own, serviceCIDRs } = this.environment;
      const nodePortAddresses = own === 'all' ? [shared[family]] : own;
      const environment = { serviceCIDRs, nodePortAddresses, hostAddresses: nodePortAddresses };
      this.#spec = { ...this.#spec, environment };
      await this.rig.planner.changeEnvironment(environment, noPause);
      this.rig.environment(environment);
    }
    this.rig.plan(this.#wanted);
  }

  /** All is in force as a start on an empty kernel would have it, and nothing is left to write. */
  async expectSettled(): Promise<void> {
    const { rig } = this;
    for (let i = 0; i < 9 && rig.planner.takeDeferred; i += 1) await rig.drain();
    expect(rig.planner.takeDeferred).toBeUndefined();
    expect(rig.state()).toBe(await freshState(this.#config, this.environment, rig.planned));
    const { writes } = rig.kernel;
    expect(await rig.audit()).toEqual(noDrift);
    expect(await rig.crash(rig.planned, this.environment)).toEqual(noDrift);
    expect(rig.kernel.writes).toBe(writes);
  }
}

const opening = families.chain((family) =>
  fc.record({ config: configs(family), cluster: clusters }),
);
const settings = fc.record({ scheduler: fc.constantFrom('rr', 'mh', 'lc') });

const meddlings = fc.record({
  deed: fc.constantFrom('service', 'schedule', 'server', 'weight', 'add', 'link', 'bind', 'table'),
  which: fc.nat(1000),
});

/** Another program deletes one of our objects, or changes it, if the kernel lets it. */
function meddle(kernel: FakeKernel, family: Family, { deed, which }: Meddling): void {
  const { ipvs, links } = kernel;
  const number = NFPROTO[family];
  const some = <T>(all: readonly T[]): T | undefined => all[which % Math.max(1, all.length)];
  const any = { family: number, protocol: 0, address: new Uint8Array(), port: 0 };
  const service = some(ipvs.answer({ kind: 'virtualServicesDump', family: number }));
  const server = some(ipvs.answer({ kind: 'destinationsDump', ...any }));
  if (deed === 'table') {
    const table = { family: number, table: tableName };
    kernel.foreign(
      batch({ kind: 'tableAdd', ...table, comment: '' }, { kind: 'tableDelete', ...table }),
    );
  } else if (deed === 'link') links.run({ kind: 'linkDelete', link: linkName });
  else if (deed === 'bind') {
    const own = [shared[family].bytes.map((byte, i) => (i === 2 ? byte ^ 1 : byte))];
    links.run({ kind: 'addressesAdd', ...addressFields(family, linkName, own), flags: 0 });
  } else if (service?.kind === 'virtualService' && server?.kind === 'destination') {
    if (deed === 'service') ipvs.run({ ...service, kind: 'virtualServiceDelete' });
    if (deed === 'schedule') ipvs.run({ ...service, kind: 'virtualServiceSet', scheduler: 'sed' });
    if (deed === 'server') ipvs.run({ ...server, kind: 'destinationDelete' });
    if (deed === 'weight') ipvs.run({ ...server, kind: 'destinationSet', weight: 7 });
    if (deed === 'add') ipvs.run({ ...server, kind: 'destinationAdd', destinationPort: 1 });
  }
}
type Meddling = typeof meddlings extends fc.Arbitrary<infer T> ? T : never;

it(
  'mode ipvs reaches the same state by any way, and undoes what other programs change',
  {
    timeout: longestMs,
  },
  () =>
    fc.assert(
      fc.asyncProperty(
        opening,
        settings,
        fc.array(deeds, { maxLength: 24 }),
        fc.array(meddlings, { maxLength: 3 }),
        fc.constantFrom('audit', 'crash', 'recover'),
        async ({ cluster, config }, ipvs, plot, meddled, cure) => {
          const life = new Life({ ...config, ipvs: { ...defaultIPVSSettings, ...ipvs } }, cluster);
          await life.live(plot);
          for (const one of meddled) {
            try {
              meddle(life.rig.kernel, config.family, one);
            } catch (error) {
              expect(error).toBeInstanceOf(Refusal);
            }
          }
          if (meddled.length > 0) await life.cure(cure);
          await life.expectSettled();
        },
      ),
      runs,
    ),
);
