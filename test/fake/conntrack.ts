/** A conntrack table in memory: same filters, same identity of entries, and faults on request. */
import type {
  Conntrack,
  ConntrackDeletion,
  ConntrackDump,
  ConntrackRequest,
} from '../../src/kernel/conntrack.ts';
import { ConntrackEntries, IPS } from '../../src/kernel/conntrack-entries.ts';
import { KernelError } from '../../src/kernel/errors.ts';
import type { ReplyOf } from '../../src/kernel/kernel.ts';
import { IPPROTO } from '../../src/kernel/nft/constants.ts';
import { addressBytes, type Family, parseAddress } from '../../src/net/address.ts';
import type { Protocol } from '../../src/net/protocol.ts';

export interface FakeEntry {
  readonly protocol: Protocol;
  /** `10.0.0.1:5000`, `[fd00::1]:5000`. */
  readonly from: string;
  readonly to: string;
  /** The reply source. Default: `to`, which means that the connection is not translated. */
  readonly answeredBy?: string;
  readonly answered?: boolean;
  /** TCP_CONNTRACK_*; default: not known. */
  readonly tcpState?: number;
  readonly zone?: number;
}

export class FakeConntrack implements Conntrack {
  readonly #entries = new Map<number, Required<FakeEntry>>();
  /** Get the bytes of each connection that ends: it has sent one, and got two. */
  readonly readers = new Set<(bytes: ReplyOf<'bytesOfEnded'>) => void>();
  #nextId = 1;
  dumps: ConntrackRequest[] = [];
  /** Called before each dump and deletion; may throw, or wait. */
  before: (operation: 'dump' | 'delete') => void | Promise<void> = () => {};
  /** How many of the next dumps are interrupted after half of the entries. */
  interruptions = 0;
  /** Errno of entries that can't be deleted, by `to`. */
  readonly refused = new Map<string, string>();

  add(...entries: readonly FakeEntry[]): void {
    for (const entry of entries) {
      const whole = { answeredBy: entry.to, answered: true, tcpState: 0, zone: 0, ...entry };
      this.#entries.set(this.#nextId, whole);
      this.#nextId += 1;
    }
  }

  /** All entries end. */
  expire(): void {
    for (const id of this.#entries.keys()) this.#end(id);
  }

  #end(id: number): boolean {
    const entry = this.#entries.get(id);
    for (const read of this.readers) if (entry !== undefined) read(bytesOf(entry));
    return this.#entries.delete(id);
  }

  /** `UDP 10.0.0.1:5000 > 10.96.0.10:53, reply 10.244.0.7:53 > 10.0.0.1:5000`, sorted. */
  get texts(): string[] {
    return [...this.#entries].map(([id, entry]) => pack(entry, id).text(0)).sort();
  }

  async dump(request: ConntrackRequest): Promise<ConntrackDump> {
    this.dumps.push(request);
    await this.before('dump');
    const { family, protocol, state, zone, destination } = request;
    const found = [...this.#entries].flatMap(([id, entry]) => {
      if (entry.protocol !== protocol || entry.zone !== zone) return [];
      if (state === 'unanswered' && entry.answered) return [];
      const packed = pack(entry, id);
      if (packed.family !== family || !isFor(packed, destination)) return [];
      return [packed];
    });
    const complete = this.interruptions === 0;
    if (!complete) this.interruptions -= 1;
    const shown = complete ? found : found.slice(0, Math.ceil(found.length / 2));
    return { entries: ConntrackEntries.concat(family, shown), complete };
  }

  async delete(entries: ConntrackEntries): Promise<ConntrackDeletion> {
    await this.before('delete');
    const failures: { index: number; code: string }[] = [];
    let deleted = 0;
    for (let index = 0; index < entries.length; index += 1) {
      const entry = this.#entries.get(entries.id(index));
      const code = entry && this.refused.get(entry.to);
      if (code !== undefined) failures.push({ index, code });
      else if (this.#end(entries.id(index))) deleted += 1;
    }
    return { deleted, gone: entries.length - deleted - failures.length, failures };
  }

  close(): void {}
}

/** An error as the kernel's refusal of an operation. */
export function kernelRefusal(code: string): KernelError {
  return new KernelError({ operation: 'conntrack', subject: 'fake', code, words: 'refused' });
}

/** Entries as a dump of the kernel has them; their ids count from 1. */
export function packedEntries(family: Family, entries: readonly FakeEntry[]): ConntrackEntries {
  const whole = entries.map((entry) => ({
    answeredBy: entry.to,
    answered: true,
    tcpState: 0,
    zone: 0,
    ...entry,
  }));
  return ConntrackEntries.concat(
    family,
    whole.map((entry, i) => pack(entry, i + 1)),
  );
}

function isFor(entry: ConntrackEntries, destination: ConntrackRequest['destination']): boolean {
  if (destination === undefined) return true;
  const { address, port } = destination;
  const sameAddress =
    address === undefined || Buffer.compare(address, entry.address(0, 'originalDestination')) === 0;
  return sameAddress && (port === 0 || port === entry.port(0, 'originalDestination'));
}

function pack(entry: Required<FakeEntry>, id: number): ConntrackEntries {
  const peers = [entry.from, entry.to, entry.answeredBy, entry.from].map(peerOf);
  const tail = Buffer.alloc(12);
  tail[0] = IPPROTO[entry.protocol];
  tail[1] = entry.tcpState;
  tail.writeUInt16LE(entry.zone, 2);
  tail.writeUInt32LE(entry.answered ? IPS.SEEN_REPLY : 0, 4);
  tail.writeUInt32LE(id, 8);
  const { family } = peers[0]!;
  return new ConntrackEntries(family, Buffer.concat([...peers.map(({ bytes }) => bytes), tail]));
}

function bytesOf({ answeredBy, protocol, to }: Required<FakeEntry>): ReplyOf<'bytesOfEnded'> {
  const [frontend, endpoint] = [peerOf(to).bytes, peerOf(answeredBy).bytes];
  const at = frontend.length - 2;
  const addresses = { frontend: frontend.subarray(0, at), endpoint: endpoint.subarray(0, at) };
  const port = frontend.readUInt16BE(at);
  const rest = { in: 1, out: 2, durations: new Uint8Array(), ms: 0 };
  return { kind: 'bytesOfEnded', protocol: IPPROTO[protocol], port, ...addresses, ...rest };
}

function peerOf(text: string): { family: Family; bytes: Buffer } {
  const colon = text.lastIndexOf(':');
  const address = parseAddress(text.slice(0, colon).replace(/^\[|\]$/g, ''));
  if (address === undefined) throw new Error(`no address and port: ${text}`);
  const bytes = Buffer.alloc(addressBytes[address.family] + 2);
  bytes.set(address.bytes);
  bytes.writeUInt16BE(Number(text.slice(colon + 1)), address.bytes.length);
  return { family: address.family, bytes };
}
