/** What a node reports to `kubectl fairlead`, and what the plugin makes of it. */
import { afterEach, describe, expect, it } from 'vitest';
import { configHash } from '../../../src/config/hash.ts';
import { ascii, reportText } from '../../../src/serve/ask/report/lines.ts';
import { resources } from '../../../src/state/change.ts';
import { configOf, type Running, started, web } from '../agent/running.ts';
import { type Said, saidAt } from '../ask/asking.ts';
import { freePort } from '../free-port.ts';
import { node, service } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { PaperCluster, rows } from './cluster.ts';

let app: Running;

afterEach(() => app?.stop());

async function running(): Promise<void> {
  app = await started('--manifests=/anywhere');
  app.source.revisions.set('services ns/web', '41');
  app.source.revisions.set('endpointslices ns/web-1', '43');
  app.source.say({ kind: 'node', node: node() }, ...web);
  app.source.listed(...resources);
  await quiet();
}

function reported(port: number, ...args: string[]): Promise<Said> {
  return saidAt(port, 'node-report', ...args);
}

async function report(...args: string[]): Promise<string> {
  const { code, stdout } = await reported(app.config.metricsBindAddress!.port, ...args);
  expect(code).toBe(0);
  return stdout;
}

describe('fairlead node-report', () => {
  it('is read by the plugin: status', async () => {
    await running();
    const answer = await report('status');
    expect(answer).toMatch(/^fairlead-report\t1\tv[\d.]+\nnode\tnode-a\nhealthy\tyes\n/);
    expect(answer).toMatch(/\nend\n$/);
    const { stdout } = await new PaperCluster().node('a', answer).ask('status', '--no-headers');
    const hash = configHash(app.config);
    expect(rows(stdout)[0]!.slice(0, 7)).toEqual([
      ...['a', 'yes', 'nftables', expect.stringMatching(/^v/), hash],
      ...[expect.stringMatching(/^\d+s ago$/), 'none'],
    ]);
  });

  it('is read by the plugin: a Service, with the revisions from which it was resolved', async () => {
    await running();
    const answer = await report('service', 'ns/web');
    const cluster = (slices: string) =>
      new PaperCluster().object('service', '41\n').object('endpointslices', slices);
    const same = await cluster('IPv4\tweb-1\t43\n').node('a', answer).ask('service', 'ns/web');
    expect([same.code, rows(same.stdout)[1]!.slice(0, 3)]).toEqual([0, ['a', 'yes', '41']]);
    const newer = await cluster('IPv4\tweb-1\t44\n').node('a', answer).ask('service', 'ns/web');
    expect([newer.code, rows(newer.stdout)[1]!.slice(0, 2)]).toEqual([1, ['a', 'stale']]);
  });

  it('is read by the plugin: problems, differences and a missing Service', async () => {
    await running();
    const diff = await new PaperCluster().node('a', await report('diff')).ask('diff');
    expect([diff.code, rows(diff.stdout)[1]!.slice(0, 2)]).toEqual([0, ['a', 'yes']]);
    app.source.say({ kind: 'service', service: service({ name: 'lonely' }) });
    await quiet();
    const problems = await new PaperCluster().node('a', await report('problems')).ask('problems');
    expect(rows(problems.stdout)[1]).toEqual([
      ...['ns/lonely', 'a', expect.stringMatching(/^No EndpointSlice/)],
    ]);
    const port = app.config.metricsBindAddress!.port;
    const absent = await reported(port, 'service', 'ns/none');
    expect([absent.code, absent.stdout]).toEqual([1, expect.stringMatching(/\nrefused\tthis/)]);
  });

  it('contains the reason if the process does not answer, and rejects unknown reports', async () => {
    const silent = await reported(await freePort(), 'status');
    expect([silent.code, silent.stdout]).toEqual([
      3,
      expect.stringMatching(/\nunreachable\tcannot reach .*\nend\n$/),
    ]);
    for (const args of [[], ['weather'], ['toString'], ['service', 'web']]) {
      const { code, stderr } = await reported(1, ...args);
      expect([args, code, stderr]).toEqual([args, 2, expect.stringMatching(/^Error: /)]);
    }
  });

  it('is printable ASCII, one output line for each line, with no empty field', () => {
    expect(ascii('client’s \u001b[2J é\ud83d\ude00 a\tb\nc')).toBe(
      "client's \\u001b[2J \\u00e9\\ud83d\\ude00 a\\u0009b\\u000ac",
    );
    const [, line] = reportText([['problem', '', 'x'.repeat(900)]]).split('\n');
    expect(line).toBe(`problem\t-\t${'x'.repeat(500)}`);
  });
});

describe('the revisions in an answer', () => {
  it('are the last delivered ones of the Service and of its slices', async () => {
    await running();
    const one = await app.get('metrics', '/fairlead/v1/service?name=web');
    const { observed } = (await one.json()) as { observed: unknown };
    expect(observed).toEqual({ service: '41', slices: [{ name: 'web-1', revision: '43' }] });
  });
});

describe('the configuration hash', () => {
  it('is the same on nodes with the same configuration, whatever their names', async () => {
    const hash = async (...flags: string[]): Promise<string> => {
      const config = await configOf(...flags);
      const { metricsBindAddress: _, healthzBindAddress: __, ...document } = config.document;
      return configHash({ document });
    };
    const usual = await hash('--hostname-override=a');
    expect(usual).toMatch(/^[0-9a-f]{12}$/);
    expect(await hash('--hostname-override=b')).toBe(usual);
    expect(await hash('--hostname-override=a', '--masquerade-all')).not.toBe(usual);
  });
});
