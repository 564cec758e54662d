import { expect, it } from 'vitest';
import { type Change, resources } from '../../../src/state/change.ts';
import type { Random } from '../../chaos/random.ts';
import { withRandom } from '../../chaos/test-seed.ts';
import { type Running, started } from '../agent/running.ts';
import { http, node, ready, readyLocal, service, slice, unready } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { asked } from './asking.ts';

const names = ['a', 'b', 'c', 'd', 'e', 'f'];
const types = ['ClusterIP', 'LoadBalancer'] as const;

function randomChange(random: Random): Change {
  const index = random.below(names.length);
  const name = names[index]!;
  const key = `ns/${name}`;
  const what = random.below(8);
  if (what === 0) return { kind: 'service-gone', key };
  if (what < 3) {
    const ports = [http, { ...http, name: 'other', port: 81 }].slice(random.below(2));
    const externalIPs = random.below(4) === 0 ? [`203.0.113.${index}`] : [];
    const own = { name, ports, externalIPs, type: random.pick(types) };
    // Two of them may ask for the same address.
    const clusterIPs = [`10.96.0.${random.below(4) === 0 ? 99 : index + 1}`];
    return { kind: 'service', service: service({ ...own, clusterIPs }) };
  }
  const endpoints = Array.from({ length: random.below(4) }, (_, i) => {
    return [`10.244.${index}.${i}`, random.pick([ready, readyLocal, unready])] as const;
  });
  const fields = { key: `${key}-1`, service: key };
  return { kind: 'slice', slice: slice(Object.fromEntries(endpoints), fields) };
}

async function running(): Promise<Running> {
  const app = await started('--manifests=/anywhere', '--proxy-mode=nftables');
  app.source.say({ kind: 'node', node: node() });
  app.source.listed(...resources);
  await quiet();
  return app;
}

/** The list of Services as programs get it, and its table on the page. */
async function shown(app: Running): Promise<string> {
  const list = await (await app.get('metrics', '/fairlead/v1/services')).text();
  const page = await (await app.get('metrics', '/')).text();
  const table = /<section id="service-list"[\s\S]*?<\/section>/.exec(page)![0];
  // The order of those with problems depends on when they were found.
  const rows = table.match(/<tr>.*?<\/tr>/g) ?? [];
  return [list, ...rows.sort()].join('\n');
}

it('lists of Services say the same with and without earlier questions', () =>
  withRandom(async (random) => {
    const [before, silent] = [await running(), await running()];
    try {
      for (let i = 0; i < 40; i += 1) {
        const change = randomChange(random);
        for (const app of [before, silent]) app.source.say(change);
        // At times before the change is in the kernel.
        if (random.below(3) > 0) await quiet();
        await shown(before);
      }
      await quiet();
      expect(await shown(before)).toBe(await shown(silent));
    } finally {
      await before.stop();
      await silent.stop();
    }
  }));

it('a row follows the endpoints that are used, also when none comes or goes', async () => {
  const app = await running();
  try {
    app.source.say({ kind: 'service', service: service() });
    for (const [endpoint, used] of [[ready, 1] as const, [unready, 0] as const]) {
      app.source.say({ kind: 'slice', slice: slice({ '10.244.0.2': endpoint }) });
      await quiet();
      const { body } = await asked(app, 'services');
      expect(body.items).toMatchObject([{ endpoints: 1, used }]);
      const page = await (await app.get('metrics', '/')).text();
      expect(page).toContain(`<td data-name="Used" class="num">${used}/1</td>`);
    }
  } finally {
    await app.stop();
  }
});
