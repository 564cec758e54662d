/** How connections are shared out in mode ipvs. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Balance } from '../../src/state/deal.ts';
import { BASELINE } from '../lab/objects.ts';
import { BalancingRig, datagrams, longestMs, ports, web, weighted } from './balancing-rig.ts';

/** An emulated machine is slow, and schedulers that take turns are exact. */
const enough = 1000;

let rig: BalancingRig;
beforeAll(async () => {
  rig = await BalancingRig.create();
});
afterAll(() => rig?.close());
afterEach(() => rig.stop());

test(
  'endpoints get connections by their weights, and by others when these change',
  () => rig.weigh('ipvs', enough),
  longestMs,
);

test.each<[Balance, string]>([
  ['round-robin', 'wrr'],
  ['source-hash', 'sh'],
  ['flow-hash', 'sh'],
  ['maglev', 'mh'],
  ['least-connections', 'wlc'],
])('%s is done by the scheduler %s', async (balance, scheduler) => {
  const weights = [100, 200];
  await rig.start([web(balance), ...weighted(weights)], 'ipvs');
  const text = await rig.lab.node.run(['ipvsadm', '-Ln']);
  expect(text).toMatch(new RegExp(`^TCP +\\S+:80 ${scheduler}\\b`, 'm'));
  expect(await rig.shares(1)).toHaveLength(4);
});

test('a client keeps its endpoint by source-hash, and each has its turn by round-robin', async () => {
  const proxy = await rig.start(datagrams('source-hash', ports), 'ipvs');
  const own = new Set<number>();
  for (let i = 0; i < 6; i += 1) own.add(await rig.answerTo({}));
  expect(own.size).toBe(1);
  await proxy.apply([...BASELINE, ...datagrams('round-robin', ports)]);
  await rig.lab.actors.node.flushConntrack();
  const answers: number[] = [];
  for (const _ of ports) answers.push(await rig.answerTo({}));
  expect(answers.sort()).toEqual(ports);
});
