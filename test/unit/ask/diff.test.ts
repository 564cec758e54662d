import { afterEach, describe, expect, it, vi } from 'vitest';
import { VERDICT } from '../../../src/kernel/nft/constants.ts';
import { ElementShape, nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { shards } from '../../../src/modes/nftables/layout.ts';
import { resources } from '../../../src/state/change.ts';
import { kernelRefusal } from '../../fake/conntrack.ts';
import { type Running, started, web } from '../agent/running.ts';
import { node, service } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { asked, said } from './asking.ts';

let app: Running;

afterEach(() => app.stop());

async function running(mode: string): Promise<void> {
  app = await started('--manifests=/anywhere', `--proxy-mode=${mode}`);
  const other = service({ name: 'other', clusterIPs: ['10.96.0.2'] });
  app.source.say(...web, { kind: 'service', service: other }, { kind: 'node', node: node() });
  app.source.listed(...resources);
  await quiet();
}

const services = { family: 2, table: 'fairlead', set: 'services' } as const;

/** 10.96.0.`host` . tcp . 80, with a verdict where one is given. */
function element(host: number, verdict?: Uint8Array) {
  const key = Uint8Array.of(10, 96, 0, host, 6, 0, 0, 0, 0, 80, 0, 0);
  const shape = verdict === undefined ? 0 : ElementShape.verdict;
  const entries = Buffer.concat([key, verdict ?? new Uint8Array()]);
  return { ...services, shape, keyLength: 12, dataLength: 0, count: 1, entries };
}

const dropping = new Uint8Array(8);
dropping[0] = VERDICT.drop;

/** The first endpoint of 10.96.0.1 . tcp . 80; with the address 10.244.0.`host`, or without. */
function endpoint(host?: number) {
  const set = shards
    .map((shard) => `endpoints-${shard}`)
    .find((name) => app.kernel.elements(2, 'fairlead', name).length > 0)!;
  const key = Buffer.concat([element(1).entries, new Uint8Array(4)]);
  const data = host === undefined ? [] : [10, 244, 0, host, 0x1f, 0x90, 0, 0];
  const entries = Buffer.concat([key, Uint8Array.from(data)]);
  const shape = host === undefined ? 0 : ElementShape.data;
  const dataLength = data.length;
  return { family: 2, table: 'fairlead', set, shape, keyLength: 16, dataLength, count: 1, entries };
}

/** Changes without a notification. */
function meddle(...ops: ['elementsAdd' | 'elementsDelete', ReturnType<typeof endpoint>][]): void {
  const writer = new RecordWriter(nftOps);
  for (const [kind, op] of ops) writer.write(kind, op);
  expect(app.kernel.applyNow(writer.finish()).kind).toBe('applied');
  // Another program did it.
  app.kernel.commits -= 1;
}

it('metrics make no table that counts refused connections, and no audit follows other tables of ours', async () => {
  await running('nftables');
  const limited = service({
    name: 'other',
    clusterIPs: ['10.96.0.2'],
    limits: { max_connections: 1 },
  });
  app.source.say({ kind: 'service', service: limited });
  const table = 'table ip fairlead-refused';
  await app.get('metrics', '/metrics');
  await quiet();
  expect(app.kernel.ruleset()).not.toContain(table);
  await app.clock.pass(10_000);
  await asked(app, 'problems');
  await quiet();
  expect(app.kernel.ruleset()).toContain(table);
  expect(app.kernel.ruleset()).toContain('fairlead-limits');
  for (let seconds = 0; seconds < 200; seconds += 10) await app.clock.pass(10_000);
  expect(app.kernel.ruleset()).not.toContain(table);
  const metrics = await (await app.get('metrics', '/metrics')).text();
  expect(metrics).not.toContain('fairlead_audit_duration_seconds_count');
});

it('the table that counts refused connections goes, also if it cannot be read', async () => {
  await running('nftables');
  const { kernel } = app;
  const table = 'fairlead-refused';
  const dump = kernel.dump.bind(kernel);
  vi.spyOn(kernel, 'dump').mockImplementation((request, take) => {
    const isIt = request.kind === 'elementsDump' && request.table === table;
    return isIt ? Promise.reject(kernelRefusal('ENOMEM')) : dump(request, take);
  });
  await asked(app, 'problems');
  await quiet();
  expect(kernel.ruleset()).toContain(table);
  await app.clock.pass(10_000);
  expect(kernel.ruleset()).not.toContain(table);
});

it('refused connections are counted again after 20 s without any', async () => {
  await running('nftables');
  const isCounting = async (): Promise<boolean> => {
    await asked(app, 'problems');
    await quiet();
    return app.kernel.ruleset().includes('fairlead-refused');
  };
  expect(await isCounting()).toBe(true);
  await app.clock.pass(10_000);
  await app.clock.pass(17_000);
  expect(await isCounting()).toBe(false);
  await app.clock.pass(3000);
  expect(await isCounting()).toBe(true);
});

describe('fairlead diff', () => {
  it.each(['nftables', 'iptables', 'ipvs'])(
    'finds no difference in a correct kernel, in mode %s',
    async (mode) => {
      await running(mode);
      const { body } = await asked(app, 'diff');
      expect(body).toMatchObject({
        healthy: true,
        families: [
          { family: 'IPv4', compared: 2, leftOut: 0, waiting: 0, differenceCount: 0 },
          { family: 'IPv6', compared: 0, leftOut: 0, waiting: 0, differenceCount: 0 },
        ],
      });
      expect((await said(app, 'diff')).code).toBe(0);
    },
  );

  it('names missing objects by Service', async () => {
    await running('nftables');
    meddle(['elementsDelete', element(1)]);
    const before = app.kernel.ruleset();
    const { code, stdout } = await said(app, 'diff');
    expect(stdout).toContain('ns/web:http: 1 missing; right would be:');
    expect(stdout).toMatch(
      /add element ip fairlead services \{ 10.96.0.1 . tcp . 80 : goto cluster-2-\w \}/,
    );
    expect(code).toBe(1);
    expect(app.kernel.ruleset()).toBe(before);
  });

  it('names wrong objects by Service', async () => {
    await running('nftables');
    meddle(['elementsDelete', endpoint()], ['elementsAdd', endpoint(77)]);
    const { body } = await asked(app, 'diff');
    expect(body.families[0].differences).toMatchObject([
      {
        service: { namespace: 'ns', name: 'web', port: 'http' },
        missing: 0,
        wrong: 1,
        unwanted: 0,
      },
    ]);
  });

  it('names objects that no Service needs', async () => {
    await running('nftables');
    meddle(['elementsAdd', element(99, dropping)]);
    const { body } = await asked(app, 'diff');
    const [difference, ...more] = body.families[0].differences;
    expect(difference).toMatchObject({
      missing: 0,
      unwanted: 1,
      repairs: ['delete element ip fairlead services { 10.96.0.99 . tcp . 80 }'],
    });
    expect([difference.service, more]).toEqual([undefined, []]);
  });

  it('finds what others change between two answers', async () => {
    await running('nftables');
    expect((await asked(app, 'diff')).body.healthy).toBe(true);
    meddle(['elementsDelete', element(1)]);
    expect((await asked(app, 'diff')).body.healthy).toBe(false);
    expect((await asked(app, 'diff')).body.healthy).toBe(false);
  });

  it('reports what the kernel refuses', async () => {
    await running('nftables');
    app.kernel.failNext({ code: 'ENOSPC', forKey: '10.96.0.3', times: Number.POSITIVE_INFINITY });
    const refused = service({ name: 'refused', clusterIPs: ['10.96.0.3'] });
    app.source.say({ kind: 'service', service: refused });
    await quiet();
    const { code, stdout } = await said(app, 'diff');
    expect(stdout).toContain('The kernel refuses 1 Service port: fairlead status names it.');
    expect(code).toBe(1);
  });
});
