/**
 * The most values of one object, in JSON and in protobuf: the smallest takes two or three bytes,
 * and 80 in memory. An object that etcd stores by default, of up to 1.5 MiB, has fewer.
 */
export const valuesMax = 1_000_000;

const quote = 0x22;
const comma = 0x2c;
const openBracket = 0x5b;
const backslash = 0x5c;
const openBrace = 0x7b;

/** Parses JSON. Throws a one-line Error if it is not, or has too many values. */
export function parseJSON(bytes: Buffer): unknown {
  if (bytes.length > valuesMax && hasTooMany(bytes)) {
    throw new Error(`it has more than ${valuesMax} values`);
  }
  return JSON.parse(bytes.toString('utf8'));
}

/** Counts what is before each value but the first: its list or object, or a comma. */
function hasTooMany(bytes: Buffer): boolean {
  let found = 0;
  for (let at = 0; at < bytes.length && found <= valuesMax; at += 1) {
    const byte = bytes[at];
    if (byte === quote) at = endOfString(bytes, at + 1);
    else if (byte === comma || byte === openBracket || byte === openBrace) found += 1;
  }
  return found > valuesMax;
}

/** The index of the quote that ends the string. */
function endOfString(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1;
  return at;
}
