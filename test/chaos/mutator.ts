/** Makes inputs that are almost valid: pieces of a corpus with a few changes. */
import type { Random } from './random.ts';

const inputBytesMax = 64 * 1024;

/** Tokens that parsers often handle wrongly. */
const tokens: readonly Buffer[] = [
  ...['{', '}', '[', ']', '"', ':', ',', '\n', '\\', '\\u0000', '\\ud800', 'null', 'true', '-0'],
  ...['1e999', '-1', '65536', '9007199254740993', '0.5', '""', '{}', '[]', '"__proto__":{},'],
  ...['---\n', '&a ', '*a', '<<: ', '!!binary ', '? ', '| \n', '%YAML 1.2\n', '\t', '\r\n'],
  ...['0.0.0.0', '::', '::ffff:1.2.3.4', '999.1.1.1', 'fe80::1%eth0', '/0', '/129', '"items":['],
].map((text) => Buffer.from(text));
const bytes: readonly Buffer[] = [[0], [0xff], [0xc3], [0xed, 0xa0, 0x80], [0xef, 0xbb, 0xbf]].map(
  (each) => Buffer.from(each),
);
/** Beginnings that nest, for inputs deeper than a recursive parser can read. */
const nests: readonly string[] = ['[', '{"a":', '- ', '{"kind":"List","items":['];
const deepest = 20_000;

export class Mutator {
  readonly #corpus: readonly Buffer[];
  readonly #random: Random;

  constructor(corpus: readonly Buffer[], random: Random) {
    this.#corpus = corpus;
    this.#random = random;
  }

  next(): Buffer {
    let input = this.#random.pick(this.#corpus);
    for (let times = 1 + this.#random.below(6); times > 0; times -= 1) input = this.#once(input);
    return input.subarray(0, inputBytesMax);
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
    return Buffer.concat([
      this.#random.below(2) === 0 ? before : Buffer.alloc(0),
      Buffer.from(nest),
    ]);
  }
}

function flipped(input: Buffer, at: number, random: Random): Buffer {
  const copy = Buffer.from(input);
  if (at < copy.length) copy[at]! ^= 1 << random.below(8);
  return copy;
}
