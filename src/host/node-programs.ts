/**
 * Which ports at addresses of the node its own programs have: an external IP does not take them.
 * Nothing is read until a Service has an external IP at such an address. What was asked is looked
 * at again from time to time, because programs begin and end.
 */
import { Address, type AddressKey, type Family, families } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';
import type { AddressKeys } from '../state/node-sockets.ts';
import type { Clock } from '../time/clock.ts';
import type { ReadableFiles } from './files.ts';

interface NodeProgramsOptions {
  /** See `Addon.boundPorts`. */
  readonly read: () => Uint8Array;
  /** Inodes of the sockets of this process, which do not count: it may serve Services by them. */
  readonly own: () => ReadonlySet<number>;
  /** Says which ports clients get. */
  readonly host: ReadableFiles;
  readonly clock: Pick<Clock, 'after' | 'now'>;
  /** Called when the kernel does not show its sockets, once until it does: what was read stays. */
  readonly failed: (error: Error) => void;
}

/** Where a program listens. */
export interface ProgramSocket {
  readonly protocol: Protocol;
  readonly family: Family;
  /** Undefined: all of the family. */
  readonly address: Address | undefined;
  readonly port: number;
}

interface BoundSocket extends ProgramSocket {
  readonly inode: number;
}

/** A port at an address of the node. */
interface Place {
  readonly protocol: Protocol;
  readonly address: Address;
  readonly port: number;
  /** Whether sockets that are bound to all addresses count. */
  readonly any: boolean;
}

interface Known extends Place {
  readonly isTaken: boolean;
  /** How often in a row no socket was found where there was one. */
  missed: number;
}

const periodMs = 10_000;
/** Then a port is free: a program that starts again, as the kubelet does, keeps its port. */
const missedMax = 6;
/** The most places that are looked at again; beyond it, not those that were asked first. */
const knownMax = 10_000;

const entryBytes = 24;
/** See native/local/bound_ports.h. */
const both = 46;
const protocols: Readonly<Record<number, Protocol>> = { 6: 'TCP', 17: 'UDP' };
const mapped = Buffer.from('00000000000000000000ffff', 'hex');

export class NodePrograms {
  readonly #options: NodeProgramsOptions;
  readonly #known = new Map<string, Known>();
  #sockets: readonly BoundSocket[] = [];
  /** By where they are bound. */
  #bound: ReadonlyMap<string, readonly BoundSocket[]> = new Map();
  #own: ReadonlySet<number> | undefined;
  #readMs: number | undefined;
  #isFailing = false;

  constructor(options: NodeProgramsOptions) {
    this.#options = options;
  }

  /** Whether a program can be reached there. */
  has(place: Place): boolean {
    if (this.#readMs === undefined || this.#options.clock.now() - this.#readMs >= periodMs) {
      this.#read();
    }
    const { address, any, port, protocol } = place;
    const key = `${keyOf(protocol, port, address.key)} ${any}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known.isTaken;
    const isTaken = this.#isBound(place);
    this.#known.set(key, { ...place, isTaken, missed: 0 });
    if (this.#known.size > knownMax) this.#known.delete(this.#known.keys().next().value!);
    return isTaken;
  }

  /** The sockets of other programs than this one, as they are now. */
  listening(): readonly ProgramSocket[] {
    this.#read();
    return this.#sockets.filter(({ inode }) => !this.#isOwn(inode));
  }

  /** Passes addresses at which the answer for a port has changed, until the result is called. */
  follow(changed: (addresses: AddressKeys) => void): () => void {
    const look = (): void => {
      cancel = this.#options.clock.after(periodMs, look);
      const addresses = this.#look();
      if (addresses.size > 0) changed(addresses);
    };
    let cancel = this.#options.clock.after(periodMs, look);
    return () => cancel();
  }

  #look(): AddressKeys {
    const addresses = new Set<AddressKey>();
    if (this.#known.size === 0) return addresses;
    this.#read();
    for (const [key, known] of this.#known) {
      const isBound = this.#isBound(known);
      known.missed = isBound ? 0 : known.missed + 1;
      if (known.isTaken ? known.missed < missedMax : !isBound) continue;
      // Whoever still wants to know asks again.
      this.#known.delete(key);
      addresses.add(known.address.key);
    }
    return addresses;
  }

  #isBound({ address, any, port, protocol }: Place): boolean {
    const at = any ? [address.key, address.family] : [address.key];
    return at.some((where) =>
      this.#bound.get(keyOf(protocol, port, where))?.some(({ inode }) => !this.#isOwn(inode)),
    );
  }

  /** This process's sockets are read only where they may matter. */
  #isOwn(inode: number): boolean {
    this.#own ??= this.#options.own();
    return this.#own.has(inode);
  }

  #read(): void {
    const { clock, failed, host, read } = this.#options;
    this.#readMs = clock.now();
    this.#own = undefined;
    try {
      this.#sockets = socketsIn(read(), clientPorts(host));
      this.#bound = Map.groupBy(this.#sockets, ({ address, family, port, protocol }) => {
        return keyOf(protocol, port, address?.key ?? family);
      });
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) failed(error as Error);
      this.#isFailing = true;
    }
  }
}

/** The ports that the kernel gives clients, the first and the last (ip-sysctl). */
function clientPorts(files: ReadableFiles): readonly [number, number] {
  const text = files.read('/proc/sys/net/ipv4/ip_local_port_range') ?? '';
  const [first = 32_768, last = 60_999] = text.split(/\s+/).filter(Boolean).map(Number);
  return [first, last];
}

/**
 * Where sockets are bound. UDP sockets that are bound to all addresses count only at ports that
 * clients do not get: servers and clients look alike.
 */
function socketsIn(
  entries: Uint8Array,
  [first, last]: readonly [number, number],
): readonly BoundSocket[] {
  const found: BoundSocket[] = [];
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  for (let at = 0; at + entryBytes <= entries.length; at += entryBytes) {
    const kind = entries[at]!;
    const protocol = protocols[entries[at + 1]!];
    const port = view.getUint16(at + 2);
    const inode = view.getUint32(at + 20);
    if (protocol === undefined) continue;
    const address = addressOf(kind, entries.subarray(at + 4, at + 20));
    const { family } = address;
    const socket = { protocol, family, port, inode };
    if (address.bytes.some((byte) => byte !== 0)) found.push({ ...socket, address });
    else if (protocol === 'TCP' || port < first || port > last) {
      const of = kind === both ? families : [family];
      for (const one of of) found.push({ ...socket, family: one, address: undefined });
    }
  }
  return found;
}

function addressOf(kind: number, bytes: Uint8Array): Address {
  if (kind === 4) return Address.from(bytes.subarray(0, 4));
  return Address.from(mapped.equals(bytes.subarray(0, 12)) ? bytes.subarray(12) : bytes);
}

function keyOf(protocol: Protocol, port: number, at: AddressKey | Family): string {
  return `${protocol} ${port} ${at}`;
}
