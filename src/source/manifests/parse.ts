import { isUtf8 } from 'node:buffer';
import { parseDocument } from 'yaml';
import { excessOfAliases, yamlOptions } from '../../net/yaml.ts';
import { tryJSON } from '../decode/field-reader.ts';

/** One JSON document, or one document of a YAML stream. */
export interface ManifestDocument {
  readonly value: unknown;
  /** Where it starts in the file, from 1. */
  readonly line: number;
}

/** Text, or a document of it, that cannot be read as YAML or JSON. */
export class ManifestError extends Error {
  override readonly name = 'ManifestError';
  /** From 1. */
  readonly line: number;

  constructor(line: number, reason: string) {
    super(reason);
    this.line = line;
  }
}

/**
 * The parser takes about 1 s and 90 MB for each megabyte of a document. Documents of a stream are
 * parsed one by one.
 */
const documentCharactersMax = 4 * 1024 * 1024;

/**
 * The documents of a manifest file, and what is wrong with those that cannot be read. `.json` is
 * JSON, everything else YAML (or JSON, which is YAML). Takes about 0.6 ms for each KiB of YAML.
 */
export function* parseManifest(
  file: string,
  bytes: Buffer,
): Generator<ManifestDocument | ManifestError> {
  const isUtf16 = bytes[0] === 0xff && bytes[1] === 0xfe;
  if (!isUtf16 && !isUtf8(bytes)) {
    yield new ManifestError(lineOfBadByte(bytes), 'is not UTF-8 text');
    return;
  }
  const text = bytes.toString(isUtf16 ? 'utf16le' : 'utf8').replace(/^\ufeff/, '');
  if (text.trim() === '') return;
  if (file.endsWith('.json') || text.trimStart().startsWith('{')) {
    const values = jsonValues(text, file.endsWith('.json'));
    if (values !== undefined) {
      yield* values;
      return;
    }
  }
  for (const part of yamlParts(text)) {
    const value = parseYAML(part);
    if (value instanceof ManifestError) yield value;
    else if (value !== null && value !== undefined) yield { value, line: part.contentLine };
  }
}

/**
 * JSON values that follow one another. Undefined: the text may be YAML, unless it must be JSON
 * (`isJSON`). JSON.parse is a hundred times faster than the YAML parser.
 */
function jsonValues(
  text: string,
  isJSON: boolean,
): (ManifestDocument | ManifestError)[] | undefined {
  const values: (ManifestDocument | ManifestError)[] = [];
  for (let at = 0; text.slice(at).trim() !== ''; ) {
    const line = 1 + newlines(text, at + text.slice(at).search(/\S/));
    const rest = text.slice(at);
    const length = jsonLength(rest);
    const value = tryJSON(rest.slice(0, length));
    if (value === undefined) {
      if (!isJSON) return undefined;
      values.push(jsonError(rest, line));
      return values;
    }
    values.push({ value, line });
    at += length;
  }
  return values;
}

/** The length of the first value, if another one follows it; else that of the text. */
function jsonLength(text: string): number {
  try {
    JSON.parse(text);
  } catch (error) {
    const end = /^Unexpected non-whitespace character after JSON at position (\d+)/;
    const found = error instanceof Error ? end.exec(error.message) : null;
    if (found !== null) return Number(found[1]);
  }
  return text.length;
}

function lineOfBadByte(bytes: Buffer): number {
  // Bytes that are not UTF-8 become U+FFFD, which no manifest contains.
  const text = bytes.toString('utf8');
  return 1 + newlines(text, text.indexOf('\ufffd'));
}

/** What is wrong with a text that cannot be parsed. It begins in `line`. */
function jsonError(text: string, line: number): ManifestError {
  try {
    JSON.parse(text);
    return new ManifestError(line, 'is not JSON');
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    // V8 reports the position of some mistakes only. The YAML parser finds the others.
    const found = /\(line ([0-9]+) column/.exec(words)?.[1];
    const before = found === undefined ? newlines(text, mistakeIn(text)) : Number(found) - 1;
    return new ManifestError(line + before, words);
  }
}

interface YAMLPart {
  readonly text: string;
  /** The line of its document marker. */
  readonly line: number;
  /** The first line that is neither marker, blank nor comment. */
  readonly contentLine: number;
}

/**
 * Splits a YAML stream at its document markers. Every `---` in the first column is one, because
 * block scalars are indented.
 */
function* yamlParts(text: string): Generator<YAMLPart> {
  const marker = /^---(?=[ \t\r\n]|$)/gm;
  let start = 0;
  let line = 1;
  for (;;) {
    const found = marker.exec(text);
    const end = found?.index ?? text.length;
    const part = text.slice(start, end);
    const lead = /^(?:(?:---)?[ \t]*(?:[#%].*)?(?:\r?\n|$))*/.exec(part)![0];
    if (lead.length < part.length) {
      yield { text: part, line, contentLine: line + newlines(lead, lead.length) };
    }
    if (found === null) return;
    line += newlines(part, part.length);
    start = end;
  }
}

/** The offset of the first mistake in JSON, in characters; 0 when it is too deep to find. */
function mistakeIn(text: string): number {
  if (text.length > documentCharactersMax) return 0;
  try {
    const { errors } = parseDocument(text, {
      prettyErrors: false,
      schema: 'json',
      uniqueKeys: false,
    });
    return errors[0]?.pos[0] ?? 0;
  } catch {
    return 0;
  }
}

/** Parses one document. The parser has no depth limit: it may overflow the stack, and throw. */
function documentOf({ line, text }: YAMLPart) {
  try {
    return parseDocument(text, { ...yamlOptions, merge: true });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return new ManifestError(line, `is nested too deeply: ${error.message}`);
  }
}

function parseYAML(part: YAMLPart): unknown {
  if (part.text.length > documentCharactersMax) {
    const reason =
      'is a YAML document of more than 4 MiB: divide it by lines of `---`, or write it as JSON';
    return new ManifestError(part.line, reason);
  }
  const document = documentOf(part);
  if (document instanceof ManifestError) return document;
  const [error] = document.errors;
  if (error !== undefined) {
    return new ManifestError(part.line + newlines(part.text, error.pos[0]), error.message);
  }
  try {
    const excess = excessOfAliases(document);
    return excess === undefined ? document.toJS() : new ManifestError(part.line, excess);
  } catch (cause) {
    // Aliases without an end, or of missing anchors.
    const reason = cause instanceof Error ? cause.message : String(cause);
    return new ManifestError(part.line, reason);
  }
}

function newlines(text: string, end: number): number {
  let found = 0;
  for (let at = text.indexOf('\n'); at >= 0 && at < end; at = text.indexOf('\n', at + 1)) {
    found += 1;
  }
  return found;
}
