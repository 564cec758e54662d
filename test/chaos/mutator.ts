/** Makes inputs that are almost valid: pieces of a corpus with a few changes. */
import type { Random } from './random.ts';

/** The most bytes of an input that is not grown. */
export const inputBytesMax = 64 * 1024;
/** One of this number of inputs is grown. */
const grownOneOf = 12;
/** What parsers keep something of each time. */
const growing: readonly Buffer[] = [
  ...[...'{}[]":,\\ \n\t-&*'],
  ...['{},', '[],', '0,', '"",', '{"a":', '"a":0,', '---\n', 'a: &a\n', '- *a\n'],
].map((text) => Buffer.from(text));

/** Tokens that parsers often handle wrongly. */
const tokens: readonly Buffer[] = [
  ...['{', '}', '[', ']', '"', ':', ',', '\n', '\\', '\\u0000', '\\ud800', 'null', 'true', '-0'],
  ...['1e999', '-1', '65536', '9007199254740993', '0.5', '""', '{}', '[]', '"__proto__":{},'],
  ...['---\n', '&a ', '*a', '<<: ', '!!binary ', '? ', '| \n', '%YAML 1.2\n', '\t', '\r\n'],
  ...['0.0.0.0', '::', '::ffff:1.2.3.4', '999.1.1.1', 'fe80::1%eth0', '/0', '/129', '"items":['],
].map((text) => Buffer.from(text));
const bytes: readonly Buffer[] = [
  ...[[0], [0xff], [0xc3], [0xed, 0xa0, 0x80], [0xef, 0xbb, 0xbf]],
  // Empty fields of protobuf.
  ...[1, 2, 3, 5, 9, 11, 12].map((field) => [field * 8 + 2, 0]),
].map((each) => Buffer.from(each));
/** Beginnings that nest, for inputs deeper than a recursive parser can read. */
const nests: readonly string[] = ['[', '{"a":', '- ', '{"kind":"List","items":['];
const deepest = 20_000;

const empty = Buffer.alloc(0);

/** What is repeated, with what is before and after. */
export type Repetition = readonly [before: Buffer, repeated: Buffer, after: Buffer];

/** Repeats the middle up to this number of bytes. */
export function repeat([before, repeated, after]: Repetition, bytesMax: number): Buffer {
  const times = Math.floor(bytesMax / Math.max(1, repeated.length));
  return Buffer.concat([before, Buffer.alloc(times * repeated.length, repeated), after]);
}

export class Mutator {
  readonly #corpus: readonly Buffer[];
  readonly #random: Random;
  readonly #grownBytesMax: number;

  /** `grownBytesMax`: how far a part of an input may be repeated; 0 = no part is. */
  constructor(corpus: readonly Buffer[], random: Random, grownBytesMax: number) {
    this.#corpus = corpus;
    this.#random = random;
    this.#grownBytesMax = grownBytesMax;
  }

  next(): Buffer {
    const random = this.#random;
    const isGrown = this.#grownBytesMax > 0 && random.below(grownOneOf) === 0;
    let input = random.pick(this.#corpus);
    const changes = isGrown ? random.below(2) : 1 + random.below(6);
    for (let times = changes; times > 0; times -= 1) input = this.#once(input);
    input = input.subarray(0, inputBytesMax);
    return isGrown ? this.#grown(input) : input;
  }

  /** Repeats a part of it, or a token, millions of times: one power of ten is like another. */
  #grown(input: Buffer): Buffer {
    const random = this.#random;
    const from = random.below(random.pick([1, 1, 16, input.length + 1]));
    // After a bracket or a brace, where its input may still be valid.
    const at = input.indexOf(random.pick(['[', '{', '']), from) + 1;
    const part = input.subarray(at, at + 1 + random.below(random.pick([4, 60, 1000])));
    const token = random.pick(random.pick([growing, growing, tokens, bytes]));
    const repeated = random.pick([part, token, token]);
    const most = this.#grownBytesMax;
    const bytesMax = Math.floor(random.pick([most, most ** random.next()]));
    const after = random.below(2) === 0 ? input.subarray(at) : empty;
    return repeat([input.subarray(0, at), repeated, after], bytesMax);
  }

  #once(input: Buffer): Buffer {
    const random = this.#random;
    const at = random.below(input.length + 1);
    const end = Math.min(input.length, at + 1 + random.below(random.pick([1, 8, 200])));
    const before = input.subarray(0, at);
    switch (random.below(9)) {
      case 0:
        return Buffer.concat([before, random.pick(tokens), input.subarray(at)]);
      case 1:
        return Buffer.concat([before, random.pick(tokens), input.subarray(end)]);
      case 2:
        return Buffer.concat([before, input.subarray(end)]);
      case 3:
        return Buffer.concat([before, input.subarray(at, end), input.subarray(at)]);
      case 4:
        return Buffer.concat([before, this.#part(), input.subarray(end)]);
      case 5:
        return Buffer.concat([before, random.pick(bytes), input.subarray(at)]);
      case 6:
        return flipped(input, at, random);
      case 7:
        return before;
      default:
        return random.below(20) === 0 ? this.#nested(before) : input;
    }
  }

  /** A part of another input. */
  #part(): Buffer {
    const other = this.#random.pick(this.#corpus);
    const from = this.#random.below(other.length);
    return other.subarray(from, from + this.#random.below(400));
  }

  #nested(before: Buffer): Buffer {
    const nest = this.#random.pick(nests).repeat(this.#random.below(deepest));
    return Buffer.concat([this.#random.below(2) === 0 ? before : empty, Buffer.from(nest)]);
  }
}

function flipped(input: Buffer, at: number, random: Random): Buffer {
  const copy = Buffer.from(input);
  if (at < copy.length) copy[at]! ^= 1 << random.below(8);
  return copy;
}
