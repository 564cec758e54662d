/** Whether a node learns that no endpoint of other nodes answers it any more. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LoggedMessage } from '../../scripts/log-messages.ts';
import { clusterIp, NODE2_POD_GATEWAY, POD_C_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import {
  BASELINE,
  DEFAULT_CLUSTER_CIDR,
  type KubernetesObject,
  service,
  slices,
} from '../lab/objects.ts';
import { fairleadInside, type KillableProxy } from './fairlead-inside.ts';
import type { LogLine } from './fairlead-proxy.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

const lines: LogLine[] = [];
const proxy = fairleadInside('nftables', { log: (line) => lines.push(line) });
const settings = { clusterCIDR: DEFAULT_CLUSTER_CIDR, healthzNetwork: true } as const;
const hosts = [POD_C_IP.IPv4, NODE2_POD_GATEWAY.IPv4];

/** Services of two namespaces, whose endpoints refuse connections, which is an answer. */
const objects = hosts.flatMap((IPv4, i): KubernetesObject[] => {
  const own = [
    service('web', { clusterIp: { IPv4: clusterIp(10 + i).IPv4 } }),
    ...slices('web', [{ at: { IPv4 }, nodeName: `node-${i}` }]),
  ];
  return own.map((one) => ({ ...one, metadata: { ...one.metadata, namespace: `shop-${i}` } }));
});

/** What the node does with what it gets from each of them. */
async function treat(verdict: 'counter' | 'drop'): Promise<void> {
  const rules = hosts.map((host) => `ip saddr ${host} ${verdict};`).join(' ');
  const chain = `chain input { type filter hook input priority 0; ${rules} }`;
  await lab.node.run(['nft', `table ip t {}; delete table ip t; table ip t { ${chain}; }`]);
}

async function passUntil(running: KillableProxy, isTrue: () => Promise<boolean> | boolean) {
  while (!(await isTrue())) {
    await running.skip(10_000);
    await sleep(100);
  }
}

test('no endpoint of another node answers, and then they do again', {
  timeout: 120_000,
}, async () => {
  const told = (msg: LoggedMessage) => () => lines.some((line) => line.msg === msg);
  const silence = told('No endpoint of another node answers');
  await treat('counter');
  const running = await proxy.start(lab.node, settings, [...BASELINE, ...objects]);
  await passUntil(running, async () => {
    const listed = await lab.node.run(['nft', 'list', 'table', 'ip', 't']);
    return !listed.includes('packets 0');
  });
  expect(silence()).toBe(false);
  await treat('drop');
  await passUntil(running, silence);
  await treat('counter');
  await passUntil(running, told('Endpoints of other nodes answer again'));
  await running.stop();
  await proxy.cleanup(lab.node);
});
