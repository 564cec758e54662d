/** The network devices of the fast path: those that receive packets of pods and other machines. */
import type { ReadableFiles } from '../host/files.ts';
import { routesOf } from '../host/routing.ts';
import type { Kernel, ReplyOf } from '../kernel/kernel.ts';

export type Link = ReplyOf<'link'>;

interface Devices {
  readonly names: ReadonlySet<string>;
  /** Why there is no fast path on this node at all. */
  readonly obstacle?: string;
}

/** IFF_UP (linux/if.h) */
const isUp = 1;

/** Kinds of links whose other end is a pod's. */
const podKinds: ReadonlySet<string> = new Set(['veth', 'netkit']);
/** Kinds of links to the pods of other nodes. */
const tunnelKinds: ReadonlySet<string> = new Set([
  ...['vxlan', 'geneve', 'ipip', 'sit', 'ip6tnl', 'gre', 'ip6gre', 'wireguard'],
]);
/** Links that only plugins have whose eBPF programs forward packets past netfilter. */
const eBPFLinks: readonly string[] = ['cilium_host', 'bpfin.cali'];

/** All links. */
export async function readLinks(kernel: Kernel): Promise<readonly Link[]> {
  const { records } = await kernel.dump({ kind: 'linksDump' });
  return records.filter((one): one is Link => one.kind === 'link');
}

export function devicesOf(links: readonly Link[], host: ReadableFiles): Devices {
  const plugin = links.find(({ link }) => eBPFLinks.includes(link));
  if (plugin !== undefined) {
    const obstacle = `the network plugin that made ${plugin.link} forwards packets by eBPF`;
    return { names: new Set(), obstacle };
  }
  const byIndex = new Map(links.map((one) => [one.index, one]));
  const defaults = defaultRouteLinks(host);
  const filters = isBridgeFiltered(host);
  const names = new Set<string>();
  const filtered: string[] = [];
  for (const one of links) {
    if ((one.flags & isUp) === 0) continue;
    const master = byIndex.get(one.master);
    const isPods = podKinds.has(one.type) && one.leaves === 1;
    if (!isPods && !tunnelKinds.has(one.type) && !defaults.has(one.link)) continue;
    const bridge = one.type === 'bridge' ? one : master?.type === 'bridge' ? master : undefined;
    if (bridge !== undefined && filters) {
      filtered.push(one.link);
      continue;
    }
    names.add(one.link);
    // Packets of its ports that are for this node come in by the bridge.
    if (bridge !== undefined) names.add(bridge.link);
  }
  if (names.size > 0) return { names };
  const obstacle =
    filtered.length > 0
      ? `netfilter sees packets within the bridge of ${filtered.join(', ')} (bridge-nf-call-iptables)`
      : 'no device leads to pods or other machines';
  return { names, obstacle };
}

/** Whether packets within bridges meet the rules of IP (br_netfilter). */
function isBridgeFiltered(host: ReadableFiles): boolean {
  return ['ip', 'ip6'].some((family) => {
    return host.read(`/proc/sys/net/bridge/bridge-nf-call-${family}tables`) === '1';
  });
}

/** Names of links with a default route, of either family. */
function defaultRouteLinks(host: ReadableFiles): Set<string> {
  const defaults = routesOf(host).filter(({ prefixLength }) => prefixLength === 0);
  return new Set(defaults.map(({ device }) => device));
}
