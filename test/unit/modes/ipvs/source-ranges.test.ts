import { describe, expect, it } from 'vitest';
import { NFPROTO, VERDICT } from '../../../../src/kernel/nft/constants.ts';
import { ElementShape } from '../../../../src/kernel/ops.ts';
import { defaultIPVSSettings, type Environment } from '../../../../src/modes/mode.ts';
import { batch, bytes, verdict } from '../../../conformance/ops.ts';
import { address } from '../../state/build.ts';
import { all, few, guarded, config as plain } from '../nftables/forwardings.ts';
import { noDrift } from '../nftables/rig.ts';
import { Rig } from './rig.ts';

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

describe('lists of source ranges in mode ipvs', () => {
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
