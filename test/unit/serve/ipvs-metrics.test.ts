import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { kernelOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { settingsOf } from '../../../src/modes/ipvs/service-writer.ts';
import { ipvsMetrics } from '../../../src/serve/collectors.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { address } from '../state/build.ts';

function servingKernel(): FakeKernel {
  const kernel = new FakeKernel();
  const vip = address('10.96.0.1');
  const key = { family: 2, protocol: 6, address: vip.bytes, port: 80 };
  const writer = new RecordWriter(kernelOps);
  const settings = settingsOf({ address: vip, timeoutSeconds: 0 }, 'rr');
  writer.write('virtualServiceAdd', { ...key, ...settings });
  const server = { destination: address('10.244.0.5').bytes, destinationPort: 8080 };
  const how = { forwarding: 0, weight: 1, upperThreshold: 0, lowerThreshold: 0 };
  writer.write('destinationAdd', { ...key, ...server, ...how });
  expect(kernel.applyNow(writer.finish()).kind).toBe('applied');
  const traffic = { connections: 3, inBytes: 700, activeConnections: 2 };
  kernel.ipvs.traffic('TCP 10.96.0.1:80', '10.244.0.5:8080', traffic);
  return kernel;
}

const labels = 'protocol="TCP",virtual_service="10.96.0.1:80",real_server="10.244.0.5:8080"';

describe('metrics of virtual services', () => {
  it('show the current traffic of each real server', async () => {
    const registry = new Registry();
    const kernel = servingKernel();
    ipvsMetrics(registry, kernel, () => true);
    await registry.metrics();
    const text = await registry.metrics();
    expect(text).toContain(`fairlead_ipvs_connections_total{${labels}} 3`);
    expect(text).toContain(`fairlead_ipvs_in_bytes_total{${labels}} 700`);
    expect(text).toContain(`fairlead_ipvs_real_server_connections{${labels},state="active"} 2`);
    expect(text).toContain('virtual_service="10.96.0.1:80",real_server=""} 0');
  });

  it('are missing unless enabled, or without IPVS', async () => {
    const registry = new Registry();
    ipvsMetrics(registry, servingKernel(), () => false);
    expect(await registry.metrics()).not.toContain('virtual_service=');
    const without = new Registry();
    const kernel = servingKernel();
    kernel.ipvs.present = false;
    ipvsMetrics(without, kernel, () => true);
    expect(await without.metrics()).not.toContain('virtual_service=');
  });
});
