import { describe, expect, it } from 'vitest';
import { resources } from '../../../src/state/change.ts';
import { http, ready, service, slice } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { configOf, listening, Running } from './running.ts';

describe('a Service that exceeds the limits', () => {
  it('is served in part, and log, Events, metrics and health name or count it', async () => {
    const config = await configOf('--manifests=/anywhere', '--service-frontends-max=3');
    const { told, openEvents } = listening();
    const app = await new Running(config).start({ openEvents });
    const ports = [80, 81, 82, 83].map((port) => ({ ...http, name: `p${port}`, port }));
    app.source.say(
      { kind: 'service', service: service({ ports }) },
      { kind: 'slice', slice: slice({ '10.244.0.2': ready }) },
    );
    app.source.listed(...resources);
    await quiet();
    await app.clock.pass(32_000);
    const metrics = await (await app.get('metrics', '/metrics')).text();
    expect(metrics).toContain('fairlead_services_over_limit 1\n');
    expect(metrics).toContain('fairlead_service_ports{ip_family="IPv4"} 3\n');
    const health = await (await app.get('healthz', '/livez')).json();
    expect(health).toMatchObject({ healthy: true, servicesOverLimit: 1 });
    const about = 'asks for 4 IPv4 frontends, and 3 are the most';
    const line = { service: 'ns/web', err: about, level: 'warn' };
    expect(app.lines).toContainEqual(expect.objectContaining(line));
    expect(told).toContain(`OverLimit about Service web (uid): ${about}`);

    app.source.say({ kind: 'service', service: service({ ports: ports.slice(1) }) });
    await app.clock.pass(2000);
    const after = await (await app.get('metrics', '/metrics')).text();
    expect(after).toContain('fairlead_services_over_limit 0\n');
    await app.stop();
  });
});
