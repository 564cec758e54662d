import { describe, expect, it } from 'vitest';
import { NFPROTO, VERDICT } from '../../../../src/kernel/nft/constants.ts';
import { ElementShape } from '../../../../src/kernel/ops.ts';
import { defaultIPVSSettings, type Environment } from '../../../../src/modes/mode.ts';
import { batch, bytes, verdict } from '../../../conformance/ops.ts';
import { address } from '../../state/build.ts';
import { all, few, guarded, config as plain } from '../nftables/forwardings.ts';
import { noDrift } from '../nftables/rig.ts';
import { freshState, Rig } from './rig.ts';

const environment: Environment = {
  serviceCIDRs: [],
  nodePortAddresses: [address('192.168.0.1')],
  hostAddresses: [],
};
const config = { ...plain, ipvs: defaultIPVSSettings };

async function started(...forwardings: readonly ReturnType<typeof guarded>[]): Promise<Rig> {
  const rig = new Rig(config, environment);
  await rig.start(all(...forwardings));
  return rig;
}

const table = (rig: Rig) => rig.kernel.table(NFPROTO.IPv4, 'fairlead-ipvs')!;
const lists = (rig: Rig): string[] =>
  [...table(rig).sets.keys()].filter((name) => name.startsWith('source-ranges-'));

async function drained(rig: Rig): Promise<string> {
  for (let i = 0; i < 3 && rig.planner.takeDeferred; i += 1) await rig.drain();
  return rig.state();
}

describe('lists of source ranges in mode ipvs', () => {
  it('are shared, replaced as a whole, and deleted by a later batch', async () => {
    const rig = await started(guarded('a', 1, '192.0.2.0/24'), guarded('b', 2, '192.0.2.0/24'));
    expect(lists(rig)).toHaveLength(1);
    const wanted = all(guarded('a', 1, '192.0.3.0/24'), guarded('b', 2, '192.0.2.0/24'));
    rig.plan(wanted);
    expect(rig.take()).not.toMatch(/delete element ip fairlead-ipvs source-ranges/);
    expect(lists(rig)).toHaveLength(2);
    const fewer = all(guarded('b', 2, '192.0.2.0/24'));
    rig.plan(fewer);
    rig.take();
    expect(lists(rig)).toHaveLength(2);
    expect(await drained(rig)).toBe(await freshState(config, environment, fewer));
    expect(lists(rig)).toHaveLength(1);
  });

  it('are rules of a chain, not a set, if they are short', async () => {
    const wanted = all(few('a', 1, '192.0.2.0/24'), few('b', 2, '192.0.2.0/24'));
    const rig = await started(...wanted.values());
    expect(lists(rig)).toHaveLength(0);
    rig.plan(all(few('a', 1, '192.0.3.0/24'), few('b', 2, '192.0.2.0/24')));
    expect(rig.take()).toMatch(
      /^add rule ip fairlead-ipvs firewall-\w+ ip saddr 192.0.3.0\/24 return$/m,
    );
    rig.plan(wanted);
    rig.take();
    expect(await drained(rig)).toBe(await freshState(config, environment, wanted));
  });

  it('are all deleted while a tenant changes them continuously', async () => {
    const rig = await started(guarded('a', 1, '192.0.2.0/24'));
    let most = 0;
    for (let i = 0; i < 50; i += 1) {
      rig.plan(all(guarded('a', 1, `10.0.${i}.0/24`)));
      rig.take();
      await rig.drain();
      most = Math.max(most, lists(rig).length);
    }
    expect(most).toBeLessThanOrEqual(3);
  });

  it('are repaired, with their verdicts, if another program changes them', async () => {
    const rig = await started(
      ...[
        guarded('a', 1, '192.0.2.0/25'),
        guarded('b', 2, '192.0.2.0/25'),
        few('c', 3),
        few('d', 4),
      ],
    );
    const before = rig.state();
    const at = { family: NFPROTO.IPv4, table: 'fairlead-ipvs' };
    const [set] = lists(rig);
    rig.kernel.foreign(batch({ kind: 'setFlush', ...at, set: set! }));
    const key = (host: number) => Uint8Array.of(198, 51, 100, host, 6, 0, 0, 0, 0, 80, 0, 0);
    const [of, gone] = [
      { ...at, set: 'firewall-ips', keyLength: 12, dataLength: 0 },
      [key(1), key(2)],
    ];
    const elsewhere = verdict(VERDICT.goto, 'endpoints-check');
    const added = bytes(key(1), elsewhere, key(3), elsewhere, key(4), elsewhere);
    rig.kernel.foreign(
      batch(
        { kind: 'elementsDelete', ...of, count: 2, shape: 0, entries: bytes(...gone) },
        { kind: 'elementsAdd', ...of, count: 3, shape: ElementShape.verdict, entries: added },
      ),
    );
    expect(rig.state()).not.toBe(before);
    expect(await rig.audit()).toEqual({ missing: 2, wrong: 1, unwanted: 3 });
    expect(rig.state()).toBe(before);
    expect(await rig.audit()).toEqual(noDrift);
  });
});
