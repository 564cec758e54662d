import { expect, it } from 'vitest';
import { ownerComment } from '../../../../src/modes/nftables/owner-comment.ts';

const of = (namespace: string, name: string, port: string): string =>
  ownerComment({ namespace, name, port, protocol: 'TCP' });

it('the owner comment names a Service port like the log', () => {
  expect(of('shop', 'web', 'http')).toBe('shop/web:http');
  expect(of('shop', 'web', '')).toBe('shop/web');
});

it("the owner comment is limited to nft's length, and then ends with a hash", () => {
  const [namespace, name] = ['n'.repeat(63), 's'.repeat(63)];
  expect(of(namespace, name, '')).toBe(`${namespace}/${name}`);
  const long = of(namespace, name, 'http');
  expect(long).toHaveLength(128);
  expect(long).toMatch(new RegExp(`^${namespace}/s{55}~[0-9a-f]{8}$`));
  expect(of(namespace, name, 'https')).not.toBe(long);
  expect(of(namespace, name, 'p'.repeat(300))).toHaveLength(128);
});

it('the owner comment has only characters that nft can read', () => {
  expect(of('shop', 'a"b\n', 'çé')).toBe('shop/a?b?:??');
});
