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

function reformatted(text: string): string | undefined {
  const parsed = parseAddress(text);
  return parsed && formatAddress(parsed.bytes);
}

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

describe('parseAddress', () => {
  it.each([
    ['10.0.0.1', '10.0.0.1'],
    ['0.0.0.0', '0.0.0.0'],
    ['255.255.255.255', '255.255.255.255'],
    ['10.180.00.001', '10.180.0.1'],
    ['010.0.0.1', '10.0.0.1'],
    ['::', '::'],
    ['::1', '::1'],
    ['FD00:0:0::00A1', 'fd00::a1'],
    ['1:0:0:2:0:0:0:3', '1:0:0:2::3'],
    ['1:0:0:2:3:0:0:4', '1::2:3:0:0:4'],
    ['1:0:2:3:4:5:6:7', '1:0:2:3:4:5:6:7'],
    ['0:0:1:2:3:4:5:6', '::1:2:3:4:5:6'],
    ['1:2:3:4:5:6:0:0', '1:2:3:4:5:6::'],
    ['::10.0.0.1', '::a00:1'],
    ['64:ff9b::192.0.2.33', '64:ff9b::c000:221'],
  ])('parses %s as %s', (text, canonical) => {
    expect(reformatted(text)).toBe(canonical);
  });

  it.each(['::ffff:10.0.0.1', '::FFFF:a00:1', '0:0:0:0:0:ffff:10.0.0.1'])(
    'treats the IPv4-mapped %s as IPv4',
    (text) => {
      expect(parseAddress(text)).toEqual(parseAddress('10.0.0.1'));
    },
  );

  it.each([
    '',
    ' 10.0.0.1',
    '10.0.0.1 ',
    '10.0.0',
    '10.0.0.0.1',
    '10.0.0.256',
    '10.0.0.0001',
    '10.0.0.-1',
    '10.0.0.0x1',
    '10..0.1',
    '10.0.0.1/8',
    'example.com',
    ':',
    ':::',
    '1::2::3',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '12345::',
    'g::',
    'fe80::1%eth0',
    '[::1]',
    '::ffff:010.0.0.1',
  ])('refuses %j', (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });
});

describe('parseCIDR', () => {
  it.each([
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['203.0.113.000/025', '203.0.113.0/25'],
    ['203.0.113.255/25', '203.0.113.128/25'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['255.255.255.255/0', '0.0.0.0/0'],
    ['192.0.2.7/32', '192.0.2.7/32'],
    ['fd00:ffff::1/17', 'fd00:8000::/17'],
    ['fd00::1/128', 'fd00::1/128'],
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

describe('cidrContains', () => {
  it.each([
    ['10.0.0.0/8', '10.255.0.1', true],
    ['10.0.0.0/8', '11.0.0.0', false],
    ['203.0.113.128/25', '203.0.113.127', false],
    ['0.0.0.0/0', '1.2.3.4', true],
    ['0.0.0.0/0', '::1', false],
    ['::/0', '10.0.0.1', false],
    ['fd00::/9', 'fd7f::1', true],
    ['fd00::/9', 'fd80::1', false],
  ])('%s contains %s: %s', (block, text, held) => {
    expect(cidrContains(cidr(block), address(text))).toBe(held);
  });
});
