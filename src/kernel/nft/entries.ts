/** Reads elements from the packed form that `elements` records have. */
import { ElementShape } from '../ops.ts';

/** An element; parts that the record does not have are 0, empty or undefined. */
export interface Entry {
  readonly key: Uint8Array;
  readonly flags: number;
  readonly data: Uint8Array;
  readonly verdict: { readonly code: number; readonly chain: string } | undefined;
}

/** The fields of an `elements` record that describe its entries. */
interface PackedEntries {
  readonly shape: number;
  readonly keyLength: number;
  readonly dataLength: number;
  readonly entries: Uint8Array;
}

/** Skips the parts that `Entry` does not have. */
export function* readEntries(packed: PackedEntries): Generator<Entry> {
  const { dataLength, entries, keyLength, shape } = packed;
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const has = (part: number): boolean => (shape & part) !== 0;
  let at = 0;
  const take = (length: number): Uint8Array => {
    at += length;
    return entries.subarray(at - length, at);
  };
  const word = (): number => {
    at += 4;
    return view.getUint32(at - 4, true);
  };
  const text = (): string => {
    const length = word();
    const bytes = take(length);
    at += -length & 3;
    return Buffer.from(bytes).toString();
  };
  const verdict = (): NonNullable<Entry['verdict']> => {
    return { code: word() | 0, chain: text() };
  };
  while (at < entries.length) {
    const key = take(keyLength);
    const flags = has(ElementShape.flags) ? word() : 0;
    const data = take(has(ElementShape.data) ? dataLength : 0);
    yield { key, flags, data, verdict: has(ElementShape.verdict) ? verdict() : undefined };
    if (has(ElementShape.counter)) take(8);
    if (has(ElementShape.comment)) text();
  }
}
