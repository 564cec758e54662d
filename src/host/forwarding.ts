import type { Family } from '../net/address.ts';
import type { HostFiles } from './files.ts';

/** Where the kernel says whether it forwards packets. */
export const forwardingPaths = {
  IPv4: '/proc/sys/net/ipv4/ip_forward',
  IPv6: '/proc/sys/net/ipv6/conf/all/forwarding',
} as const satisfies Record<Family, string>;

/** `0` = not; undefined where the kernel does not say. */
export function ipForwarding(files: Pick<HostFiles, 'read'>, family: Family): string | undefined {
  return files.read(forwardingPaths[family]);
}
