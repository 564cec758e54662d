/** Elements to and from the packed form of `elements` records (ElementShape). */
import { ElementShape } from '../../src/kernel/ops.ts';
import { RecordError } from '../../src/kernel/records.ts';
import type { Element } from './nft-state.ts';

/** The fields of an `elements` record that define the form of its entries. */
export interface Entries {
  readonly shape: number;
  readonly keyLength: number;
  readonly dataLength: number;
  readonly count: number;
  readonly entries: Uint8Array;
}

/** The elements of a record. Throws RecordError when it is shorter or longer than it says. */
export function unpack({ shape, keyLength, dataLength, count, entries }: Entries): Element[] {
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const has = (part: number): boolean => (shape & part) !== 0;
  let at = 0;
  const take = (length: number): Uint8Array => {
    if (at + length > entries.length) throw new RecordError('entries are truncated');
    at += length;
    return entries.slice(at - length, at);
  };
  const word = (): number => {
    take(4);
    return view.getUint32(at - 4, true);
  };
  const elements: Element[] = [];
  for (let i = 0; i < count; i += 1) {
    const key = take(keyLength);
    const flags = has(ElementShape.flags) ? word() : 0;
    const data = has(ElementShape.data) ? take(dataLength) : undefined;
    const verdict = has(ElementShape.verdict) ? takeVerdict(word, take) : undefined;
    const comment = has(ElementShape.comment) ? takeText(word, take) : '';
    elements.push({ key, flags, data, verdict, comment });
  }
  if (at !== entries.length) throw new RecordError('entries go on after the last one');
  return elements;
}

function takeVerdict(word: () => number, take: (length: number) => Uint8Array) {
  return { code: word() | 0, chain: takeText(word, take) };
}

function takeText(word: () => number, take: (length: number) => Uint8Array): string {
  const length = word();
  const text = Buffer.from(take(length)).toString('latin1');
  take(-length & 3);
  return text;
}

/** Parts that an element lacks become zeroes. A missing key end becomes the key. */
export function pack(
  elements: readonly Element[],
  { shape, keyLength, dataLength }: Pick<Entries, 'shape' | 'keyLength' | 'dataLength'>,
): Entries {
  const has = (part: number): boolean => (shape & part) !== 0;
  const parts: Uint8Array[] = [];
  const words = (...values: number[]): number =>
    parts.push(new Uint8Array(Uint32Array.from(values).buffer));
  const text = (value: string): void => {
    words(value.length);
    parts.push(Buffer.from(value.padEnd((value.length + 3) & ~3, '\0'), 'latin1'));
  };
  for (const { key, flags, data, verdict, comment } of elements) {
    parts.push(key);
    if (has(ElementShape.flags)) words(flags);
    if (has(ElementShape.data)) parts.push(data ?? new Uint8Array(dataLength));
    if (has(ElementShape.verdict)) {
      const { code, chain } = verdict ?? { code: 0, chain: '' };
      words(code);
      text(chain);
    }
    // The fake's elements count nothing.
    if (has(ElementShape.counter)) words(0, 0);
    if (has(ElementShape.comment)) text(comment);
  }
  const entries = new Uint8Array(Buffer.concat(parts));
  return { shape, keyLength, dataLength, count: elements.length, entries };
}
