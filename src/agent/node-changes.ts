/** Handles a change of the Node: logs it, and updates the rules. */
import { addressTexts } from '../host/node-ips.ts';
import type { Node } from '../state/types.ts';
import type { Agent } from './agent.ts';

/** `before`: the Node until now. `follow` has the rules use another one from now on. */
export function reportNodeChange(
  before: Node | undefined,
  agent: Agent,
  follow: (node: Node) => void,
): void {
  const { config, followedNode, state } = agent;
  const { log } = agent.options;
  const { node } = state;
  if (node === undefined || followedNode === undefined) return;
  if (node.deleted) {
    if (!before?.deleted) log.info('Node is being deleted');
    return;
  }
  const [from, to] = [before, node].map(addressTexts);
  if (from !== to) log.info({ from, to }, 'NodeIPs changed for the node; updating rules');
  if (config.detectLocal.kind === 'NodeCIDR') podCIDRsChanged(followedNode, node, agent, follow);
}

/** The pod CIDRs may be the ones by which rules recognise local pods. */
function podCIDRsChanged(
  before: Node,
  node: Node,
  agent: Agent,
  follow: (node: Node) => void,
): void {
  const { log } = agent.options;
  const [from, to] = [before.podCIDRs.join(), node.podCIDRs.join()];
  if (from === to || to === '') return;
  try {
    agent.check(agent.config, node);
    log.info({ from, to }, 'PodCIDRs changed for the node; updating rules');
    follow(node);
  } catch (error) {
    const err = (error as Error).message;
    log.error({ from, to, err }, 'PodCIDRs changed for the node; keeping the rules');
  }
}
