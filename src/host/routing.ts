/** The routes of this node, as /proc/net has them. */
import { open } from 'node:fs/promises';
import {
  Address,
  addressBytes,
  type CIDR,
  cidrContains,
  type Family,
  families,
} from '../net/address.ts';
import type { ReadableFiles } from './files.ts';
import { type FindRoutes, routesTo } from './reach.ts';

export interface Routing {
  readonly find: FindRoutes;
  /** The text of the file for the family; undefined: it cannot be read, or is too long. */
  readonly read: (family: Family) => Promise<string | undefined>;
}

const files = { IPv4: '/proc/net/route', IPv6: '/proc/net/ipv6_route' } as const;

/** Some 8,000 routes of IPv4. */
const bytesMax = 1 << 20;
const bytesAtOnce = 1 << 14;

export const routing: Routing = { find: routesTo, read: (family) => readBounded(files[family]) };

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
interface RouteEntry {
  readonly family: Family;
  /** In network order, a character for each byte. */
  readonly block: string;
  readonly prefixLength: number;
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
  const [device = '', destination = '', , , , , , mask = ''] = line.split('\t');
  if (!word.test(destination) || !word.test(mask)) return undefined;
  const prefixLength = bitsOf(Number.parseInt(mask, 16));
  // The kernel prints both as numbers of its own byte order: on machines of ours, the last first.
  const block = Buffer.from(destination, 'hex').reverse().toString('latin1');
  return { family: 'IPv4', block, prefixLength, device, isDead: device === '*', hasSource: false };
}

const word = /^[0-9A-F]{8}$/;

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
  const [destination = '', length = '', , sourceLength, , , , , flags = ''] = columns;
  if (!/^[0-9a-f]{32}$/.test(destination)) return undefined;
  return {
    family: 'IPv6',
    block: Buffer.from(destination, 'hex').toString('latin1'),
    prefixLength: Number.parseInt(length, 16),
    device: columns.at(-1)!,
    isDead: (Number.parseInt(flags, 16) & rejects) !== 0,
    hasSource: sourceLength !== '00',
  };
}

/** Whether packets to the address at character `at` of a text may have no way. */
export type IsSuspect = (latin1: string, at: number) => boolean;

/**
 * Compares addresses with the routes of a family. A suspect may still be reached, by tables that
 * the file does not have. Undefined: there are no suspects.
 */
export function suspectsOf(family: Family, entries: Iterable<RouteEntry>): IsSuspect | undefined {
  const lengths = new Map<number, Map<string, boolean>>();
  for (const { block, hasSource, isDead, prefixLength } of entries) {
    if (hasSource) continue;
    const blocks = lengths.get(prefixLength) ?? new Map<string, boolean>();
    lengths.set(prefixLength, blocks);
    const prefix = prefixOf(block, prefixLength);
    blocks.set(prefix, isDead && blocks.get(prefix) !== false);
  }
  const hasDefault = lengths.get(0)?.get('') === false;
  const isAnyDead = Array.from(lengths.values()).some((blocks) =>
    [...blocks.values()].includes(true),
  );
  if (hasDefault && !isAnyDead) return undefined;
  const longestFirst = Array.from(lengths).sort(([a], [b]) => b - a);
  const size = addressBytes[family];
  return (latin1, at) => {
    const address = latin1.slice(at, at + size);
    for (const [length, blocks] of longestFirst) {
      const isDead = blocks.get(prefixOf(address, length));
      if (isDead !== undefined) return isDead;
    }
    return true;
  };
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
