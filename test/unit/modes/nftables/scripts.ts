/** A few lives of a Service as batches, for golden files and for `nft -f`. */

import type { Family } from '../../../../src/net/address.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { scriptOf as printed } from '../../../print/script.ts';
import { address, cidr, ready, readyLocal, service } from '../../state/build.ts';
import type { Rig } from './rig.ts';
import {
  at,
  block,
  endpoints,
  everyKind,
  everyProtocol,
  maybeHere,
  Stage,
  type StageOptions,
} from './stage.ts';

class RecordingKernel extends FakeKernel {
  readonly batches: Uint8Array[] = [];

  override applyNow(ops: Uint8Array) {
    this.batches.push(ops.slice());
    return super.applyNow(ops);
  }
}

/** Batches before a story: what the mode writes into an empty kernel. */
export const skeletonBatches = 1;

const here = '10.244.0.5';
const away = '10.244.1.6';
const further = '10.244.2.7';
const both = { [away]: ready, [here]: readyLocal };

const stories = {
  'cluster-ip': async (stage, family) => {
    const web = service({ clusterIPs: [at(family, '10.96.0.1')] });
    await stage.play([web, endpoints(family, both)]);
    await stage.play([web, endpoints(family, { ...both, [further]: ready })]);
    await stage.play([web, endpoints(family, { [away]: ready, [further]: ready })]);
    stage.rig.drain();
    await stage.play();
    stage.rig.drain();
  },
  'every-kind': async (stage, family) => {
    const loadBalancerSourceRanges = ['192.0.0.0/8'];
    await stage.play([everyKind(family, { loadBalancerSourceRanges }), endpoints(family, both)]);
  },
  'policy-local': async (stage, family) => {
    const web = everyKind(family, {
      internalTrafficPolicy: 'Local',
      externalTrafficPolicy: 'Local',
    });
    await stage.play([web, endpoints(family, both)]);
    await stage.play([web, endpoints(family, { [away]: ready })]);
    stage.rig.drain();
  },
  'no-endpoints': async (stage, family) => {
    await stage.play([everyKind(family, { endings: { endAfterMs: 1000 } })]);
    await stage.play([everyKind(family), endpoints(family, { [away]: ready })]);
    stage.rig.drain();
  },
  'session-affinity': async (stage, family) => {
    const policies = { externalTrafficPolicy: 'Local', affinityTimeoutSeconds: 10800 } as const;
    await stage.play([everyKind(family, policies), endpoints(family, both)]);
    await stage.play([everyKind(family), endpoints(family, both)]);
    stage.rig.drain();
  },
  protocols: async (stage, family) => {
    await stage.play(everyProtocol(family, both));
  },
  'as-iptables': async (stage, family) => {
    const web = everyKind(family, { balancing: { balance: 'round-robin' } });
    await stage.play([web, endpoints(family, { ...both, [maybeHere]: ready })]);
  },
  environment: async (stage, family) => {
    await stage.play();
    const serviceCIDRs = ['10.96.0.0/16', '10.100.0.0/16'].map((text) => cidr(block(family, text)));
    const nodePortAddresses = [address(at(family, '192.168.0.2'))];
    stage.rig.environment({ serviceCIDRs, nodePortAddresses });
    stage.rig.take();
    stage.rig.environment({ serviceCIDRs: serviceCIDRs.slice(1), nodePortAddresses: 'all' });
    stage.rig.take();
  },
  counted: async (stage, family) => {
    const loadBalancerSourceRanges = ['192.0.0.0/8'];
    const web = everyKind(family, { loadBalancerSourceRanges, externalTrafficPolicy: 'Local' });
    await stage.play([web, endpoints(family, both)]);
    await stage.play([web, endpoints(family, { [away]: ready })]);
    await stage.play([web]);
    stage.rig.drain();
  },
} as const satisfies Record<string, (stage: Stage, family: Family) => Promise<void>>;

export type StoryName = keyof typeof stories;
export const storyNames = Object.keys(stories) as StoryName[];

/** Stories whose settings differ. */
export const settings: Partial<Record<StoryName, Partial<StageOptions>>> = {
  counted: { countsTraffic: true },
  'as-iptables': { asIptables: true, localhostNodePorts: true },
};

/** A story that has been played. */
export interface Played {
  /** The first makes the fixed objects. */
  readonly batches: readonly Uint8Array[];
  readonly rig: Rig;
}

export async function played(
  name: StoryName,
  family: Family,
  options = settings[name],
): Promise<Played> {
  const kernel = new RecordingKernel();
  const stage = new Stage({ family, ...options }, kernel);
  await stories[name](stage, family);
  return { batches: kernel.batches, rig: stage.rig };
}

export function scriptOf(batches: readonly Uint8Array[]): string {
  return batches.map((ops) => printed('nftables', ops)).join('\n');
}
