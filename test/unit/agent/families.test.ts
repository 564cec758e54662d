import { expect, it, onTestFinished } from 'vitest';
import type { Family } from '../../../src/net/address.ts';
import { resources } from '../../../src/state/change.ts';
import { asked, said } from '../ask/asking.ts';
import { address, node, ready, service, slice } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { configOf, Running } from './running.ts';

it('a family that the kernel has disabled is a problem, and is served once it is enabled', async () => {
  let enabled: readonly Family[] = ['IPv4'];
  let isShort = false;
  let isSysctlShort = false;
  const config = await configOf('--manifests=/anywhere', '--proxy-mode=nftables');
  const interfaces = ['127.0.0.1', '192.168.7.7', 'fd00::7'].map(address);
  const app = await new Running(config).start({
    families: () => {
      if (isShort) throw new Error('EMFILE');
      return enabled;
    },
    interfaces: () => interfaces,
    host: {
      read: () => {
        if (isSysctlShort) throw new Error('EMFILE');
        return undefined;
      },
      list: () => [],
      write: () => {},
    },
  });
  onTestFinished(() => app.stop());
  const addresses = interfaces.slice(1);
  app.source.say(
    { kind: 'node', node: node({ addresses }) },
    { kind: 'service', service: service({ clusterIPs: ['10.96.0.1', 'fd00:96::1'] }) },
    { kind: 'slice', slice: slice({ '10.244.0.2': ready }) },
    {
      kind: 'slice',
      slice: slice({ 'fd00:244::2': ready }, { key: 'ns/web-6', family: 'IPv6' }),
    },
    { kind: 'service', service: service({ name: 'other', clusterIPs: ['10.96.0.2'] }) },
    { kind: 'slice', slice: slice({ '10.244.0.2': ready }, { key: 'ns/o', service: 'ns/other' }) },
  );
  app.source.listed(...resources);
  await quiet();
  const because = 'the kernel has it disabled; it will be served once it is enabled';
  const node6 = `IPv6 is not served, of which the Node has address fd00::7: ${because}`;
  expect(app.lines).toContainEqual(expect.objectContaining({ level: 'warn', err: node6 }));
  expect((await asked(app, 'problems')).body).toMatchObject({
    healthy: false,
    proxy: [
      `This node: ${node6}.`,
      `1 Service has a ClusterIP of a family that is not served: ${because}.`,
    ],
    items: [
      {
        name: 'web',
        problems: [
          {
            reason: 'family_not_served',
            text: `It has ClusterIP fd00:96::1, and this node does not serve IPv6: ${because}.`,
          },
        ],
      },
    ],
  });
  const { items } = (await asked(app, 'services')).body;
  expect(items).toMatchObject([{ state: 'waiting' }, { state: 'in force' }]);
  const explained = await said(app, 'explain', '[fd00:96::1]:80');
  expect(explained.code).toBe(1);
  expect(explained.stdout).toContain(`This node does not serve IPv6: ${because}.`);
  // Where the machine is short of file descriptors, it is looked again.
  isShort = true;
  await app.clock.pass(5000);
  expect(app.outcome).toBeUndefined();
  isShort = false;
  isSysctlShort = true;
  enabled = ['IPv4', 'IPv6'];
  await app.clock.pass(5000);
  expect(app.outcome).toBeUndefined();
  isSysctlShort = false;
  const enabledLines = () => app.logged.filter((line) => line.startsWith('IP family was enabled'));
  await app.clock.pass(4999);
  expect(enabledLines()).toHaveLength(0);
  await app.clock.pass(1);
  expect(app.app.upToDate).toBe(true);
  expect(enabledLines()).toHaveLength(1);
  expect((await asked(app, 'problems')).body).toMatchObject({ healthy: true, items: [] });
  expect((await said(app, 'explain', '[fd00:96::1]:80', '--from=node')).code).toBe(0);
  // What is disabled again stays.
  enabled = ['IPv4'];
  await app.clock.pass(60_000);
  expect((await said(app, 'explain', '[fd00:96::1]:80', '--from=node')).code).toBe(0);
});

it('a Node that the cluster does not have is a problem, as soon as Nodes are known', async () => {
  const app = new Running(await configOf('--master=http://127.0.0.1:1', '--proxy-mode=nftables'));
  await app.start();
  onTestFinished(() => app.stop());
  app.source.listed('services', 'endpointslices', 'servicecidrs');
  await app.clock.pass(40_000);
  const missing = expect.stringMatching(/^This node: no Node is called "node-a": /);
  expect((await asked(app, 'status')).body.problems).not.toContainEqual(missing);
  app.source.listed('nodes');
  await quiet();
  expect((await asked(app, 'status')).body.problems).toContainEqual(missing);
  app.source.say({ kind: 'node', node: node() });
  await quiet();
  expect((await asked(app, 'status')).body.problems).not.toContainEqual(missing);
});
