/** Which chains Services with limits need, and which frontends lead to them. */
import { IPPROTO } from '../kernel/nft/constants.ts';
import { type Elements, gotoEntry, type Part } from '../kernel/nft/own-table.ts';
import { binary, destinationKey } from '../modes/elements.ts';
import type { Environment } from '../modes/mode.ts';
import type { Address } from '../net/address.ts';
import { addCount } from '../net/counts.ts';
import { levelWithin } from '../state/level.ts';
import type { Limits } from '../state/limits.ts';
import { isRefusal } from '../state/paths.ts';
import type { DesiredFamily } from '../state/picked-services.ts';
import { type Forwarding, type Frontend, forwardingKeys, type Service } from '../state/types.ts';
import { inTurns, type Pause } from '../time/pacer.ts';
import type { Bounds } from './bounds.ts';
import { frontendMaps, partOf, partOfNamespace } from './layout.ts';

interface Served extends DesiredFamily {
  readonly nodePortAddresses: Environment['nodePortAddresses'];
}

interface Desired {
  readonly elements: Elements;
  /** Services without limits, because others of their namespace have all room. */
  readonly leftOut: ReadonlySet<string>;
}

/**
 * What limits of one namespace take in the kernel, and those of all: a connection is an element, a
 * Service many.
 */
const room = { ofNamespace: 200_000, ofAll: 800_000, service: 100 } as const;

/** `limits`: those of a Service that this kernel can keep. */
export async function desiredOf(
  services: readonly Service[],
  served: readonly Served[],
  limits: (service: Service) => Limits,
  bounds: Bounds | undefined,
  pause: Pause,
): Promise<Desired> {
  const parts = new Map<string, Part>();
  const leftOut = new Set<string>();
  const left = await roomsOf(services, served, limits, pause);
  const chains = Object.values(frontendMaps).map(({ name }) => [name, new Map<string, string>()]);
  const entries = Object.fromEntries(chains) as Record<string, Map<string, string>>;
  for (const service of services) {
    const { clusterIPs, key, namespace } = service;
    const own = limits(service);
    const families = clusterIPs.map(({ family }) => family).sort();
    const bounded = bounds && partOfNamespace(namespace, bounds);
    const limited = isNone(own) ? undefined : partOf(key, own, families, bounded);
    if ((limited ?? bounded) === undefined) continue;
    const frontends = frontendsOf(service, served);
    const rest = (left.get(namespace) ?? 0) - costOf(service, own, frontends);
    const isLeftOut = limited !== undefined && rest < 0;
    if (isLeftOut) leftOut.add(key);
    else if (limited !== undefined) left.set(namespace, rest);
    const part = isLeftOut ? bounded : (limited ?? bounded);
    if (part === undefined) continue;
    for (const one of [bounded, part]) if (one !== undefined) parts.set(one.chain.name, one);
    for (const { at, forwarding, frontend } of frontends) {
      const { family, servicePort } = forwarding;
      const protocol = IPPROTO[servicePort.protocol];
      const map = frontendMaps[at === undefined ? 'nodePort' : family].name;
      entries[map]!.set(binary(destinationKey(at, protocol, frontend.port)), part.chain.name);
      const resting = pause();
      if (resting !== undefined) await resting;
    }
  }
  const keys = Object.entries(entries).map(([name, own]) => {
    return [name, new Set(Array.from(own, ([key, chain]) => gotoEntry(key, chain)))];
  });
  return { elements: { keys: Object.fromEntries(keys), devices: new Set(), parts }, leftOut };
}

/** What each namespace gets: where all ask for too much, those that ask for most get less. */
async function roomsOf(
  services: readonly Service[],
  served: readonly Served[],
  limits: (service: Service) => Limits,
  pause: Pause,
): Promise<Map<string, number>> {
  const asked = new Map<string, number>();
  await inTurns(services, pause, (service) => {
    const own = limits(service);
    if (isNone(own)) return;
    addCount(asked, service.namespace, costOf(service, own, frontendsOf(service, served)));
  });
  const most = Array.from(asked.values(), (one) => Math.min(one, room.ofNamespace));
  const share = Math.min(room.ofNamespace, levelWithin(most, room.ofAll));
  return new Map(Array.from(asked.keys(), (namespace) => [namespace, share]));
}

function costOf({ clusterIPs }: Service, own: Limits, frontends: readonly Entrance[]): number {
  return room.service + (own.max_connections ?? 0) * clusterIPs.length + frontends.length;
}

function isNone(limits: Limits): boolean {
  return Object.values(limits).every((one) => one === undefined);
}

interface Entrance {
  readonly forwarding: Forwarding;
  readonly frontend: Frontend;
  /** Undefined: a node port at every address of this node. */
  readonly at: Address | undefined;
}

/** Those of them that refuse all connections anyway are left out. */
function frontendsOf(service: Service, served: readonly Served[]): Entrance[] {
  return forwardingKeys(service).flatMap((key) =>
    served.flatMap(({ desired, nodePortAddresses }) => {
      const forwarding = desired.get(key);
      if (forwarding === undefined) return [];
      return forwarding.frontends
        .filter(({ paths }) => !isRefusal(paths.pod.to))
        .flatMap((frontend): Entrance[] => {
          const of = { forwarding, frontend };
          if (frontend.kind !== 'nodePort') return [{ ...of, at: frontend.address }];
          if (nodePortAddresses === 'all') return [{ ...of, at: undefined }];
          return nodePortAddresses.map((at) => ({ ...of, at }));
        });
    }),
  );
}
