/** The frontends whose connections do not take the fast path. */
import { IPPROTO } from '../kernel/nft/constants.ts';
import { binary, destinationKey } from '../modes/elements.ts';
import type { Family } from '../net/address.ts';
import type { DesiredFamily } from '../state/picked-services.ts';
import { forwardingKey, type Service } from '../state/types.ts';
import type { Pause } from '../time/pacer.ts';

/** Keys of frontends, as `binary` has them. */
export type Excluded = Readonly<Record<Family | 'nodePort', ReadonlySet<string>>>;

/**
 * Whether no connection of the Service takes the fast path: by its annotation, or because it asks
 * that they are ended, which the kernel refuses for those that take it.
 */
export function isExcluded({ endings, isFastPathOff }: Service): boolean {
  const isEnding = endings?.endAfterMs !== undefined || endings?.maxAgeMs !== undefined;
  return isFastPathOff === true || isEnding;
}

/** The most frontends of one namespace that are left out of the fast path. */
export const excludedMax = 20_000;

/**
 * Keys of the frontends that these Services have. What a Service only asks for is another's, or is
 * beyond its limits: 2,000 ports at 1,500 external IPs are three million.
 */
export async function excludedBy(
  services: readonly Service[],
  families: readonly DesiredFamily[],
  pause: Pause,
): Promise<Excluded> {
  const keys = { IPv4: new Set<string>(), IPv6: new Set<string>(), nodePort: new Set<string>() };
  const left = new Map<string, number>();
  for (const { name, namespace, ports } of services) {
    let room = left.get(namespace) ?? excludedMax;
    for (const { name: port, protocol } of ports) {
      const key = forwardingKey({ namespace, name, port, protocol });
      for (const { desired, family } of families) {
        for (const frontend of desired.get(key)?.frontends ?? []) {
          if (room === 0) break;
          room -= 1;
          const { address } = frontend;
          const to = keys[address === undefined ? 'nodePort' : family];
          to.add(binary(destinationKey(address, IPPROTO[protocol], frontend.port)));
          const rest = pause();
          if (rest !== undefined) await rest;
        }
      }
      const rest = pause();
      if (rest !== undefined) await rest;
    }
    left.set(namespace, room);
  }
  return keys;
}
