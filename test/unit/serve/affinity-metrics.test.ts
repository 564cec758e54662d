import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { ElementShape } from '../../../src/kernel/ops.ts';
import { ipvsMode } from '../../../src/modes/ipvs/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import { affinityMetrics } from '../../../src/serve/collectors.ts';
import { systemClock } from '../../../src/time/clock.ts';
import { batch } from '../../conformance/ops.ts';
import type { FakeKernel } from '../../fake/kernel.ts';
import { all, config, environment, forwarding, pool } from '../modes/nftables/forwardings.ts';
import { Rig } from '../modes/nftables/rig.ts';

/** Clients of `web`, as packets would write them: 10.1.0.0 and so on, all to one endpoint. */
function remember(kernel: FakeKernel, from: number, to: number): void {
  const entries = new Uint8Array((to - from) * 12);
  for (let n = from; n < to; n += 1) {
    const at = (n - from) * 12;
    entries.set([10, 1 + (n >> 16), (n >> 8) & 255, n & 255, 10, 0, 0, 1, 0x1f, 0x90], at);
  }
  const set = { family: 2, table: 'fairlead', set: 'affinity-ns/web/tcp/' };
  const shape = { shape: ElementShape.data, keyLength: 4, dataLength: 8 };
  const ops = batch({ kind: 'elementsAdd', ...set, ...shape, count: to - from, entries });
  expect(kernel.applyNow(ops)).toEqual({ kind: 'applied' });
}

async function serving(): Promise<FakeKernel> {
  const rig = new Rig(config, environment);
  const affinityTimeoutSeconds = 60;
  await rig.start(all(forwarding('web', pool(1, 2), { affinityTimeoutSeconds })));
  return rig.kernel;
}

const ofWeb = 'fairlead_affinity_fill_ratio{ip_family="IPv4",service_port="ns/web/tcp/"';

describe('metrics of session affinity', () => {
  it('name the Service ports with many clients', async () => {
    const registry = new Registry();
    const kernel = await serving();
    let now = 0;
    const clock = { ...systemClock, now: () => now };
    affinityMetrics(registry, { clock, kernel, mode: nftablesMode });
    remember(kernel, 0, 1000);
    const few = await registry.metrics();
    expect(few).not.toContain(ofWeb);

    remember(kernel, 1000, 65_535);
    now = 59_999;
    expect(await registry.metrics()).toBe(few);
    now = 60_000;
    const full = await registry.metrics();
    expect(full).toContain(`${ofWeb},pool="cluster"} 1`);
  });

  it('are missing in other modes', async () => {
    const registry = new Registry();
    const kernel = await serving();
    affinityMetrics(registry, { clock: systemClock, kernel, mode: ipvsMode });
    expect(await registry.metrics()).not.toContain('ip_family');
  });
});
