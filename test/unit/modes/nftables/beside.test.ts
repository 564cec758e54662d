import { describe, expect, it } from 'vitest';
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { setDefinitions } from '../../../../src/modes/nftables/layout.ts';
import type { Forwarding } from '../../../../src/state/types.ts';
import { batch } from '../../../conformance/ops.ts';
import { cidr } from '../../state/build.ts';
import { all, clusterIP, config, environment, forwarding, pool } from './forwardings.ts';
import { freshRuleset, noDrift, Rig } from './rig.ts';

const shop = { frontends: [clusterIP('10.96.0.2')], affinityTimeoutSeconds: 60 };
const gone = { frontends: [clusterIP('10.96.0.3')] };
const come = { frontends: [clusterIP('10.96.0.4')], hairpin: pool(7) };

const guarded = (...ranges: readonly string[]) => ({
  frontends: [{ ...clusterIP('198.51.100.1', 'outside'), kind: 'loadBalancerIP' as const }],
  sourceRanges: ranges.map((text) => cidr(text)),
});

const before: readonly Forwarding[] = [
  forwarding('quiet', pool(1, 2), { frontends: [clusterIP('10.96.0.9')] }),
  forwarding('web', pool(1, 2, 3, 4), { hairpin: pool(1, 2) }),
  forwarding('shop', pool(5, 6), shop),
  forwarding('gone', pool(8), gone),
  forwarding('guarded', pool(8), guarded('192.0.2.0/24', '10.0.0.0/8')),
];
const after: readonly Forwarding[] = [
  before[0]!,
  forwarding('web', pool(9, 2), { hairpin: pool(2) }),
  forwarding('shop', pool(5, 6, 7), shop),
  forwarding('come', pool(7), come),
  forwarding('guarded', pool(8), guarded('192.0.3.0/24')),
];

/** Tables, chains, rules, sets, and each set: one more than those of the layout. */
const momentsMax = 4 + Object.keys(setDefinitions('IPv4')).length + 1;

async function started(): Promise<Rig> {
  const rig = new Rig(config, environment);
  await rig.start(all(...before));
  return rig;
}

describe('an audit during other batches', () => {
  it.for(Array.from({ length: momentsMax }, (_, i) => i))(
    'reports no drift for what a batch wrote, before dump %i or after it',
    async (moment) => {
      const rig = await started();
      const drift = await rig.auditBeside((dumps) => {
        if (dumps !== moment) return;
        rig.plan(all(...after));
        rig.take();
      });
      expect(drift).toEqual(noDrift);
      rig.drain();
      expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
    },
  );

  it('reports no drift for objects whose deletion is deferred', async () => {
    const rig = await started();
    rig.plan(all(...after));
    rig.take();
    const drift = await rig.auditBeside((dumps) => {
      if (dumps % 5 === 0) rig.takeDeferred();
    });
    expect(drift).toEqual(noDrift);
    rig.drain();
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
  });

  it('repairs what another program deleted, if no batch writes it', async () => {
    const rig = await started();
    const at = { family: NFPROTO.IPv4, table: 'fairlead', set: 'services', shape: 0 };
    const entries = Uint8Array.of(10, 96, 0, 9, 6, 0, 0, 0, 0, 80, 0, 0);
    const of = { keyLength: 12, dataLength: 0, count: 1, entries };
    rig.kernel.foreign(batch({ kind: 'elementsDelete', ...at, ...of }));
    const drift = await rig.auditBeside((dumps) => {
      if (dumps === 7) rig.plan(all(...after));
      if (dumps === 7) rig.take();
    });
    expect(drift).toEqual({ missing: 1, wrong: 0, unwanted: 0 });
    rig.drain();
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
  });

  it("deletes another program's base chain that has the name of a retired chain", async () => {
    const rig = new Rig(config, environment);
    const three = all(forwarding('web', pool(1, 2, 3)));
    await rig.start(three);
    rig.plan(all(forwarding('web', pool(1))));
    rig.take();
    const at = { family: NFPROTO.IPv4, table: 'fairlead', chain: 'cluster-4-e', comment: '' };
    const base = { type: 'filter', hook: 1, priority: -5, policy: 1 };
    rig.kernel.foreign(
      batch({ kind: 'chainDelete', ...at }, { kind: 'baseChainAdd', ...at, ...base }),
    );
    expect(await rig.audit()).toEqual({ missing: 0, wrong: 0, unwanted: 1 });
    rig.plan(three);
    rig.take();
    rig.drain();
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
  });
});
