/** The whole proxy with a tenant whose objects have no room in the heap. */
import { expect, it } from 'vitest';
import type { Status } from '../../../src/ask/status.ts';
import type { Service } from '../../../src/state/types.ts';
import { node, portsOf, service } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { configOf, listening, Running, serveWeb } from './running.ts';

const mebibyte = 2 ** 20;
/** 80 % of it are 1 MiB more than what an idle process takes. */
const bytesMax = (25 * mebibyte) / 0.8;
/** Of 0.15 MB each. */
const tenants = Array.from({ length: 20 }, (_, i): Service => {
  const clusterIPs = [`10.96.1.${i + 1}`];
  return service({ namespace: 'tenant', name: `web-${i}`, clusterIPs, ports: portsOf(1000) });
});

class Heap {
  readonly bytesMax = bytesMax;
  live: (bytes: number) => void = () => {};
  ended = false;

  follow(live: (bytes: number) => void): () => void {
    this.live = live;
    return () => {
      this.ended = true;
    };
  }
}

async function gauge(app: Running, name: string): Promise<number> {
  const text = await (await app.get('metrics', '/metrics')).text();
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1]);
}

it('serves others, and reports what is left out until it is read again', async () => {
  const heap = new Heap();
  const { told, openEvents } = listening();
  const app = await new Running(await configOf()).start({ heap, openEvents });
  app.source.say({ kind: 'node', node: node() });
  let readings = 0;
  Object.assign(app.source, {
    readAgain: () => {
      readings += 1;
    },
  });
  await serveWeb(app);
  app.source.say(...tenants.map((one) => ({ kind: 'service' as const, service: one })));
  await quiet();
  await app.clock.pass(180_000);
  expect(app.services.some((text) => text.includes('10.96.0.1'))).toBe(true);
  const left = await gauge(app, 'fairlead_objects_left_out');
  expect(left).toBeGreaterThan(10);
  expect(left).toBeLessThan(18);
  expect(await gauge(app, 'fairlead_object_bytes_max')).toBe(mebibyte);
  expect(await gauge(app, 'fairlead_object_bytes')).toBeLessThan(mebibyte);
  const msg = 'Not enough memory for Service; leaving it out';
  const line = { msg, service: 'tenant/web-19', level: 'warn' };
  expect(app.lines).toContainEqual(expect.objectContaining(line));
  const note = 'is not served: there is no memory for it on nodes, and its namespace takes most';
  expect(told.join('\n')).toContain(`OverLimit about Service web-19 (uid): ${note}`);
  const live = await (await app.get('healthz', '/livez')).json();
  expect(live).toMatchObject({ healthy: true });
  const status = (await (await app.get('metrics', '/fairlead/v1/status')).json()) as Status;
  const text = `There is no memory for ${left} objects, most of them of tenant.`;
  expect(status).toMatchObject({ problems: [text], runbook: ['high-memory'] });
  expect(status.services).toMatchObject({ leftOut: left, leftOutOf: ['tenant'] });

  heap.live(0.9 * bytesMax);
  await quiet();
  const more = await gauge(app, 'fairlead_objects_left_out');
  expect(more).toBeGreaterThan(left);
  expect(readings).toBe(0);

  heap.live(0.5 * bytesMax);
  for (const { key } of tenants.slice(0, 10)) app.source.say({ kind: 'service-gone', key });
  await app.clock.pass(9999);
  expect(readings).toBe(0);
  await app.clock.pass(1);
  expect(readings).toBe(1);
  expect(app.logged).toContain('Reading again the objects that were left out');
  expect(await gauge(app, 'fairlead_objects_left_out')).toBe(0);
  await app.stop();
  expect(heap.ended).toBe(true);
});

it('leaves nothing out of manifests, which tenants do not write', async () => {
  const app = await new Running(await configOf('--manifests=/anywhere')).start({
    heap: new Heap(),
  });
  await serveWeb(app);
  app.source.say(...tenants.map((one) => ({ kind: 'service' as const, service: one })));
  expect(await gauge(app, 'fairlead_objects_left_out')).toBe(0);
});
