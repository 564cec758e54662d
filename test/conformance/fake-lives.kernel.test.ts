import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { ApplyResult } from '../../src/kernel/kernel.ts';
import { FakeKernel } from '../fake/kernel.ts';
import {
  type ClusterSpec,
  clusters,
  configs,
  type Edit,
  edited,
  edits,
  families,
  forwardingsOf,
} from '../unit/modes/nftables/cluster.ts';
import { type Meddling, meddle, meddlings } from '../unit/modes/nftables/meddler.ts';
import { Rig } from '../unit/modes/nftables/rig.ts';
import { createKernel } from './namespace.ts';
import { dumpAll } from './nft-record.ts';

/** Records all batches, refused ones too. */
class RecordingKernel extends FakeKernel {
  readonly batches: Uint8Array[] = [];

  override applyNow(ops: Uint8Array): ApplyResult {
    this.batches.push(ops.slice());
    return super.applyNow(ops);
  }

  override foreign(ops: Uint8Array): void {
    this.batches.push(ops.slice());
    super.foreign(ops);
  }
}

const openings = families.chain((family) =>
  fc.record({ config: configs(family), cluster: clusters }),
);
// These edits can't be repeated on the real kernel: handles differ there, and for objects without
// an op of ours only the fake has a way to make them.
const once: ReadonlySet<string> = new Set(['delete rule', 'comment on rule', 'add object']);
const plots = fc.array(
  fc.oneof(
    edits,
    edits,
    meddlings.filter(({ deed }) => !once.has(deed)),
  ),
  { maxLength: 14 },
);
type Opening = typeof openings extends fc.Arbitrary<infer T> ? T : never;

/** The batches of a life: ours, those of another program, and our repairs. */
async function live({ config, cluster }: Opening, plot: readonly (Edit | Meddling)[]) {
  const kernel = new RecordingKernel();
  const { family } = config;
  const environment: ClusterSpec['environment'] = { serviceCIDRs: [], nodePortAddresses: 'all' };
  let spec: ClusterSpec = { ...cluster, environment };
  const rig = new Rig(config, environment, kernel);
  await rig.start(forwardingsOf(family, spec));
  for (const step of plot) {
    if ('deed' in step) {
      meddle(kernel, family, step);
      await rig.audit();
      continue;
    }
    spec = edited(family, spec, step);
    rig.environment(spec.environment);
    rig.plan(forwardingsOf(family, spec));
    rig.take();
    await rig.tryDeferred();
  }
  return kernel.batches;
}

/** Compares code, op and entry of failures. The fake has no texts of its own. */
function outcomeOf(result: ApplyResult): unknown {
  if (result.kind === 'applied') return 'applied';
  return result.failures.map(({ code, op, entry }) => ({ code, op, entry }));
}

it('a real kernel and the fake one agree on random changes of a table', { timeout: 300_000 }, () =>
  fc.assert(
    fc.asyncProperty(openings, plots, async (opening, plot) => {
      const { kernel } = await createKernel();
      const fake = new FakeKernel();
      for (const ops of await live(opening, plot)) {
        expect(outcomeOf(fake.applyNow(ops))).toEqual(outcomeOf(await kernel.apply(ops)));
      }
      expect(await dumpAll(fake)).toEqual(await dumpAll(kernel));
    }),
    { numRuns: 25 },
  ),
);
