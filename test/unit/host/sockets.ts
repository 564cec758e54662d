import { parseAddress } from '../../../src/net/address.ts';

/**
 * Bound sockets as the kernel shows them, with inodes from 1 on. `tcp 0.0.0.0 80`; `both`: of IPv6,
 * and takes IPv4, too; `mapped`: the IPv4 address as one.
 */
export function boundSockets(...sockets: readonly string[]): Buffer {
  return Buffer.concat(
    sockets.map((socket, i) => {
      const [protocol, at, port, both] = socket.split(' ');
      const { bytes, family } = parseAddress(at!)!;
      const kind = both !== undefined ? 46 : family === 'IPv4' ? 4 : 6;
      const entry = Buffer.alloc(24);
      entry.set([kind, protocol === 'tcp' ? 6 : 17, Number(port) >> 8, Number(port) & 0xff]);
      if (both === 'mapped') entry.set([0xff, 0xff, ...bytes], 14);
      else entry.set(bytes, 4);
      entry.writeUInt32BE(i + 1, 20);
      return entry;
    }),
  );
}
