/** The blocks that an address is in, for those who bound what clients take. */

/**
 * What one host often has whole: the first 64 bits of an IPv6 address, and an IPv4 address, also
 * one that is mapped into IPv6.
 */
export function hostBlock(address: string): string {
  return blocksOf(address)[1];
}

/** The address, what its host often has whole, and what the Internet routes at least: /48, /24. */
export function blocksOf(address: string): readonly [string, string, string] {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '');
  if (!plain.includes(':')) return [address, plain, plain.split('.', 3).join('.')];
  const [before = '', after] = plain.split('%', 1)[0]!.split('::');
  const groups = before === '' ? [] : before.split(':');
  const rest = after ? after.split(':') : [];
  while (after !== undefined && groups.length + rest.length < 8) groups.push('0');
  const [a, b, c, d] = [...groups, ...rest];
  const routed = `${a}:${b}:${c}`;
  return [address, `${routed}:${d}`, routed];
}
