import { describe, expect, it } from 'vitest';
import {
  Address,
  cidrContains,
  formatAddress,
  formatCIDR,
  parseAddress,
  parseCIDR,
} from '../../../src/net/address.ts';
import { address, cidr } from '../state/build.ts';

describe('Address', () => {
  it.each([
    [10, 96, 0, 1],
    [255, 0, 128, 7],
    [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0x80, 1],
  ])('has the bytes of %s, whatever is written to those that it was given or gave', (...octets) => {
    const given = Uint8Array.from(octets);
    const made = Address.from(given);
    given.fill(1);
    made.bytes.fill(2);
    expect([...made.bytes]).toEqual(octets);
    expect(made.key).toBe(parseAddress(formatAddress(made.bytes))!.key);
    const copied = new Uint8Array(octets.length + 2);
    made.copy(copied, 1);
    expect([...copied]).toEqual([0, ...octets, 0]);
  });
});

/** What else is an address: `address.prop.test.ts`. */
describe('parseAddress', () => {
  it.each(['::ffff:10.0.0.1', '::FFFF:a00:1', '0:0:0:0:0:ffff:10.0.0.1'])(
    'treats the IPv4-mapped %s as IPv4',
    (text) => {
      expect(parseAddress(text)).toEqual(parseAddress('10.0.0.1'));
    },
  );
});

describe('parseCIDR', () => {
  it.each([
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['203.0.113.000/025', '203.0.113.0/25'],
    ['255.255.255.255/0', '0.0.0.0/0'],
    ['fd00:ffff::1/17', 'fd00:8000::/17'],
    ['ffff::/0', '::/0'],
    ['::ffff:10.1.2.3/104', '10.0.0.0/8'],
    ['::ffff:10.1.2.3/96', '0.0.0.0/0'],
  ])('parses %s as %s', (text, canonical) => {
    expect(formatCIDR(cidr(text))).toBe(canonical);
  });

  it.each([
    '10.0.0.0',
    '10.0.0.0/',
    '10.0.0.0/33',
    '10.0.0.0/-1',
    '10.0.0.0/8 ',
    '10.0.0.0/8/8',
    '/8',
    'fd00::/129',
    'x/8',
    '::ffff:10.0.0.0/8',
  ])('refuses %j', (text) => {
    expect(parseCIDR(text)).toBeUndefined();
  });
});

it('a block of one family contains no address of the other', () => {
  expect(cidrContains(cidr('0.0.0.0/0'), address('::1'))).toBe(false);
  expect(cidrContains(cidr('::/0'), address('10.0.0.1'))).toBe(false);
});
