import { request } from 'node:http';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { runCommand } from '../../../src/cli/run-command.ts';
import { Terminal } from '../../../src/cli/terminal.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { admitLocal } from '../../../src/serve/ask/admission.ts';
import { askRoutes } from '../../../src/serve/ask/routes.ts';
import type { Route } from '../../../src/serve/reply.ts';
import { resources } from '../../../src/state/change.ts';
import { type Running, started, web } from '../agent/running.ts';
import { node, ready, service, slice } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { asked, said, saidAt } from './asking.ts';
import { startedWith } from './broken-cluster-app.ts';
import { brokenClusters } from './broken-clusters.ts';

let app: Running;

afterEach(() => app.stop());

async function running(...flags: string[]): Promise<void> {
  app = await started('--manifests=/anywhere', '--cluster-cidr=10.244.0.0/16', ...flags);
  app.source.say(...web, { kind: 'node', node: node() });
  app.source.listed(...resources);
  await quiet();
}

describe('fairlead status', () => {
  it('is healthy for a proxy that keeps up', async () => {
    await running('--proxy-mode=nftables');
    vi.spyOn(process, 'uptime').mockReturnValueOnce(90);
    const { body } = await asked(app, 'status');
    expect(body).toMatchObject({
      started: new Date(app.clock.wallMs() - 90_000).toISOString(),
      uptimeSeconds: 90,
      healthy: true,
      problems: [],
      runbook: [],
      remarks: [],
      node: 'node-a',
      mode: { name: 'nftables', requested: 'nftables', because: 'mode nftables was asked for' },
      source: { kind: 'manifests', directory: '/anywhere' },
      services: { known: 1, waiting: 0, setAside: 0, overLimit: 0 },
    });
    expect(body.families).toMatchObject([
      { family: 'IPv4', phase: 'live', inForce: 1, waiting: 0, lastSync: { ok: true } },
      { family: 'IPv6', phase: 'live', inForce: 0, waiting: 0, lastSync: { ok: true } },
    ]);
    expect((await said(app, 'status')).code).toBe(0);
  });

  it('is healthy where connection tracking has no limit, which nf_conntrack_max 0 means', async () => {
    const sysctls = '/proc/sys/net/netfilter';
    const host = { [`${sysctls}/nf_conntrack_max`]: '0', [`${sysctls}/nf_conntrack_count`]: '48' };
    app = await startedWith({ ...brokenClusters[0]!, host });
    const { code, stdout } = await said(app, 'status');
    expect([code, stdout]).toEqual([0, expect.not.stringContaining('Infinity')]);
    const metrics = await (await app.get('metrics', '/metrics')).text();
    expect(metrics).not.toMatch(/^fairlead_conntrack_limit /m);
  });

  it('says what the fast path waits for, and then that it is in use', async () => {
    await running('--proxy-mode=nftables', '--fast-path=flowtable');
    const because = 'no device leads to pods or other machines';
    expect((await asked(app, 'status')).body.fastPath).toEqual({ state: 'unavailable', because });
    app.kernel.links.came('veth1', 'veth', { leaves: 1 });
    await app.clock.pass(1000);
    await quiet();
    const { body } = await asked(app, 'status');
    expect(body.fastPath).toEqual({ state: 'flowtable', packets: 20, devices: 1 });
    const { stdout } = await said(app, 'status');
    expect(stdout).toMatch(/Fast path: +flowtable after 20 packets, on 1 device/);
    const { body: explanation } = await asked(app, 'explain', '?to=10.96.0.1:80');
    const [last] = explanation.steps.slice(-1);
    expect(last.text).toContain('After 20 packets a connection takes the fast path');
    const { body: ofTheNode } = await asked(app, 'explain', '?to=10.96.0.1:80&from=node');
    expect(JSON.stringify(ofTheNode.steps)).not.toContain('fast path');
  });

  it('reports how far the proxy is behind when changes arrive faster than they are written', async () => {
    await running('--proxy-mode=nftables');
    const release = app.kernel.hold();
    app.source.say({ kind: 'slice', slice: slice({ '10.244.1.1': ready }) });
    await quiet();
    app.source.say({ kind: 'slice', slice: slice({ '10.244.1.2': ready }) });
    await app.clock.pass(4000);
    const { body } = await asked(app, 'status');
    expect(body).toMatchObject({ healthy: true, problems: [] });
    expect(body.families).toMatchObject([{ waiting: 1, behindSeconds: 4 }, { waiting: 0 }]);
    expect(body.remarks).toEqual([
      'IPv4 is behind: 1 Service waiting to be written, the next one for 4 s.',
    ]);
    expect(body.families[1]).not.toHaveProperty('behindSeconds');
    release();
  });

  it('reports how long rules have waited for their repair that another program changed', async () => {
    await running('--proxy-mode=nftables', '--own-tables=false');
    const writer = new RecordWriter(nftOps);
    writer.write('tableDelete', { family: NFPROTO.IPv4, table: 'fairlead' });
    const release = app.kernel.hold();
    app.kernel.foreign(writer.finish());
    await app.clock.pass(4000);
    const { body } = await asked(app, 'status');
    expect(body.remarks).toEqual([
      'IPv4 is behind: rules that another program changed have waited for their repair for 4 s.',
    ]);
    release();
    await app.clock.pass(0);
    const { body: after } = await asked(app, 'status');
    expect(after.remarks).toEqual([expect.stringContaining('were changed by meddler')]);
  });

  it('is unhealthy for a proxy that misses a list or watch', async () => {
    app = await started('--manifests=/anywhere');
    const { body } = await asked(app, 'status');
    expect(body.healthy).toBe(false);
    expect(body.problems).toEqual(['It is starting: nothing is programmed yet.']);
    expect((await said(app, 'status')).code).toBe(1);
  });

  it('is unhealthy while the changed configuration file is not in force', async () => {
    await running();
    app.app.refuseConfig('it is not valid, so that a restart would fail: mode (line 3): "x"');
    const { body } = await asked(app, 'status');
    expect(body.problems).toEqual([
      'The configuration file has changed and is not in force: it is not valid, so that a restart would fail: mode (line 3): "x".',
    ]);
    expect(body.runbook).toEqual(['after-an-upgrade']);
    app.app.refuseConfig(undefined);
    expect((await asked(app, 'status')).body.healthy).toBe(true);
  });

  it('shows what the kernel refuses, with its error', async () => {
    await running();
    app.kernel.failNext({ code: 'ENOSPC', forKey: '10.96.0.2', times: Number.POSITIVE_INFINITY });
    const other = service({ name: 'other', clusterIPs: ['10.96.0.2'] });
    app.source.say({ kind: 'service', service: other });
    await quiet();
    const { body } = await asked(app, 'status');
    expect(body.problems).toEqual(['The kernel refuses 1 Service port.']);
    expect(body.setAside).toMatchObject([
      {
        ...{ namespace: 'ns', service: 'other', earlierInForce: false },
        since: new Date(app.clock.wallMs()).toISOString(),
      },
    ]);
  });

  it('is available as JSON and text', async () => {
    await running();
    const json = JSON.parse((await said(app, 'status', '-o', 'json')).stdout);
    expect(json).toMatchObject({ kind: 'Status', node: 'node-a' });
    const { stdout } = await said(app, 'status');
    expect(stdout).toMatch(/^Status: +healthy\nNode: +node-a\n/);
    expect(stdout).toMatch(/\nFAMILY +PHASE +IN FORCE .*\nIPv4 +live +1 +0 /);
  });
});

describe('access to answers', () => {
  const plain = { method: 'GET', query: new URLSearchParams(), accept: '', body: '' };

  function ask(peer: string, host: string): ReturnType<Route> {
    const agent = {} as Parameters<typeof askRoutes>[0];
    const route = askRoutes(agent)(admitLocal)['/fairlead/v1/status']!;
    return route({ ...plain, peer, host, acceptEncoding: '', authorization: '' });
  }

  it.each([
    [
      '10.0.0.7',
      'localhost:10249',
      'answers are for this node: 10.0.0.7 is not a loopback address',
    ],
    ['::ffff:10.0.0.7', '127.0.0.1', '::ffff:10.0.0.7 is not a loopback address'],
    ['', '127.0.0.1', 'is not a loopback address'],
    [
      '127.0.0.1',
      'evil.example:10249',
      'must be an address or localhost, not "evil.example:10249"',
    ],
    ['::1', '', 'must be an address or localhost, not ""'],
  ])('from %j as %j is refused', async (peer, host, reason) => {
    await running();
    const { status, body } = await ask(peer, host);
    expect([status, JSON.parse(String(body)).error]).toEqual([
      403,
      expect.stringContaining(reason),
    ]);
  });

  it.each(['127.0.0.1:1', 'localhost', 'LOCALHOST:1', '[::1]:1', '[::1]', '10.0.0.7:10249'])(
    'with %j is permitted',
    async (host) => {
      await running();
      const { port } = app.config.metricsBindAddress!;
      const status = await new Promise((resolve, reject) => {
        const path = '/fairlead/v1/status';
        request({ port, path, headers: { host } }, (answer) => resolve(answer.statusCode))
          .once('error', reject)
          .end();
      });
      expect(status).toBe(200);
    },
  );

  it.each([
    ['POST', '', 405, 'method POST is not allowed: GET'],
    ['GET', '?wide=1', 400, 'unknown parameter "wide"'],
  ])('with %s %j gets status %d', async (method, query, status, error) => {
    await running();
    const { port } = app.config.metricsBindAddress!;
    const url = `http://127.0.0.1:${port}/fairlead/v1/status${query}`;
    const response = await fetch(url, { method });
    expect([response.status, await response.json()]).toEqual([status, { error }]);
  });
});

describe('the command fairlead status', () => {
  it.each([
    ['--server=127.0.0.1', '--server "127.0.0.1" is not ADDRESS:PORT'],
    ['--config=/nowhere', 'failed complete: cannot be read: ENOENT'],
  ])('rejects %s', async (arg, reason) => {
    await running();
    const code = await runCommand(['status', arg], {
      stdout: new Terminal(() => ({ write: () => {} })),
      stderr: new Terminal(() => ({ write: (text) => expect(text).toContain(`Error: ${reason}`) })),
    });
    expect(code).toBe(2);
  });

  it('reports that no process answers', async () => {
    await running();
    const { port } = app.config.healthzBindAddress!;
    const other = await saidAt(port, 'status');
    expect([other.code, other.stderr]).toEqual([
      3,
      expect.stringMatching(/^Error: .* does not answer like Fairlead: 404 404 page not found\n/),
    ]);
    const nobody = await saidAt(1, 'status');
    expect([nobody.code, nobody.stdout]).toEqual([3, '']);
    expect(nobody.stderr).toMatch(/^Error: cannot reach http:\/\/127\.0\.0\.1:1: /);
  });
});
