/** The routes of this node, as /proc/net has them, and machines on the way that do not answer. */
import { open } from 'node:fs/promises';
import type { KernelReader } from '../kernel/kernel.ts';
import {
  Address,
  addressBytes,
  type CIDR,
  cidrContains,
  type Family,
  families,
  formatAddress,
} from '../net/address.ts';
import type { ReadableFiles } from './files.ts';
import { type FindRoutes, routesTo } from './reach.ts';

export interface Routing {
  readonly find: FindRoutes;
  /** The text of the file; undefined: it cannot be read, or is too long. */
  readonly read: (family: Family) => Promise<string | undefined>;
  readonly deadHops: () => Promise<DeadHops>;
}

const files = { IPv4: '/proc/net/route', IPv6: '/proc/net/ipv6_route' } as const;

/** Some 8,000 routes of IPv4. */
const bytesMax = 1 << 20;
const bytesAtOnce = 1 << 14;

export function routingOf(kernel: Reader): Routing {
  return {
    find: routesTo,
    read: (family) => readBounded(files[family]),
    deadHops: () => readDeadHops(kernel),
  };
}

async function readBounded(path: string): Promise<string | undefined> {
  const file = await open(path).catch(() => undefined);
  if (file === undefined) return undefined;
  try {
    const buffer = Buffer.allocUnsafe(bytesAtOnce);
    let text = '';
    while (text.length < bytesMax) {
      const { bytesRead } = await file.read(buffer);
      if (bytesRead === 0) return text;
      text += buffer.toString('latin1', 0, bytesRead);
    }
    return undefined;
  } catch {
    return undefined;
  } finally {
    await file.close();
  }
}

/** A block of addresses, and whether packets to it are dropped or rejected. */
export interface RouteEntry {
  readonly family: Family;
  /** In network order, a character for each byte. */
  readonly block: string;
  readonly prefixLength: number;
  /** The machine that packets are sent to, as `block`; empty: the destination itself. */
  readonly gateway: string;
  /** `*` or `lo` where packets do not leave. */
  readonly device: string;
  readonly isDead: boolean;
  /** It is for packets of some senders alone. */
  readonly hasSource: boolean;
}

/** Reads a line of the file; undefined: the line has no route. */
export function parseRoute(family: Family, line: string): RouteEntry | undefined {
  return family === 'IPv4' ? parseIPv4(line) : parseIPv6(line);
}

/** Of type blackhole, unreachable, prohibit or throw: without a device (fib_route_seq_show). */
function parseIPv4(line: string): RouteEntry | undefined {
  const [device = '', destination = '', via = '', , , , , mask = ''] = line.split('\t');
  if (![destination, via, mask].every((one) => word.test(one))) return undefined;
  const prefixLength = bitsOf(Number.parseInt(mask, 16));
  const [block, hop] = [destination, via].map(latin1Of);
  const gateway = hop === noHop ? '' : hop!;
  const way = { gateway, device, isDead: device === '*', hasSource: false };
  return { family: 'IPv4', block: block!, prefixLength, ...way };
}

const word = /^[0-9A-F]{8}$/;
const noHop = '\0\0\0\0';

/** The kernel prints numbers of its own byte order: on machines of ours, the last byte first. */
function latin1Of(hexadecimal: string): string {
  return Buffer.from(hexadecimal, 'hex').reverse().toString('latin1');
}

function bitsOf(mask: number): number {
  let bits = 0;
  for (let left = mask; left > 0; left = Math.floor(left / 2)) bits += left % 2;
  return bits;
}

/** RTF_REJECT of linux/route.h: the routes that give an error instead of a way. */
const rejects = 0x200;

/** The columns of rt6_info_route. */
function parseIPv6(line: string): RouteEntry | undefined {
  const columns = line.trimEnd().split(' ');
  const [destination = '', length = '', , sourceLength, via = '', , , , flags = ''] = columns;
  if (!/^[0-9a-f]{32}$/.test(destination)) return undefined;
  return {
    family: 'IPv6',
    block: Buffer.from(destination, 'hex').toString('latin1'),
    prefixLength: Number.parseInt(length, 16),
    gateway: /^0*$/.test(via) ? '' : Buffer.from(via, 'hex').toString('latin1'),
    device: columns.at(-1)!,
    isDead: (Number.parseInt(flags, 16) & rejects) !== 0,
    hasSource: sourceLength !== '00',
  };
}

/** Machines that do not answer on their link: the address, as `block`, and the device. */
export type DeadHops = ReadonlySet<string>;
export const noHops: DeadHops = new Set();

type Reader = Pick<KernelReader, 'dump'>;

/** None if the kernel does not say. */
export async function readDeadHops(kernel: Reader): Promise<DeadHops> {
  try {
    const { records: dead } = await kernel.dump({ kind: 'deadNeighboursDump' });
    if (dead.length === 0) return noHops;
    const { records: links } = await kernel.dump({ kind: 'linksDump' });
    const names = new Map<number, string>();
    for (const one of links) if (one.kind === 'link') names.set(one.index, one.link);
    const hops = new Set<string>();
    for (const one of dead) {
      if (one.kind !== 'deadNeighbour') continue;
      hops.add(Address.from(one.address).latin1 + names.get(one.index));
    }
    return hops;
  } catch {
    return noHops;
  }
}

/** The routes of a family that are for all senders, one for each block. */
interface Routes {
  readonly all: readonly RouteEntry[];
  /** The most specific one to the address at character `at` of a text. */
  readonly find: (latin1: string, at: number) => RouteEntry | undefined;
}

export function routesFrom(family: Family, entries: Iterable<RouteEntry>): Routes {
  const lengths = new Map<number, Map<string, RouteEntry>>();
  for (const entry of entries) {
    const { block, hasSource, prefixLength } = entry;
    if (hasSource || entry.family !== family) continue;
    const blocks = lengths.get(prefixLength) ?? new Map<string, RouteEntry>();
    lengths.set(prefixLength, blocks);
    const prefix = prefixOf(block, prefixLength);
    if (blocks.get(prefix)?.isDead !== false) blocks.set(prefix, entry);
  }
  const longestFirst = Array.from(lengths).sort(([a], [b]) => b - a);
  const size = addressBytes[family];
  const find: Routes['find'] = (latin1, at) => {
    const address = latin1.slice(at, at + size);
    for (const [length, blocks] of longestFirst) {
      const found = blocks.get(prefixOf(address, length));
      if (found !== undefined) return found;
    }
    return undefined;
  };
  return { all: longestFirst.flatMap(([, blocks]) => [...blocks.values()]), find };
}

const noRoute = { device: '', gateway: '', isDead: true } as const;

/** Whether packets to the address at character `at` of a text may have no way. */
export type IsSuspect = (latin1: string, at: number) => boolean;

/**
 * Compares addresses with the routes of a family. A suspect may still be reached, by tables that
 * the file does not have. Undefined: there are no suspects.
 */
export function suspectsOf(
  family: Family,
  { all, find }: Routes,
  dead: DeadHops = noHops,
): IsSuspect | undefined {
  const size = addressBytes[family];
  const hasDefault = all.some(({ isDead, prefixLength }) => prefixLength === 0 && !isDead);
  if (hasDefault && dead.size === 0 && !all.some(({ isDead }) => isDead)) return undefined;
  return (latin1, at) => {
    const { device, gateway, isDead } = find(latin1, at) ?? noRoute;
    return isDead || (dead.size > 0 && dead.has((gateway || latin1.slice(at, at + size)) + device));
  };
}

/** The machine on the way, or the address itself, that does not answer, if one is known. */
export function deadHopTo(address: string, { find }: Routes, dead: DeadHops): string | undefined {
  const { device, gateway } = find(address, 0) ?? noRoute;
  const hop = gateway || address;
  if (!dead.has(hop + device)) return undefined;
  const name = formatAddress(Buffer.from(hop, 'latin1'));
  const what =
    hop === address ? 'no machine has its address' : `its next hop ${name} does not answer`;
  return `${what} on ${device} (ip neigh show ${name})`;
}

/** Whether it leads to a device, and is for addresses of these blocks alone. */
export function leadsInto(route: RouteEntry, blocks: readonly CIDR[]): boolean {
  const { block, device, family, prefixLength } = route;
  if (device === '*' || device === 'lo') return false;
  return blocks.some((one) => {
    if (one.address.family !== family || prefixLength < one.prefixLength) return false;
    return cidrContains(one, Address.from(Buffer.from(block, 'latin1')));
  });
}

/** The routes of both families that lead to a device. */
export function routesOf(machine: ReadableFiles): RouteEntry[] {
  return families.flatMap((family) =>
    (machine.read(files[family]) ?? '').split('\n').flatMap((line) => {
      const route = parseRoute(family, line);
      return route === undefined || ['*', 'lo'].includes(route.device) ? [] : [route];
    }),
  );
}

/** The first `length` bits, without those that follow in the last byte. */
function prefixOf(address: string, length: number): string {
  const whole = length >> 3;
  const bits = length & 7;
  const start = address.slice(0, whole);
  if (bits === 0) return start;
  return start + String.fromCharCode(address.charCodeAt(whole) & (0xff00 >> bits) & 0xff);
}

/** Where the kernel says whether it forwards packets. */
export const forwardingPaths = {
  IPv4: '/proc/sys/net/ipv4/ip_forward',
  IPv6: '/proc/sys/net/ipv6/conf/all/forwarding',
} as const satisfies Record<Family, string>;
