import { isUtf8 } from 'node:buffer';
import { parseDocument } from 'yaml';
import { tryJSON } from '../decode/field-reader.ts';

/** One JSON document, or one document of a YAML stream. */
export interface ManifestDocument {
  readonly value: unknown;
  /** Where it starts in the file, from 1. */
  readonly line: number;
}

/** A file that cannot be read as YAML or JSON. */
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
 * The documents of a manifest file: `.json` is JSON, everything else YAML (or JSON, which is
 * YAML). Throws a ManifestError. Takes about 0.6 ms for each kilobyte of YAML.
 */
export function* parseManifest(file: string, bytes: Buffer): Generator<ManifestDocument> {
  if (!isUtf8(bytes)) throw new ManifestError(lineOfBadByte(bytes), 'is not UTF-8 text');
  const text = bytes.toString('utf8').replace(/^\ufeff/, '');
  if (text.trim() === '') return;
  if (file.endsWith('.json')) {
    yield { value: parseJSON(text), line: 1 };
    return;
  }
  if (text.trimStart().startsWith('{')) {
    // JSON.parse is a hundred times faster than the YAML parser.
    const value = tryJSON(text);
    if (value !== undefined) {
      yield { value, line: 1 };
      return;
    }
  }
  for (const part of yamlParts(text)) {
    const value = parseYAML(part);
    if (value !== null && value !== undefined) yield { value, line: part.contentLine };
  }
}

function lineOfBadByte(bytes: Buffer): number {
  // Bytes that are not UTF-8 become U+FFFD, which no manifest contains.
  const text = bytes.toString('utf8');
  return 1 + newlines(text, text.indexOf('\ufffd'));
}

function parseJSON(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    // V8 reports the position of some mistakes only. The YAML parser finds the others.
    const line = /\(line ([0-9]+) column/.exec(words)?.[1];
    if (line !== undefined) throw new ManifestError(Number(line), words);
    throw new ManifestError(1 + newlines(text, mistakeIn(text)), words);
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
    const { errors } = parseDocument(text, { prettyErrors: false, schema: 'json' });
    return errors[0]?.pos[0] ?? 0;
  } catch {
    return 0;
  }
}

/** Parses one document. The parser has no depth limit: it may overflow the stack, and throw. */
function documentOf({ line, text }: YAMLPart) {
  try {
    return parseDocument(text, { prettyErrors: false });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new ManifestError(line, `is nested too deeply: ${error.message}`);
  }
}

function parseYAML(part: YAMLPart): unknown {
  if (part.text.length > documentCharactersMax) {
    const reason =
      'is a YAML document of more than 4 MiB: divide it by lines of `---`, or write it as JSON';
    throw new ManifestError(part.line, reason);
  }
  const document = documentOf(part);
  const [error] = document.errors;
  if (error !== undefined) {
    throw new ManifestError(part.line + newlines(part.text, error.pos[0]), error.message);
  }
  try {
    return document.toJS();
  } catch (cause) {
    // Aliases without an end, or of missing anchors.
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ManifestError(part.line, reason);
  }
}

function newlines(text: string, end: number): number {
  let found = 0;
  for (let at = text.indexOf('\n'); at >= 0 && at < end; at = text.indexOf('\n', at + 1)) {
    found += 1;
  }
  return found;
}
