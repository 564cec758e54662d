/** Handles a change of the Node: logs it, and updates the rules. */
import type { Config } from '../config/config.ts';
import { addressTexts } from '../host/node-ips.ts';
import type { Logger } from '../serve/log.ts';
import type { Node } from '../state/types.ts';

interface Circumstances {
  readonly log: Logger;
  readonly config: Config;
  /** The Node whose pod CIDRs the rules use; undefined = none yet. */
  readonly followed: Node | undefined;
  /** Throws if the configuration can't be served on this node. */
  readonly check: (node: Node) => void;
  /** The rules use this node from now on. */
  readonly follow: (node: Node) => void;
}

export function reportNodeChange(
  before: Node | undefined,
  node: Node | undefined,
  circumstances: Circumstances,
): void {
  const { config, followed, log } = circumstances;
  if (node === undefined || followed === undefined) return;
  if (node.deleted) {
    if (!before?.deleted) log.info('Node is being deleted');
    return;
  }
  const [from, to] = [before, node].map(addressTexts);
  if (from !== to) log.info({ from, to }, 'NodeIPs changed for the node; updating rules');
  if (config.detectLocal.kind === 'NodeCIDR') podCIDRsChanged(followed, node, circumstances);
}

/** The pod CIDRs may be the ones by which rules recognise local pods. */
function podCIDRsChanged(before: Node, node: Node, { check, follow, log }: Circumstances): void {
  const [from, to] = [before.podCIDRs.join(), node.podCIDRs.join()];
  if (from === to || to === '') return;
  try {
    check(node);
    log.info({ from, to }, 'PodCIDRs changed for the node; updating rules');
    follow(node);
  } catch (error) {
    const err = (error as Error).message;
    log.error({ from, to, err }, 'PodCIDRs changed for the node; keeping the rules');
  }
}
