/** Downloads run on when modes ipvs and nftables take over from one another. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import { allFromB, Downloads, objects, settings, untilTold } from './downloads.ts';
import { fairlead, type LogLine } from './fairlead-proxy.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

test('downloads survive the switch between our modes ipvs and nftables, and back', async () => {
  const { node } = lab;
  const downloads = new Downloads(lab);
  await downloads.listen();
  const lines: LogLine[] = [];
  const proxy = fairlead('ipvs', { log: (line) => lines.push(line) });
  const running = await proxy.start(node, settings, objects);
  expect(await downloads.open(' of ipvs')).toEqual(allFromB);
  await running.switchTo('nftables');
  await untilTold(
    lines,
    'Previous mode still has active connections; removing its objects when they end',
  );
  await downloads.connect();
  expect(await downloads.open(' of nftables')).toEqual(allFromB);
  await running.switchTo('ipvs');
  await untilTold(lines, 'Took over from another mode; removed its objects');
  await downloads.connect();
  expect(await node.run(['nft', 'list', 'tables'])).not.toMatch(/fairlead$/m);
  expect(await downloads.resume(' of ipvs')).toEqual(allFromB);
  expect(await downloads.resume(' of nftables')).toEqual(allFromB);
  await running.stop();
  await proxy.cleanup(node);
  await lab.reset();
});
