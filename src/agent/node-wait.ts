/** Waits for the facts about this node that rules depend on (behaviour document 3.1). */
import type { Config } from '../config/config.ts';
import { nameOrigin } from '../host/node-name.ts';
import type { Logger } from '../serve/log.ts';
import type { Node } from '../state/types.ts';
import type { Clock, Wakeup } from '../time/clock.ts';

/** How long a Node may lack addresses, or CIDRs if they are needed. */
const nodeAddressesMs = 30_000;
const nodeCIDRsMs = 300_000;

interface NodeWaitOptions {
  readonly config: () => Config;
  readonly nodeName: string;
  /** This node as last seen. */
  readonly node: () => Node | undefined;
  /** Nodes were listed, so the Node is known if it exists. */
  readonly nodeListed: () => boolean;
  /** Services and their endpoints are known: all that comes without the right to list nodes. */
  readonly synced: () => boolean;
  readonly clock: Clock;
  /** Wakes when one of the above may have changed. */
  readonly wakeup: Wakeup;
  readonly log: Logger;
}

/**
 * Resolves when the node is sufficiently known, or `signal` aborts. After some time it continues
 * without addresses. Rejects if pod CIDRs are missing and rules need them to recognise pods.
 */
export async function awaitNode(options: NodeWaitOptions, signal: AbortSignal): Promise<void> {
  const { clock, config, log, node, nodeListed, nodeName, synced } = options;
  await until(() => nodeListed() || synced(), undefined, options, signal);
  // Manifests report immediately whether the Node exists.
  if (config().source.kind === 'kubernetes') {
    const endMs = clock.now() + nodeAddressesMs;
    const hasAddresses = (): boolean => (node()?.addresses.length ?? 0) > 0;
    // Nodes can be the last that are listed. Until then this one is not known to be missing.
    await until(() => nodeListed() || hasAddresses(), endMs, options, signal);
    if (nodeListed() && node() === undefined && !signal.aborted) {
      log.warn({ node: nodeName }, `Waiting for the Node to exist: ${nameOrigin}`);
    }
    if (!(await until(hasAddresses, endMs, options, signal))) {
      const what = node() ? 'be assigned IPs' : 'exist';
      log.error({ node: nodeName }, `Timed out waiting for node to ${what}`);
    }
  }
  if (config().detectLocal.kind !== 'NodeCIDR') return;
  const hasCIDRs = (): boolean => (node()?.podCIDRs.length ?? 0) > 0;
  if (await until(hasCIDRs, clock.now() + nodeCIDRsMs, options, signal)) return;
  const name = JSON.stringify(nodeName);
  throw new Error(
    node() === undefined
      ? `timeout waiting for node ${name} to exist (${nameOrigin})`
      : `timeout waiting for PodCIDR allocation on node ${name}`,
  );
}

/** Waits for `done`. Resolves to false at `endMs` of the clock. */
async function until(
  done: () => boolean,
  endMs: number | undefined,
  { clock, wakeup }: NodeWaitOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const wake = (): void => wakeup.wake();
  signal.addEventListener('abort', wake, { once: true });
  while (!done() && !signal.aborted) {
    const leftMs = endMs === undefined ? undefined : endMs - clock.now();
    if (leftMs !== undefined && leftMs <= 0) return false;
    await wakeup.wait(leftMs);
  }
  return true;
}
