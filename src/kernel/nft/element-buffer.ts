/** Elements that a batch adds to sets, or deletes from them, in the form of `elements` records. */
import type { Family } from '../../net/address.ts';
import type { AddressRanges } from '../../net/address-ranges.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import { increment } from '../../net/interval.ts';
import { ElementShape, type nftOps } from '../ops.ts';
import { type RecordWriter, smallBytes } from '../records.ts';
import { NFPROTO, NFT_SET_ELEM_INTERVAL_END } from './constants.ts';
import { entryShape, fieldsOfSet, type SetDefinition } from './sets.ts';

/** Names a table. */
interface TablePlace {
  readonly family: Family;
  readonly table: string;
}

/** The key of an element: its bytes, or text with a character for each (Latin-1). */
type ElementKey = Uint8Array | string;

/** A writer of `nftOps`, or of more. */
type OpWriter = Pick<RecordWriter<typeof nftOps>, 'write'>;

/** Entries of one set that a batch adds, or deletes, in the packed form of `elements` records. */
class ElementBuffer {
  readonly set: SetDefinition;
  readonly shape: number;
  /** Whose entries begin at each of `#starts`, which are indexes of entries, ascending. */
  readonly #owners: string[] = [];
  readonly #starts: number[] = [];
  #bytes = smallBytes(256);
  #view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.length);
  #length = 0;
  #count = 0;

  constructor(set: SetDefinition, purpose: Purpose) {
    this.set = set;
    // A deletion names the key and its flags, without data.
    const mask = purpose === 'add' ? ~0 : ElementShape.flags;
    this.shape = entryShape(set) & mask;
  }

  get count(): number {
    return this.#count;
  }

  get entries(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  /** The entries that follow are written for `owner`. */
  own(owner: string): void {
    if (this.#owners.at(-1) === owner) return;
    this.#owners.push(owner);
    this.#starts.push(this.#count);
  }

  /** The owner of an entry; with `entry` undefined that of all entries, if there is only one. */
  ownerOf(entry: number | undefined): string | undefined {
    if (entry === undefined) return this.#owners.length === 1 ? this.#owners[0] : undefined;
    return this.#owners[this.#starts.findLastIndex((start) => start <= entry)];
  }

  key(key: ElementKey): void {
    this.#reserve(key.length + 4);
    this.#key(key);
    this.#count += 1;
  }

  /** `index` follows the key, in host order. */
  keyIndex(key: ElementKey, index: number): void {
    this.#reserve(key.length + 4);
    this.#key(key);
    this.#word(index);
    this.#count += 1;
  }

  /** The endpoints `from` to `to - 1` of `list`, of `stride` bytes each. */
  endpoints(key: ElementKey, from: number, to: number, list: EndpointList, stride: number): void {
    this.#reserve((to - from) * (key.length + 4 + stride));
    for (let index = from; index < to; index += 1) {
      this.#key(key);
      this.#word(index);
      list.copy(index, this.#bytes, this.#length);
      this.#length += stride;
    }
    this.#count += to - from;
  }

  /** `comment` is written where the set's elements have one. */
  verdict(key: ElementKey, code: number, chain: string, comment = ''): void {
    this.#reserve(key.length + 16 + chain.length + comment.length + 2 * 3);
    this.#key(key);
    this.#word(code);
    this.#text(chain);
    if ((this.shape & ElementShape.comment) !== 0) this.#text(comment);
    this.#count += 1;
  }

  /** Entries in this buffer's own form. */
  packed({ count, entries }: PackedElements): void {
    this.#reserve(entries.length);
    this.#bytes.set(entries, this.#length);
    this.#length += entries.length;
    this.#count += count;
  }

  /** Ranges of a plain interval set: of each its first address, and a mark behind its last. */
  ranges({ bytes, length, width }: AddressRanges): void {
    this.#reserve(2 * length * (width + 4));
    for (let at = 0; at < bytes.length; at += 2 * width) {
      this.#copy(bytes, at, width);
      this.#word(0);
      this.#count += 1;
      this.#copy(bytes, at + width, width);
      if (increment(this.#bytes, this.#length - width, this.#length)) {
        this.#word(NFT_SET_ELEM_INTERVAL_END);
        this.#count += 1;
      } else this.#length -= width;
    }
  }

  #key(key: ElementKey): void {
    if (typeof key !== 'string') {
      this.#copy(key, 0, key.length);
      return;
    }
    for (let i = 0; i < key.length; i += 1) this.#bytes[this.#length + i] = key.charCodeAt(i);
    this.#length += key.length;
  }

  #copy(from: Uint8Array, start: number, length: number): void {
    const bytes = this.#bytes;
    const at = this.#length;
    for (let i = 0; i < length; i += 1) bytes[at + i] = from[start + i]!;
    this.#length = at + length;
  }

  #word(value: number): void {
    this.#view.setInt32(this.#length, value, true);
    this.#length += 4;
  }

  /** Its length, then the text, padded. Names of chains and comments are ours and ASCII. */
  #text(text: string): void {
    this.#word(text.length);
    const padded = (text.length + 3) & ~3;
    for (let i = 0; i < padded; i += 1) {
      this.#bytes[this.#length + i] = i < text.length ? text.charCodeAt(i) : 0;
    }
    this.#length += padded;
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#length + bytes, this.#bytes.length * 2));
    grown.set(this.entries);
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}

/** Elements in the form of `elements` records. */
export interface PackedElements {
  readonly count: number;
  readonly entries: Uint8Array;
}

/** Ranges as a dump of a plain interval set has them. */
export function packedRanges(set: SetDefinition, ranges: AddressRanges): PackedElements {
  const buffer = new ElementBuffer(set, 'add');
  buffer.ranges(ranges);
  return { count: buffer.count, entries: buffer.entries.slice() };
}

/** Purposes in the order in which they are written. */
const purposes = ['delete', 'add'] as const;
type Purpose = (typeof purposes)[number];

/**
 * The buffers of one table in one transaction. Each set has one, because the kernel looks a set up
 * for each message. Sets of the layout are given by name, others by their definition.
 */
export class ElementBuffers<Name extends string> {
  readonly #table: TablePlace;
  readonly #sets: Readonly<Record<Name, SetDefinition>>;
  readonly #buffers: Readonly<Record<Purpose, Map<string, ElementBuffer>>> = {
    delete: new Map(),
    add: new Map(),
  };

  constructor(table: TablePlace, sets: Readonly<Record<Name, SetDefinition>>) {
    this.#table = table;
    this.#sets = sets;
  }

  get count(): number {
    let count = 0;
    for (const purpose of purposes) {
      for (const buffer of this.#buffers[purpose].values()) count += buffer.count;
    }
    return count;
  }

  to(purpose: Purpose, set: Name | SetDefinition, owner: string): ElementBuffer {
    const name = typeof set === 'string' ? set : set.name;
    let buffer = this.#buffers[purpose].get(name);
    if (buffer === undefined) {
      buffer = new ElementBuffer(typeof set === 'string' ? this.#sets[set] : set, purpose);
      this.#buffers[purpose].set(name, buffer);
    }
    buffer.own(owner);
    return buffer;
  }

  /**
   * Writes the ops of all buffers: deletions first, so that a key can be given other data in one
   * transaction.
   */
  write(writer: OpWriter): void {
    for (const purpose of purposes) {
      const buffers = this.#buffers[purpose];
      for (const buffer of buffers.size > 1 ? this.#inOrder(buffers) : buffers.values()) {
        if (buffer.count > 0) writeBuffer(writer, this.#table, buffer, purpose);
      }
    }
  }

  /** Buffers of the layout's sets in its order, then others in the order in which they came. */
  *#inOrder(buffers: ReadonlyMap<string, ElementBuffer>): Generator<ElementBuffer> {
    for (const name in this.#sets) {
      const buffer = buffers.get(name);
      if (buffer !== undefined) yield buffer;
    }
    for (const [name, buffer] of buffers) if (!(name in this.#sets)) yield buffer;
  }
}

function writeBuffer(
  writer: OpWriter,
  { family, table }: TablePlace,
  buffer: ElementBuffer,
  purpose: Purpose,
): void {
  const { keyLength, dataLength } = fieldsOfSet(family, table, buffer.set);
  const fields = {
    family: NFPROTO[family],
    table,
    set: buffer.set.name,
    shape: buffer.shape,
    keyLength,
    dataLength,
    count: buffer.count,
    entries: buffer.entries,
  };
  const kind = purpose === 'add' ? 'elementsAdd' : 'elementsDelete';
  writer.write(kind, fields, (entry) => buffer.ownerOf(entry));
}
