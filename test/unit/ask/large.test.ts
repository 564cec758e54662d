import { afterEach, describe, expect, it } from 'vitest';
import { type Change, resources } from '../../../src/state/change.ts';
import { type Running, started } from '../agent/running.ts';
import { type Endpoint, node, ready, service, slice, slicePort } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { asked, said } from './asking.ts';

/**
 * Anybody may make a Service as large as this, and its answers take a while if they name all of it.
 */
const many = 3000;

let app: Running;

afterEach(() => app.stop());

async function running(...changes: Change[]): Promise<void> {
  app = await started('--manifests=/anywhere');
  app.source.say({ kind: 'node', node: node() }, ...changes);
  app.source.listed(...resources);
  await quiet();
}

function addresses(prefix: string): string[] {
  return Array.from({ length: many }, (_, i) => `${prefix}.${1 + (i >> 8)}.${i & 255}`);
}

/** Its EndpointSlice has as many ports, of other names. */
function manyPorts(): Change[] {
  const of = (name: string, i: number) => slicePort(`${name}${i}`, i + 1);
  const ports = Array.from({ length: many }, (_, i) => ({ ...of('p', i), nodePort: 0 }));
  const others = Array.from({ length: many }, (_, i) => of('q', i));
  return [
    { kind: 'service', service: service({ ports }) },
    { kind: 'slice', slice: slice({ '10.244.0.1': ready }, { ports: others }) },
  ];
}

describe('a Service with thousands of ports', () => {
  it('is listed in part, but a port that is asked for is always shown', async () => {
    await running(...manyPorts());
    const { body } = await asked(app, 'service', '?name=web');
    expect([body.portCount, body.ports.length]).toEqual([many, 50]);
    expect(body.problems[0]).toContain(
      'has a port named "p0" for TCP, they have "q0" (1/TCP), "q1"',
    );
    expect((await asked(app, 'service', '?name=web&ports=7')).body.ports).toHaveLength(7);
    for (const port of ['p2999', '3000']) {
      const one = (await asked(app, 'service', `?name=web&port=${port}`)).body;
      expect([one.portCount, one.ports[0].name]).toEqual([1, 'p2999']);
    }
    expect(await asked(app, 'service', '?name=web&port=q1')).toEqual({
      status: 404,
      body: {
        error: expect.stringMatching(/^Service ns\/web has no port "q1": it has p0 1\/TCP, /),
      },
    });
  });

  it('is shown on a terminal and on the page with the number of omitted ports', async () => {
    await running(...manyPorts());
    const { stdout } = await said(app, 'service', 'show', 'ns/web');
    expect(stdout).toContain('\nand 2950 more ports\n');
    const one = await said(app, 'service', 'show', 'ns/web:p2999');
    expect(one.stdout).toContain('Port p2999 3000/TCP in IPv4');
    expect(one.stdout).not.toContain('more ports');
    const page = await (await app.get('metrics', '/?service=ns/web')).text();
    expect(page).toContain('<p>and 2950 more ports</p>');
  });

  it('is answered with ten of its ports if the question names a port that it does not have', async () => {
    await running(...manyPorts());
    const { body } = await asked(app, 'explain', '?to=10.96.0.1:9999');
    expect(body.summary).toContain('p8 9/TCP, p9 10/TCP and 2,990 others, not 9999');
  });
});

describe('a Service port with thousands', () => {
  it('of external IPs is shown with the first ones and their number', async () => {
    const externalIPs = addresses('60.1');
    await running(
      { kind: 'service', service: service({ externalIPs }) },
      { kind: 'slice', slice: slice({ '10.244.0.1': ready }) },
    );
    const [port] = (await asked(app, 'service', '?name=web')).body.ports;
    expect([port.frontendCount, port.frontends.length]).toEqual([many + 1, 50]);
    expect(port.kernel.join('\n')).toContain('10.96.0.1 . tcp . 80');
    expect(port.kernel.length).toBeLessThan(200);
    const { stdout } = await said(app, 'service', 'show', 'web');
    expect(stdout).toContain(`  and ${many + 1 - 50} more\n`);
  });

  it('of endpoints names five hundred of those to which a packet may be sent', async () => {
    const endpoints = addresses('10.244').map((address): [string, Endpoint] => [address, ready]);
    await running(
      { kind: 'service', service: service() },
      { kind: 'slice', slice: slice(Object.fromEntries(endpoints)) },
    );
    const { body } = await asked(app, 'explain', '?to=ns/web:80');
    expect(body.summary).toContain(`one of ${many} endpoints`);
    expect(body.endpoints).toHaveLength(500);
  });
});
