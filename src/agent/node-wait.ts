/** Waits for the facts about this node that rules depend on (behaviour document 3.1). */
import type { Config } from '../config/config.ts';
import { nameOrigin } from '../host/node-name.ts';
import type { Logger } from '../serve/log.ts';
import type { Node } from '../state/types.ts';
import type { Clock, Wakeup } from '../time/clock.ts';

/** How long a Node may lack addresses, or CIDRs if they are needed. */
const nodeAddressesMs = 30_000;
const nodeCIDRsMs = 300_000;

/** What is known of the node at present. */
interface Known {
  readonly clock: Clock;
  readonly config: Config;
  readonly nodeName: string;
  /** Where `synced`, all is known that comes without the right to list nodes. */
  readonly state: { readonly node: Node | undefined; readonly synced: boolean };
  /** Nodes were listed, so the Node is known if it exists. */
  readonly nodeListed: boolean;
}

/** What is waited for. */
const facts = {
  node: ({ nodeListed, state }: Known) => nodeListed || state.synced,
  addresses: ({ state }: Known) => (state.node?.addresses.length ?? 0) > 0,
  /** Nodes can be the last that are listed. Until then this one is not known to be missing. */
  nodeOrAddresses: (known: Known) => known.nodeListed || facts.addresses(known),
  podCIDRs: ({ state }: Known) => (state.node?.podCIDRs.length ?? 0) > 0,
} as const;

/**
 * Resolves when the node is sufficiently known, or `signal` aborts. `wakeup` wakes when `known` may
 * have changed. After some time it continues without addresses. Rejects if pod CIDRs are missing
 * and rules need them to recognise pods.
 */
export async function awaitNode(
  known: Known,
  wakeup: Wakeup,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  const { clock, nodeName, state } = known;
  signal.addEventListener('abort', () => wakeup.wake(), { once: true });
  /** Resolves to false at `endMs` of the clock. */
  const until = async (fact: keyof typeof facts, endMs = Number.POSITIVE_INFINITY) => {
    while (!facts[fact](known) && !signal.aborted) {
      const leftMs = endMs - clock.now();
      if (leftMs <= 0) return false;
      await wakeup.wait(Number.isFinite(leftMs) ? leftMs : undefined);
    }
    return true;
  };
  await until('node');
  // Manifests report immediately whether the Node exists.
  if (known.config.source.kind === 'kubernetes') {
    const endMs = clock.now() + nodeAddressesMs;
    await until('nodeOrAddresses', endMs);
    if (known.nodeListed && state.node === undefined && !signal.aborted) {
      log.warn({ node: nodeName }, `Waiting for the Node to exist: ${nameOrigin}`);
    }
    if (!(await until('addresses', endMs))) {
      const what = state.node ? 'be assigned IPs' : 'exist';
      log.error({ node: nodeName }, `Timed out waiting for node to ${what}`);
    }
  }
  if (known.config.detectLocal.kind !== 'NodeCIDR') return;
  if (await until('podCIDRs', clock.now() + nodeCIDRsMs)) return;
  const name = JSON.stringify(nodeName);
  throw new Error(
    state.node === undefined
      ? `timeout waiting for node ${name} to exist (${nameOrigin})`
      : `timeout waiting for PodCIDR allocation on node ${name}`,
  );
}
