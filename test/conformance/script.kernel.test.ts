import { describe, expect, it } from 'vitest';
import { tableName } from '../../src/modes/nftables/layout.ts';
import { nftablesMode } from '../../src/modes/nftables/mode.ts';
import { noPause } from '../../src/time/pacer.ts';
import { FakeKernel } from '../fake/kernel.ts';
import { scriptOf } from '../print/script.ts';
import { played, skeletonBatches, storyNames } from '../unit/modes/nftables/scripts.ts';
import { createKernel, createNamespace, type Namespace } from './namespace.ts';
import { dumpAll } from './nft-record.ts';
import { dumped } from './ops.ts';

const families = ['IPv4', 'IPv6'] as const;
const lives = families.flatMap((family) => storyNames.map((name) => ({ family, name })));

interface Listed {
  readonly [kind: string]: { readonly [property: string]: unknown };
}

/**
 * The listing of nft without parts that always differ: handles, the order of elements, and the type
 * of an index. nft only has that from `typeof`, which it stores; without it, it prints a mark.
 */
async function listed(namespace: Namespace): Promise<unknown[]> {
  const { nftables } = JSON.parse(await namespace.run('nft', ['-j', 'list', 'ruleset']));
  return (nftables as Listed[]).map((object) => {
    const [[kind, { handle: _, type, map, elem, ...rest }]] = Object.entries(object) as [
      [string, Listed[string]],
    ];
    const indexed = String(type).match(/mark|integer/) !== null;
    const types = indexed ? {} : { type, map };
    const elements = Array.isArray(elem) ? elem.map((each) => JSON.stringify(each)).sort() : elem;
    return { [kind]: { ...rest, ...types, elem: elements } };
  });
}

describe('nft(8)', () => {
  it.for(lives)('lists story $name of $family as text and as JSON', async ({ name, family }) => {
    const { kernel, namespace } = await createKernel();
    const { batches } = await played(name, family);
    for (const ops of batches) {
      expect(await kernel.apply(ops)).toEqual({ kind: 'applied' });
      const listing = await namespace.run('nft', ['list', 'ruleset']);
      expect(listing).toContain('chain services');
      const json = JSON.parse(await namespace.run('nft', ['-j', 'list', 'ruleset']));
      expect(json.nftables.length).toBeGreaterThan(10);
    }
  });

  it.for(families)(
    'shows the owner of a frontend of %s, and reads again what it lists',
    async (of) => {
      const { kernel, namespace } = await createKernel();
      const { batches } = await played('every-kind', of);
      for (const ops of batches.slice(0, skeletonBatches + 1)) await kernel.apply(ops);
      const theirs = await createNamespace();
      const table = `${of === 'IPv4' ? 'ip' : 'ip6'} ${tableName}`;
      const chains = await dumped(kernel, 'chain', { kind: 'chainsDump', family: 0, table: '' });
      const named = chains.map(({ chain }) => `add chain ${table} ${chain}\n`);
      await theirs.run('nft', ['-f', '-'], [`add table ${table}\n`, ...named].join(''));
      const list = (where: Namespace, map: string) =>
        where.run('nft', [`list map ${table} ${map}`]);
      for (const map of ['services', 'nodeports']) {
        const listing = await list(namespace, map);
        expect(listing).toMatch(/tcp \. \d+ comment "ns\/web:http" : goto /);
        await theirs.run('nft', ['-f', '-'], listing);
        expect(await list(theirs, map)).toBe(listing);
      }
    },
  );

  // nft 1.0.6 runs out of registers when it compiles some rules that it can list.
  const scripts = lives.filter(
    ({ family, name }) => family === 'IPv4' || name !== 'session-affinity',
  );
  it.for(scripts)('creates from the script of $name, $family, the same objects', async (life) => {
    const { kernel, namespace } = await createKernel();
    let script = '';
    const { batches } = await played(life.name, life.family);
    for (const ops of batches) {
      await kernel.apply(ops);
      script += scriptOf('nftables', ops);
      // In one call: nft 1.0.6 does not read back the `typeof` that it wrote.
      const theirs = await createNamespace();
      await theirs.run('nft', ['-f', '-'], script);
      expect(await listed(namespace)).toEqual(await listed(theirs));
    }
  });
});

describe('the fake kernel and the real one', () => {
  it.for(lives)('have the same state after story $name of $family', async (life) => {
    const { kernel } = await createKernel();
    const fake = new FakeKernel();
    const { batches } = await played(life.name, life.family);
    for (const ops of batches) {
      expect(await kernel.apply(ops)).toEqual(await fake.apply(ops));
      expect(await dumpAll(fake)).toEqual(await dumpAll(kernel));
    }
  });
});

describe('the nftables mode on a real kernel', () => {
  it('pass the probe, and have nothing left after it', async () => {
    const { kernel } = await createKernel();
    expect(await nftablesMode.probe(kernel)).toEqual([]);
    expect((await kernel.dump({ kind: 'tablesDump', family: 0 })).records).toEqual([]);
  });

  it.for(lives)('adopt story $name of $family without a write', async (life) => {
    const { kernel } = await createKernel();
    const { batches, rig } = await played(life.name, life.family);
    for (const ops of batches) await kernel.apply(ops);
    const planner = rig.newPlanner();
    const found = await planner.observe(kernel, noPause);
    const adopted = [...rig.planned.values()].map((wanted) => found.adopt(wanted));
    const repair = await found.restore(adopted, noPause);
    for (const wanted of adopted) repair.compare(wanted);
    await repair.finish(noPause);
    expect(planner.take()).toBeUndefined();
    expect(planner.takeDeferred).toBeUndefined();
    await nftablesMode.cleanup(kernel);
    expect((await kernel.dump({ kind: 'tablesDump', family: 0 })).records).toEqual([]);
  });
});
