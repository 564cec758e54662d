import { setTimeout as sleep } from 'node:timers/promises';
import { localAddresses } from '../../kernel/local-routes.ts';

const checkMs = 2;
const patienceMs = 1000;

/**
 * The kernel adds the route of an IPv6 address later than the address (addrconf_dad_work). Resolves
 * when all of these addresses have their routes, or after a while.
 */
export async function untilLocal(addresses: readonly Uint8Array[]): Promise<void> {
  if (addresses.length === 0) return;
  const texts = addresses.map((bytes) => Buffer.from(bytes).toString('hex'));
  const endMs = performance.now() + patienceMs;
  while (performance.now() < endMs) {
    const local = localAddresses();
    if (local === undefined || texts.every((text) => local.has(text))) return;
    await sleep(checkMs);
  }
}
