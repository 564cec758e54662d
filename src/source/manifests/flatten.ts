/** Returns the objects of documents, each of which is an object or a list. */
import { isRawObject, isText, type RawObject, show } from '../decode/field-reader.ts';
import type { SourceProblem } from '../source.ts';
import { type ManifestDocument, ManifestError } from './parse.ts';

export interface RawManifest {
  readonly raw: RawObject;
  /** Where its document starts in the file, from 1. */
  readonly line: number;
}

/** The most nested lists: a YAML anchor can put a list into itself. */
const listsDeepMax = 8;

/** A document that cannot be read; others of its file are. */
interface Unreadable {
  readonly line: number;
  readonly reason: string;
}

/** What is wrong in a file. */
export interface Findings {
  readonly problems: SourceProblem[];
  readonly unreadable: Unreadable[];
}

/** Objects of all documents, including those in lists. */
export function* flatten(
  file: string,
  documents: Iterable<ManifestDocument | ManifestError>,
  findings: Findings,
  depth = 0,
): Generator<RawManifest> {
  const { problems, unreadable } = findings;
  for (const document of documents) {
    if (document instanceof ManifestError) {
      unreadable.push({ line: document.line, reason: document.message });
      continue;
    }
    const { value, line } = document;
    if (!isRawObject(value) || typeof value.kind !== 'string' || !isText(value.apiVersion)) {
      const reason = `is not a Kubernetes object with apiVersion and kind: ${show(value)}`;
      problems.push({ subject: `${file}:${line}`, field: undefined, reason });
      continue;
    }
    if (!value.kind.endsWith('List') || !Array.isArray(value.items)) {
      yield { raw: value, line };
      continue;
    }
    if (depth === listsDeepMax) {
      const reason = `is a list within ${listsDeepMax} lists, and is not read`;
      problems.push({ subject: `${file}:${line}`, field: undefined, reason });
      continue;
    }
    // Items of a typed list (ServiceList) do not repeat their kind.
    const kind = value.kind.slice(0, -'List'.length);
    const items = value.items.map((item: unknown) =>
      isRawObject(item) && kind !== '' ? { apiVersion: value.apiVersion, kind, ...item } : item,
    );
    yield* flatten(
      file,
      items.map((item) => ({ value: item, line })),
      findings,
      depth + 1,
    );
  }
}
