/** What a match or target of iptables needs: to be written, read back and printed. */
import type { Family } from '../../net/address.ts';
import type { Protocol } from '../../net/protocol.ts';
import type { Expression, expressions } from '../ops.ts';
import type { RecordWriter } from '../records.ts';

/** How a match compares. */
export type Operator = '==' | '!=';

export type Writer = RecordWriter<typeof expressions>;

/** What else the meaning of a match or target depends on. */
export interface Context {
  readonly family: Family;
  readonly protocol: Protocol | undefined;
}

/** For parts that are a structure of nft_compat, and for those that are native expressions. */
export interface Codec<Part> {
  write(part: Part, out: Writer, context: Context): void;
  /** As iptables-save prints it, from `-m` or `-j` on. */
  print(part: Part, context: Context): string;
}

/** Reads a rule's expressions one after the other. */
export class Cursor {
  readonly #expressions: readonly Expression[];
  #at = 0;

  constructor(expressions: readonly Expression[]) {
    this.#expressions = expressions;
  }

  /** Takes the next expression, if it is of this kind. */
  take<K extends Expression['kind']>(kind: K): Extract<Expression, { kind: K }> | undefined {
    const expression = this.#expressions[this.#at];
    if (expression?.kind !== kind) return undefined;
    this.#at += 1;
    return expression as Extract<Expression, { kind: K }>;
  }

  /** Runs `read`. When that returns undefined, nothing was taken. */
  attempt<T>(read: (cursor: Cursor) => T | undefined): T | undefined {
    const before = this.#at;
    const value = read(this);
    if (value === undefined) this.#at = before;
    return value;
  }
}

/** Structures are padded to a multiple of 8 bytes (XT_ALIGN). */
export function structure(bytes: number): { readonly info: Uint8Array; readonly view: DataView } {
  const info = new Uint8Array((bytes + 7) & ~7);
  return { info, view: new DataView(info.buffer) };
}

export function viewOf(info: Uint8Array): DataView {
  return new DataView(info.buffer, info.byteOffset, info.byteLength);
}

const textEncoder = new TextEncoder();
const textDecoder = new TextDecoder();

/**
 * Puts a string with at least one NUL behind it into a field of `bytes` bytes.
 * Throws RangeError when it does not fit.
 */
export function putText(info: Uint8Array, at: number, bytes: number, text: string): void {
  const field = info.subarray(at, at + bytes - 1);
  const { read } = textEncoder.encodeInto(text, field);
  if (read < text.length) throw new RangeError(`longer than ${bytes - 1} bytes: ${text}`);
}

export function textAt(info: Uint8Array, at: number, bytes: number): string {
  const field = info.subarray(at, at + bytes);
  const end = field.indexOf(0);
  return textDecoder.decode(end < 0 ? field : field.subarray(0, end));
}

/** Quotes a word as iptables-save does (xtables_save_string). */
export function quoted(text: string): string {
  if (/^[A-Za-z0-9_-]+$/.test(text)) return text;
  return `"${text.replace(/["\\']/g, '\\$&')}"`;
}
