/** Which chains of this mode do what to the packets of a frontend, in the words of iptables. */
import { NF_INET } from '../../kernel/nft/constants.ts';
import { formatAddress } from '../../net/address.ts';
import { isGuarded } from '../../state/guards.ts';
import { isRefusal } from '../../state/paths.ts';
import type { Forwarding, Frontend } from '../../state/types.ts';
import {
  type PacketPath,
  type PathDescriber,
  type PathObjects,
  packetPathOf,
} from '../packet-path.ts';
import { hairpinChain, markChain } from './layout.ts';
import { serviceChains } from './names.ts';

export const describer: PathDescriber = {
  endpointHook: NF_INET.FORWARD,
  describe(config, to, client) {
    const path = packetPathOf(config, to, client);
    const { refusal, ...objects } = objectsOf(to.forwarding, to.frontend, path);
    // OUTPUT does not lead to KUBE-EXTERNAL-SERVICES, as in kube-proxy; INPUT does.
    const isOutgoing = client === 'node' && !to.isOwn;
    if (path.end !== 'endpoint' && isOutgoing && to.frontend.kind !== 'clusterIP') {
      return { ...path, end: 'routed', objects };
    }
    return { ...path, objects: { ...objects, refusal } };
  },
  // No rule of this mode concerns addresses without an owner.
  unclaimed: () => undefined,
};

function objectsOf(forwarding: Forwarding, frontend: Frontend, { pool }: PacketPath): PathObjects {
  const { servicePort } = forwarding;
  const { kind, paths } = frontend;
  const chains = serviceChains(servicePort, frontend.lastPort !== undefined);
  const isInside = kind === 'clusterIP';
  const outer = isGuarded(forwarding, frontend) ? chains.firewall : chains.external;
  const own = isInside ? chains[pool] : outer;
  const picks = inNat(chains[pool]);
  const accepting = kind === 'nodePort' ? 'KUBE-NODEPORTS' : 'KUBE-SERVICES';
  const refusing = kind === 'clusterIP' ? 'KUBE-SERVICES' : 'KUBE-EXTERNAL-SERVICES';
  return {
    sourceRanges: `${inNat(chains.firewall)}, then ${rule('filter', 'KUBE-PROXY-FIREWALL', forwarding, frontend, 'DROP')}`,
    frontend: isRefusal(paths.pod.to)
      ? undefined
      : rule('nat', accepting, forwarding, frontend, own),
    refusal: rule(
      'filter',
      refusing,
      forwarding,
      frontend,
      paths.outside.to === 'reject' ? 'REJECT' : 'DROP',
    ),
    affinity: `${picks} (-m recent)`,
    endpoints: picks,
    mark: `${inNat(isInside ? chains[pool] : chains.external)} -j ${markChain}`,
    hairpin: inNat(hairpinChain),
  };
}

function inNat(chain: string): string {
  return `-t nat ${chain}`;
}

/** As iptables-save has it, but for comments. */
function rule(
  table: string,
  chain: string,
  { servicePort }: Forwarding,
  { address, lastPort, port }: Frontend,
  target: string,
): string {
  const to = address === undefined ? '' : ` -d ${formatAddress(address.bytes)}`;
  const protocol = servicePort.protocol.toLowerCase();
  return `-t ${table} -A ${chain}${to} -p ${protocol} --dport ${lastPort ? `${port}:${lastPort}` : port} -j ${target}`;
}
