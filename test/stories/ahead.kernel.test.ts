/** A start of mode nftables while lists stream in: the table fills, and packets do not meet it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { clusterIp, POD_A_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { withoutOwner } from '../lab/listing.ts';
import { BASELINE, type KubernetesObject, service, slices } from '../lab/objects.ts';
import { answerMs, paced } from '../lab/pace.ts';
import { type FairleadOptions, fairlead } from './fairlead-proxy.ts';

const attempt = {
  protocol: 'TCP',
  to: { address: clusterIp(10).IPv4, port: 80 },
  timeoutMs: answerMs,
} as const;

/** `web` comes first: the slices of those that come last may not be complete. */
const objects: readonly KubernetesObject[] = [
  ...BASELINE,
  ...Array.from({ length: 80 }, (_, i) => {
    const name = i === 0 ? 'web' : `other-${i}`;
    const one = service(name, { clusterIp: clusterIp(10 + i), ports: [{ port: 80 }] });
    return [one, ...slices(name, ['pod-a'])];
  }).flat(),
];

let lab: Lab;
beforeEach(async () => {
  lab = await createLab();
  await lab.actors['pod-a'].listen('TCP', POD_A_IP.IPv4, 8080);
});
afterEach(() => lab.close());

/** Both tables as nft lists them, whoever owns them. */
async function tables(): Promise<string> {
  return withoutOwner(await lab.node.run(['nft', 'list', 'ruleset']));
}

/** Resolves to the listing once the table of IPv4 holds the endpoints of `web`, and its verdict. */
async function filled(): Promise<string> {
  const verdict = `${clusterIp(10).IPv4} . tcp . 80 comment "default/web" : goto`;
  for (;;) {
    const text = await tables();
    if (text.includes(verdict)) return text;
    await sleep(20);
  }
}

async function starting(options: FairleadOptions = {}) {
  let complete = (): void => {};
  const listed = new Promise<void>((resolve) => {
    complete = resolve;
  });
  const proxy = fairlead('nftables', { ...options, listed });
  const running = proxy.start(lab.node, {}, objects);
  running.catch(() => {});
  return { running, complete, text: await filled() };
}

test('rules have hooks when everything is known, and not before', async () => {
  const { running, complete, text } = await starting();
  expect(text).not.toContain(' hook ');
  const { client } = lab.actors;
  const before = await client.open('before', { ...attempt, timeoutMs: paced(1000) });
  expect(before.kind).not.toBe('answered');

  complete();
  const proxy = await running;
  expect((await tables()).match(/type nat hook output/g)).toHaveLength(2);
  expect(await client.open('after', attempt)).toMatchObject({ kind: 'answered', by: 'pod-a' });
  await proxy.stop();
});

test('existing connections continue to work while the next process lists', async () => {
  const first = await fairlead('nftables').start(lab.node, {}, objects);
  await first.stop();
  const before = await tables();
  const { running, complete, text } = await starting();
  expect(text).toBe(before);
  await sleep(300);
  expect(await tables()).toBe(before);
  const { client } = lab.actors;
  expect(await client.open('during', attempt)).toMatchObject({ kind: 'answered', by: 'pod-a' });
  complete();
  const proxy = await running;
  expect(await tables()).toBe(before);
  await proxy.stop();
});
