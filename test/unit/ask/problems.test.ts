/** All answers have one notion of what is wrong with a Service, and all of it has a reason. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type ProblemReason, reasonNames } from '../../../src/ask/problem-reasons.ts';
import type { ProblemList } from '../../../src/ask/problems.ts';
import type { ServiceAnswer, ServiceList } from '../../../src/ask/service.ts';
import type { Status } from '../../../src/ask/status.ts';
import type { Running } from '../agent/running.ts';
import { freePort } from '../free-port.ts';
import { Document } from '../serve/page/document.ts';
import { quiet } from '../sync/double.ts';
import { asked, said } from './asking.ts';
import { changesOf, startedWith } from './broken-cluster-app.ts';
import { brokenClusters, endpoints, here, node, web } from './broken-clusters.ts';
import { everyBrokenCluster } from './more-broken-clusters.ts';

let app: Running;

afterEach(() => app.stop());

type Reasons = readonly ProblemReason[];

async function page(query: string): Promise<Document> {
  return new Document(await (await app.get('metrics', `/${query}`)).text());
}

/** The value of each series of a metric, by its labels as they are written. */
function series(text: string, name: string): Map<string, number> {
  const found = new Map<string, number>();
  for (const [, labels = '', value] of text.matchAll(
    new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'),
  )) {
    found.set(labels, Number(value));
  }
  return found;
}

function nameOf({ namespace, name }: { readonly namespace: string; readonly name: string }) {
  return `${namespace}/${name}`;
}

const words = (reasons: Reasons) => reasons.join(', ').replaceAll('_', ' ');

describe('the problems of a Service are the same in every answer', () => {
  it.each(everyBrokenCluster)('where $name', async (cluster) => {
    app = await startedWith(cluster);
    const { items }: ServiceList = (await asked(app, 'services')).body;
    const expected = new Map(items.map((item) => [nameOf(item), item.reasons]));
    const troubled = items.filter(({ reasons }) => reasons.length > 0);
    const names = troubled.map(nameOf).sort();
    if (expected.has('default/web'))
      expect(expected.get('default/web')).toEqual(cluster.reasons ?? []);

    const status: Status = (await asked(app, 'status')).body;
    expect(status.services.withProblems).toBe(troubled.length);

    const problems: ProblemList = (await asked(app, 'problems')).body;
    expect(problems.items.map(nameOf)).toEqual(names);
    expect(problems.healthy).toBe(status.healthy && troubled.length === 0);
    expect(problems.proxy).toEqual(status.problems);
    for (const item of problems.items) {
      const reasons = new Set(item.problems.map(({ reason }) => reason));
      expect(reasonNames.filter((one) => reasons.has(one))).toEqual(expected.get(nameOf(item)));
    }
    // What kubectl fairlead problems reads of each node.
    const { stdout: report } = await said(app, 'node-report', 'problems');
    const reported = [...report.matchAll(/^problem\t(\S+)\t/gm)].map(([, subject]) => subject!);
    expect(reported.filter((one) => one === 'node')).toHaveLength(status.problems.length);
    expect([...new Set(reported.filter((one) => one !== 'node'))].sort()).toEqual(names);
    const list = await said(app, 'problems');
    expect(list.code).toBe(problems.healthy ? 0 : 1);
    const all = await said(app, 'service', 'list');
    const only = await said(app, 'service', 'list', '--problems', '-o', 'json');
    expect(JSON.parse(only.stdout).items.map(nameOf)).toEqual(names);

    const rows = (await page('')).rows('Services');
    const filtered = (await page('?state=unhealthy')).rows('Services');
    expect(filtered.map(({ Name, Namespace }) => `${Namespace}/${Name}`).sort()).toEqual(names);
    const headline = (await page('')).texts('p')[0]!;
    expect(headline.startsWith(status.healthy ? 'Proxy healthy.' : 'Proxy unhealthy.')).toBe(true);
    expect(/(\d+) Services? ha(?:s|ve) problems/.exec(headline)?.[1] ?? '0').toBe(
      String(troubled.length),
    );

    // Once: the next reading would wait for a second.
    const metrics = await (await app.get('metrics', '/metrics')).text();
    expect([...series(metrics, 'fairlead_healthy').values()]).toEqual([status.healthy ? 1 : 0]);
    const counted = series(metrics, 'fairlead_services_with_problems');
    for (const reason of reasonNames) {
      const count = items.filter((item) => item.reasons.includes(reason)).length;
      expect([reason, counted.get(`reason="${reason}"`)]).toEqual([reason, count]);
      expect([
        reason,
        problems.reasons.find((one) => one.reason === reason)?.services ?? 0,
      ]).toEqual([reason, count]);
    }

    for (const item of items) {
      const { reasons } = item;
      const query = `?${new URLSearchParams({ namespace: item.namespace, name: item.name })}`;
      const service: ServiceAnswer = (await asked(app, 'service', query)).body;
      expect(service.reasons).toEqual(reasons);
      expect(service.problems.length > 0).toBe(reasons.length > 0);
      const shown = await said(app, 'service', 'show', nameOf(item));
      expect(shown.code).toBe(reasons.length > 0 ? 1 : 0);
      expect(/^Problem:/m.test(shown.stdout)).toBe(reasons.length > 0);
      const state = reasons.length > 0 ? words(reasons) : item.state;
      const row = rows.find(({ Name }) => Name === item.name);
      expect(row!.State!.startsWith(state)).toBe(true);
      const line = all.stdout.split('\n').find((one) => one.split(/ +/)[1] === item.name);
      expect(line).toContain(`  ${state}`);
      const its = problems.items.find((one) => nameOf(one) === nameOf(item));
      expect(its?.problems.map(({ text }) => text) ?? []).toEqual(service.problems);
    }
  });

  it('also after the problem was fixed, or the Service was deleted', async () => {
    app = await startedWith({ ...brokenClusters[0]!, manifests: web() + endpoints('  []') + node });
    const count = async () => (await asked(app, 'status')).body.services.withProblems;
    expect(await count()).toBe(1);
    app.source.say(...changesOf(endpoints(here)));
    await quiet();
    expect(await count()).toBe(0);
    app.source.say(...changesOf(endpoints('  []')));
    await quiet();
    expect(await count()).toBe(1);
    app.source.say({ kind: 'service-gone', key: 'default/web' });
    await quiet();
    expect(await count()).toBe(0);
    expect((await asked(app, 'problems')).body).toMatchObject({ items: [], healthy: true });
  });

  it('while another program listens on its health-check node port', async () => {
    const port = await freePort();
    const taken = createServer().listen(port, '127.0.0.1');
    await once(taken, 'listening');
    const spec = `externalTrafficPolicy: Local\n  healthCheckNodePort: ${port}`;
    const manifests = web(spec) + endpoints(here) + node;
    const flags = ['--nodeport-addresses=127.0.0.0/8'];
    app = await startedWith({ ...brokenClusters[0]!, flags, manifests });
    const web80 = async () => (await asked(app, 'service', '?namespace=default&name=web')).body;
    expect(await web80()).toMatchObject({
      reasons: ['address_taken'],
      problems: [expect.stringContaining(`health-check node port ${port}: listen EADDRINUSE`)],
    });
    expect((await asked(app, 'problems')).body.items).toHaveLength(1);
    taken.close();
    await app.clock.pass(60_000);
    expect((await asked(app, 'problems')).body.items).toEqual([]);
    expect(await web80()).toMatchObject({ reasons: [], problems: [] });
  });

  it('when a ServiceCIDR is added that contains an endpoint of it', async () => {
    app = await startedWith({ ...brokenClusters[0]!, manifests: web() + endpoints(here) + node });
    const reasons = async () => (await asked(app, 'services')).body.items[0].reasons;
    expect(await reasons()).toEqual([]);
    const cidr = node.slice(node.indexOf('---')).replace('10.96.0.0/16', '10.244.0.0/24');
    app.source.say(...changesOf(cidr));
    await quiet();
    expect(await reasons()).toEqual(['service_address']);
  });
});
