import { expect, test } from 'vitest';
import { parseLocalRoutes } from '../../../src/kernel/local-routes.ts';

test('local routes are recognised by their flags', () => {
  const none = '0'.repeat(32);
  const line = (destination: string, prefixLength: string, flags: string): string =>
    `${destination} ${prefixLength} ${none} 00 ${none} 00000000 00000003 00000000 ${flags}     eth0`;
  const vip = 'fd00009600000000000000000000000a';
  const text = [
    line(vip, '80', '80200001'),
    line('fd0000970000000000000000000000aa', '80', '00000001'),
    line('ff000000000000000000000000000000', '08', '80000001'),
    '',
  ].join('\n');
  expect(parseLocalRoutes(text)).toEqual(new Set([vip]));
});
