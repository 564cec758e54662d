import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import { kernelOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { ipvsMode } from '../../../src/modes/ipvs/mode.ts';
import { settingsOf } from '../../../src/modes/ipvs/service-writer.ts';
import type { RunningEngine } from '../../../src/serve/ask/agent-state.ts';
import { ipvsMetrics } from '../../../src/serve/collectors.ts';
import { ipvsServersMax } from '../../../src/serve/metric-table.ts';
import type { FrontendsByFamily } from '../../../src/state/frontends-in-force.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { all, byFrontend, clusterIP, forwarding, pool } from '../modes/nftables/forwardings.ts';
import { address } from '../state/build.ts';

/** A virtual service with this number of real servers: 10.244.0.5 and those after it. */
function serve(kernel: FakeKernel, ip: string, servers: number): void {
  const vip = address(ip);
  const key = { family: 2, protocol: 6, address: vip.bytes, port: 80 };
  const writer = new RecordWriter(kernelOps);
  const settings = settingsOf({ address: vip, timeoutSeconds: 0 }, 'rr');
  writer.write('virtualServiceAdd', { ...key, ...settings });
  const how = { forwarding: 0, weight: 1, upperThreshold: 0, lowerThreshold: 0 };
  for (let i = 5; i < 5 + servers; i += 1) {
    const { bytes } = address(`10.244.${i >> 8}.${i & 255}`);
    writer.write('destinationAdd', { ...key, destination: bytes, destinationPort: 8080, ...how });
  }
  expect(kernel.applyNow(writer.finish()).kind).toBe('applied');
}

function servingKernel(): FakeKernel {
  const kernel = new FakeKernel();
  serve(kernel, '10.96.0.1', 1);
  const traffic = { connections: 3, inBytes: 700, activeConnections: 2 };
  kernel.ipvs.traffic('TCP 10.96.0.1:80', '10.244.0.5:8080', traffic);
  return kernel;
}

/** A process in mode ipvs. */
function agent(
  kernel: FakeKernel,
  counters = true,
  frontends: FrontendsByFamily = {},
): Parameters<typeof ipvsMetrics>[1] {
  return {
    kernel,
    config: { ipvs: { counters } } as Config,
    engine: { frontends } as RunningEngine,
    mode: ipvsMode,
  };
}

const labels = 'protocol="TCP",virtual_service="10.96.0.1:80",real_server="10.244.0.5:8080"';

describe('metrics of virtual services', () => {
  it('show the current traffic of each real server', async () => {
    const registry = new Registry();
    const kernel = servingKernel();
    ipvsMetrics(registry, agent(kernel));
    await registry.metrics();
    const text = await registry.metrics();
    expect(text).toContain(`fairlead_ipvs_connections_total{${labels}} 3`);
    expect(text).toContain(`fairlead_ipvs_in_bytes_total{${labels}} 700`);
    expect(text).toContain(`fairlead_ipvs_real_server_connections{${labels},state="active"} 2`);
    expect(text).toContain('virtual_service="10.96.0.1:80",real_server=""} 0');
  });

  it('are missing unless enabled, or without IPVS', async () => {
    const registry = new Registry();
    ipvsMetrics(registry, agent(servingKernel(), false));
    expect(await registry.metrics()).not.toContain('virtual_service=');
    const without = new Registry();
    const kernel = servingKernel();
    kernel.ipvs.present = false;
    ipvsMetrics(without, agent(kernel));
    expect(await without.metrics()).not.toContain('virtual_service=');
  });

  it('are of a bounded number of real servers, of which no tenant takes those of another', async () => {
    const kernel = new FakeKernel();
    serve(kernel, '10.96.0.1', 3);
    serve(kernel, '10.96.0.2', 6000);
    const of = (name: string, namespace: string, ip: string) => {
      const { servicePort, ...rest } = forwarding(name, pool(1), { frontends: [clusterIP(ip)] });
      return { ...rest, servicePort: { ...servicePort, namespace } };
    };
    const inForce = all(of('web', 'bank', '10.96.0.1'), of('wide', 'tenant', '10.96.0.2'));
    const registry = new Registry();
    ipvsMetrics(registry, agent(kernel, true, byFrontend(inForce)));
    const lines = (await registry.metrics()).split('\n');
    const connections = lines.filter((line) => line.startsWith('fairlead_ipvs_connections_total{'));
    expect(connections).toHaveLength(ipvsServersMax);
    const first = connections.filter((line) => line.includes('virtual_service="10.96.0.1:80"'));
    expect(first).toHaveLength(4);
    expect(lines).toContain(`fairlead_ipvs_metrics_left_out ${6005 - ipvsServersMax}`);
  });
});
