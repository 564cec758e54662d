import { describe, expect, it } from 'vitest';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { FakeKernel } from '../fake/kernel.ts';
import { addTable, cases } from './nft-cases.ts';
import { record } from './nft-record.ts';
import { addressSet, batch } from './ops.ts';
import {
  addDestination,
  addLink,
  addService,
  ipvsCases,
  readIpvs,
  readLinks,
  recordSingle,
  routeCases,
  setDestination,
  virtualService,
} from './single-cases.ts';
import { xtStories } from './xt-cases.ts';

const plainSet = { family: NFPROTO.IPv4, table: 't', set: 's', ...addressSet } as const;

function elements(...last: number[]) {
  const entries = Uint8Array.from(last.flatMap((byte) => [10, 0, 0, byte]));
  const shape = { shape: 0, keyLength: 4, dataLength: 0, count: last.length, entries };
  const { family, table, set } = plainSet;
  return { kind: 'elementsAdd', family, table, set, ...shape } as const;
}

const listing = (...lines: string[]): string =>
  ['table ip t {', '  comment "a table"', '  set s {', '    type ipv4_addr ;', ...lines].join('\n');

describe('FakeKernel', () => {
  it.for([...cases, ...xtStories])('$title', async (story) => {
    const { outcomes } = await record(new FakeKernel(), story);
    expect(outcomes).toEqual(story.steps.map(({ outcome }) => outcome));
  });

  it.for(ipvsCases)('$title', async (story) => {
    const { outcomes } = await recordSingle(new FakeKernel(), story, readIpvs);
    expect(outcomes).toEqual(story.steps.map(([, outcome]) => outcome));
  });

  it.for(routeCases)('$title', async (story) => {
    const { outcomes } = await recordSingle(new FakeKernel(), story, readLinks);
    expect(outcomes).toEqual(story.steps.map(([, outcome]) => outcome));
  });

  it('refuses a batch once at a named element on request of a test', async () => {
    const kernel = new FakeKernel();
    kernel.failNext({ code: 'ENOMEM', forSet: 's', forKey: '10.0.0.2' });
    expect(await kernel.apply(batch(addTable))).toEqual({ kind: 'applied' });
    const ops = batch({ kind: 'setAdd', ...plainSet }, elements(1, 2, 3));
    const refused = await kernel.apply(ops);
    expect(refused).toMatchObject({ failures: [{ code: 'ENOMEM', op: 1, entry: 1 }] });
    expect(kernel.ruleset()).not.toContain('set s');
    expect(await kernel.apply(ops)).toEqual({ kind: 'applied' });
    expect(kernel.ruleset()).toContain(listing('    10.0.0.1', '    10.0.0.2', '    10.0.0.3'));
    expect(kernel.writes).toBe(5);
  });

  it('refuses one op of IPVS on request of a test, and applies the others', async () => {
    const kernel = new FakeKernel();
    const web = 'tcp 10.96.0.10:80';
    kernel.failNext({ code: 'ENOMEM', forKey: 'TCP 10.96.0.10:80 -> 10.244.0.2' });
    const destinations = ['10.244.0.1:80', '10.244.0.2:80', '10.244.0.3:80'];
    const result = await kernel.apply(
      batch(
        addTable,
        addService(web),
        ...destinations.map((to) => addDestination(web, to)),
        addLink,
      ),
    );
    expect(result).toMatchObject({ partly: true, failures: [{ op: 3, code: 'ENOMEM' }] });
    expect(kernel.ipvs.text()).toBe(
      [
        'TCP 10.96.0.10:80 rr flags 0x0 timeout 0 /32',
        '  -> 10.244.0.1:80 masq weight 1',
        '  -> 10.244.0.3:80 masq weight 1',
        '',
      ].join('\n'),
    );
    expect(kernel.links.texts('vips')).toBeUndefined();
    expect(kernel.writes).toBe(4);
  });

  it('can be configured without IPVS', async () => {
    const kernel = new FakeKernel();
    kernel.ipvs.present = false;
    const info = kernel.dump({ kind: 'ipvsInfoGet' });
    await expect(info).rejects.toMatchObject({ code: 'EPROTONOSUPPORT' });
    const result = await kernel.apply(batch(addService('tcp 10.96.0.10:80')));
    const failures = [{ op: undefined, code: 'EPROTONOSUPPORT' }];
    expect(result).toMatchObject({ kind: 'failed', failures, partly: false });
  });

  it('keeps the counters that a test sets for a destination', async () => {
    const kernel = new FakeKernel();
    const web = 'tcp 10.96.0.10:80';
    await kernel.apply(batch(addService(web), addDestination(web, '10.244.0.1:80')));
    kernel.ipvs.traffic('TCP 10.96.0.10:80', '10.244.0.1:80', { activeConnections: 3 });
    await kernel.apply(batch(setDestination(web, '10.244.0.1:80', { weight: 0 })));
    const { records } = await kernel.dump({ kind: 'destinationsDump', ...virtualService(web) });
    expect(records).toMatchObject([{ weight: 0, activeConnections: 3 }]);
  });

  it('can apply a batch and lose the answer', async () => {
    const kernel = new FakeKernel();
    kernel.unknownOutcome();
    const lost = await kernel.apply(batch(addTable));
    expect(lost).toMatchObject({ failures: [{ code: 'ENOBUFS', op: undefined }] });
    expect(kernel.ruleset()).toContain('table ip t');
  });

  it('can interrupt dumps', async () => {
    const kernel = new FakeKernel();
    kernel.interruptDumps();
    expect(await kernel.dump({ kind: 'tablesDump', family: 0 })).toMatchObject({
      consistent: false,
    });
    expect(await kernel.dump({ kind: 'tablesDump', family: 0 })).toMatchObject({
      consistent: true,
    });
  });

  it('counts a change by another program as a generation, but not as a write', async () => {
    const kernel = new FakeKernel();
    const before = await kernel.generation();
    kernel.foreign(batch(addTable));
    expect(await kernel.generation()).toBe(before + 1);
    expect(kernel.writes).toBe(0);
    expect(() => kernel.foreign(batch(elements(1)))).toThrow('ENOENT');
  });
});
