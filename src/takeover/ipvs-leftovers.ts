/**
 * What kube-proxy's ipvs mode has left in addition to rules: virtual services, the interface that
 * has their addresses, sets of ipset (behaviour document 8.3, 8.4, 8.6).
 */

import { isKernelError, orElse, orNone } from '../kernel/errors.ts';
import { applyAll } from '../kernel/failures.ts';
import type { Kernel, ReplyOf } from '../kernel/kernel.ts';
import { IPPROTO, protocolOf } from '../kernel/nft/constants.ts';
import { kernelOps, type Reply, type Request } from '../kernel/ops.ts';
import { RecordWriter } from '../kernel/records.ts';
import { RT_SCOPE_LINK } from '../kernel/route-ops.ts';
import type { ProxyMode } from '../modes/proxy-mode.ts';
import { formatEndpoint } from '../net/address.ts';
import { addCount } from '../net/counts.ts';
import { isIpset, linkName, nodePortSets } from './names.ts';

type VirtualService = ReplyOf<'virtualService'>;

/** `idle`: virtual services that still have connections stay, with their addresses. */
type IPVSScope = 'idle' | 'all' | 'sets';

export interface IPVSLeftovers {
  /** Those to delete. */
  readonly services: readonly VirtualService[];
  /** The number of kube-proxy's that still have connections. */
  readonly busy: number;
  /** The number of others' virtual services, which always stay. */
  readonly foreign: number;
  /** Addresses of the interface that no virtual service needs any more. */
  readonly addresses: readonly ReplyOf<'address'>[];
  /** Nothing needs the interface any more. */
  readonly interface: boolean;
  /** Those to destroy. */
  readonly sets: readonly string[];
  /** Sets that rules still refer to. */
  readonly keptSets: readonly string[];
}

const nothing: IPVSLeftovers = {
  services: [],
  busy: 0,
  foreign: 0,
  addresses: [],
  interface: false,
  sets: [],
  keptSets: [],
};

export function isAnyIPVS({ services, addresses, sets, ...rest }: IPVSLeftovers): boolean {
  return services.length + addresses.length + sets.length > 0 || rest.interface;
}

/** The interface, and the virtual services at its addresses, belong to Fairlead's ipvs mode. */
export async function isOurIPVS(kernel: Kernel, modes: readonly ProxyMode[]): Promise<boolean> {
  const mode = modes.find(({ usesIPVS }) => usesIPVS);
  return mode !== undefined && (await orNone(mode.owned(kernel))).length > 0;
}

/**
 * Without the interface nothing is left: kube-proxy always has it, and it is removed last. With
 * scope `sets`, the rest belongs to our own ipvs mode. Rejects with KernelError.
 */
export async function findIPVSLeftovers(kernel: Kernel, scope: IPVSScope): Promise<IPVSLeftovers> {
  const [link] = await read(kernel, 'link', { kind: 'linkGet', link: linkName });
  if (link?.type !== 'dummy') return nothing;
  const sets = await findSets(kernel);
  if (scope === 'sets') return { ...nothing, ...sets };
  const all = await read(kernel, 'address', { kind: 'addressesDump', family: 0, link: '' });
  const bound = all.filter(({ index, scope }) => index === link.index && scope !== RT_SCOPE_LINK);
  const others = all.filter(({ index }) => index !== link.index);
  const services = await orNone(
    read(kernel, 'virtualService', { kind: 'virtualServicesDump', family: 0 }),
  );
  const isOwn = await ownership(kernel, bound, others);
  const own = services.filter(isOwn);
  const connections = scope === 'all' ? new Map<string, number>() : await countConnections(kernel);
  const idle = own.filter((service) => (connections.get(keyOf(service)) ?? 0) === 0);
  const staying = services.filter((service) => !idle.includes(service));
  const needed = new Set(staying.map(({ address }) => textOf(address)));
  const addresses = bound.filter(({ address }) => !needed.has(textOf(address)));
  const isUnneeded = addresses.length === bound.length;
  return {
    services: idle,
    busy: own.length - idle.length,
    foreign: services.length - own.length,
    // The interface is deleted with its addresses.
    addresses: isUnneeded ? [] : addresses,
    interface: isUnneeded,
    ...sets,
  };
}

/** Rejects with KernelError if the kernel refuses; objects may have changed after the search. */
export async function removeIPVSLeftovers(kernel: Kernel, found: IPVSLeftovers): Promise<void> {
  const writer = new RecordWriter(kernelOps);
  for (const { family, protocol, address, port } of found.services) {
    writer.write('virtualServiceDelete', { family, protocol, address, port });
  }
  for (const set of found.sets) writer.write('ipsetDestroy', { set });
  for (const { family, address, prefixLength } of found.addresses) {
    const one = { family, link: linkName, index: 0, prefixLength, addresses: address };
    writer.write('addressesDelete', one);
  }
  if (found.interface) writer.write('linkDelete', { link: linkName });
  const subject = `virtual services, ${linkName} and sets of kube-proxy`;
  await applyAll(kernel, writer.finish(), 'takeover.remove', subject);
}

async function findSets(kernel: Kernel): Promise<Pick<IPVSLeftovers, 'sets' | 'keptSets'>> {
  const all = await readSets(kernel, 'ipset', { kind: 'ipsetsDump' });
  const own = all.filter(({ set }) => isIpset(set));
  const named = (some: typeof own): string[] => some.map(({ set }) => set);
  return {
    sets: named(own.filter(({ references }) => references === 0)),
    keptSets: named(own.filter(({ references }) => references > 0)),
  };
}

/**
 * kube-proxy's virtual services are at addresses of its interface, or at an address of the node
 * with a port that its sets name as a node port.
 */
async function ownership(
  kernel: Kernel,
  bound: readonly ReplyOf<'address'>[],
  others: readonly ReplyOf<'address'>[],
): Promise<(service: VirtualService) => boolean> {
  const [vips, local] = [bound, others].map(
    (some) => new Set(some.map(({ address }) => textOf(address))),
  );
  const nodePorts = new Map<number, Set<number>>();
  for (const [protocol, sets] of Object.entries(nodePortSets)) {
    const ports = new Set<number>();
    for (const set of sets) for (const port of await portsOf(kernel, set)) ports.add(port);
    nodePorts.set(IPPROTO[protocol as keyof typeof nodePortSets], ports);
  }
  return ({ firewallMark, address, protocol, port }) => {
    if (firewallMark !== 0) return false;
    const text = textOf(address);
    return vips!.has(text) || (local!.has(text) && nodePorts.get(protocol)?.has(port) === true);
  };
}

async function portsOf(kernel: Kernel, set: string): Promise<number[]> {
  const parts = await readSets(kernel, 'ipsetPorts', { kind: 'ipsetPortsDump', set });
  return parts.flatMap(({ ports }) => {
    const view = new DataView(ports.buffer, ports.byteOffset, ports.byteLength);
    return Array.from({ length: ports.byteLength / 2 }, (_, i) => view.getUint16(2 * i));
  });
}

/** Connections of each virtual service, also those that are ending, by its key. */
async function countConnections(kernel: Kernel): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  const every = { family: 0, protocol: 0, address: new Uint8Array(0), port: 0 };
  const all = read(kernel, 'destination', { kind: 'destinationsDump', ...every });
  for (const one of await orNone(all)) {
    addCount(counts, keyOf(one), one.activeConnections + one.inactiveConnections);
  }
  return counts;
}

/** Reads sets. A kernel without ipset has none. */
function readSets<K extends Reply['kind']>(kernel: Kernel, kind: K, request: Request) {
  return orElse(read(kernel, kind, request), [], (error) => isKernelError(error, 'EINVAL'));
}

async function read<K extends Reply['kind']>(
  kernel: Kernel,
  kind: K,
  request: Request,
): Promise<ReplyOf<K>[]> {
  const { records } = await kernel.dump(request);
  return records.filter((one): one is ReplyOf<K> => one.kind === kind);
}

function keyOf({
  address,
  protocol,
  port,
}: Pick<VirtualService, 'address' | 'protocol' | 'port'>): string {
  return `${protocol} ${textOf(address)} ${port}`;
}

function textOf(address: Uint8Array): string {
  return Buffer.from(address).toString('hex');
}

/** `ipvsadm`'s words: `TCP 10.96.0.1:443`. */
export function serviceText({ protocol, address, port }: VirtualService): string {
  return `${protocolOf(protocol) ?? '?'} ${formatEndpoint(address, port)}`;
}
