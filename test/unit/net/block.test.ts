import { expect, it } from 'vitest';
import { blocksOf } from '../../../src/net/block.ts';

it.each([
  ['192.0.2.1', '192.0.2.1', '192.0.2'],
  ['::ffff:192.0.2.1', '192.0.2.1', '192.0.2'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2', '2001:db8:1'],
  ['2001:db8::6', '2001:db8:0:0', '2001:db8:0'],
  ['fe80::1%eth0', 'fe80:0:0:0', 'fe80:0:0'],
  ['::1', '0:0:0:0', '0:0:0'],
])('%s is in the blocks %s and %s', (address, host, routed) => {
  expect(blocksOf(address)).toEqual([address, host, routed]);
});
