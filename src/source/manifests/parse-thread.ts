/** A thread that parses one manifest, and ends: see `read.ts`. */
import { parentPort, workerData } from 'node:worker_threads';
import type { SourceProblem } from '../source.ts';
import { flatten, type RawManifest } from './flatten.ts';
import { ManifestError, parseManifest } from './parse.ts';
import type { ThreadMessage, ThreadOrder } from './read.ts';

/** The receiver handles one message of this size per turn. */
const charactersPerMessage = 256 * 1024;
/** The largest object that etcd accepts. The receiver parses it in 10 ms. */
const objectCharactersMax = 1.5 * 1024 * 1024;
/** Twice what a file may have: aliases of YAML repeat what it has. */
const charactersMax = 128 * 1024 * 1024;

const send = (message: ThreadMessage): void => parentPort!.postMessage(message);

function textOf({ raw, line }: RawManifest): string | Error {
  let json: string;
  try {
    json = JSON.stringify(raw);
  } catch (error) {
    // A YAML anchor can put an object into itself.
    return error as Error;
  }
  if (json.length <= objectCharactersMax) return json;
  throw new ManifestError(
    line,
    'contains an object of more than 1.5 MiB, which no cluster accepts',
  );
}

function read({ file, bytes }: ThreadOrder): void {
  const problems: SourceProblem[] = [];
  let objects: { json: string; line: number }[] = [];
  let characters = 0;
  let sent = 0;
  for (const found of flatten(file, parseManifest(file, Buffer.from(bytes)), problems)) {
    const { line } = found;
    const json = textOf(found);
    if (json instanceof Error) {
      const reason = `contains a value that JSON cannot express, and is left out: ${json.message.split('\n')[0]}`;
      problems.push({ subject: `${file}:${line}`, field: undefined, reason });
      continue;
    }
    objects.push({ json, line });
    characters += json.length;
    if (sent + characters > charactersMax) {
      throw new ManifestError(line, 'contains objects of more than 128 MiB, by its aliases');
    }
    if (characters < charactersPerMessage) continue;
    send({ kind: 'objects', objects });
    objects = [];
    sent += characters;
    characters = 0;
  }
  send({ kind: 'objects', objects });
  send({ kind: 'problems', problems });
}

try {
  read(workerData as ThreadOrder);
} catch (error) {
  if (!(error instanceof ManifestError)) throw error;
  send({ kind: 'error', line: error.line, reason: error.message });
}
