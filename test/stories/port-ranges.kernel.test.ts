/** Ranges of ports in the modes that serve them. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { lbVip, POD_A_IP } from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { withoutOwner } from '../lab/listing.ts';
import { BASELINE, service, settings, slices } from '../lab/objects.ts';
import { orphans, untilReleased } from '../lab/owners.ts';
import { runStory } from '../lab/run-story.ts';
import { annotated } from './balancing-rig.ts';
import { cleanup, fairlead } from './fairlead-proxy.ts';
import { iptablesStory } from './iptables-story.ts';
import { portRangeStories } from './port-ranges.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

describe.each(['nftables', 'iptables'] as const)('in mode %s', (mode) => {
  test.each(portRangeStories)('$name', (story) =>
    runStory(lab, fairlead(mode), mode === 'iptables' ? iptablesStory(story) : story),
  );
});

test('10,000 ports are four elements that nft lists, and a restart writes nothing', async () => {
  const { node } = lab;
  const web = service('web', { ports: [{ port: 10_000 }], vips: [lbVip(1)] });
  const ports = [{ port: 10_000 }];
  const objects = [
    ...BASELINE,
    annotated(web, { 'fairlead.io/port-range': '10000-19999' }),
    ...slices('web', ['pod-a'], { ports }),
  ];
  const listed = async () => withoutOwner(await node.run(['nft', '--handle', 'list', 'ruleset']));
  const generation = () => askKernel(node, (kernel) => kernel.generation());
  const first = await fairlead('nftables').start(node, settings, objects);
  const before = await listed();
  const atVip = before.split('\n').filter((line) => line.includes(`${lbVip(1).IPv4} . tcp . `));
  const [single, range] = [10_000, 0].map((port) => `${lbVip(1).IPv4} . tcp . ${port}`);
  const text = atVip.join('\n');
  expect(text.match(/ \. tcp \. /g)).toHaveLength(4);
  expect(text).toContain(`${single} . 0x00000000 : ${POD_A_IP.IPv4} . 10000`);
  expect(text).toContain(`${range} . 0x00000000 : ${POD_A_IP.IPv4} . 10000`);
  expect(before).toContain('th dport 10000-19999 goto range-external-2-');
  expect(before).toMatch(
    /dnat ip to ip daddr \. meta l4proto \. th dport & 0 \. numgen random mod 1/,
  );
  await first.stop();
  await untilReleased(node);
  const taken = (await generation()) + (await askKernel(node, orphans));
  const second = await fairlead('nftables').start(node, settings, objects);
  expect(await generation()).toBe(taken);
  expect(await listed()).toBe(before);
  await second.stop();
  await cleanup(node);
  await lab.reset();
});
