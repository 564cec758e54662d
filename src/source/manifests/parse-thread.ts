/** A thread that parses one manifest, and ends: see `read.ts`. */
import { parentPort, workerData } from 'node:worker_threads';
import { type Findings, flatten } from './flatten.ts';
import { parseManifest } from './parse.ts';
import type { ThreadMessage, ThreadOrder } from './read.ts';

/** The receiver handles one message of this size per turn. */
const charactersPerMessage = 256 * 1024;
/** The largest object that etcd accepts. The receiver parses it in 10 ms. */
const objectCharactersMax = 1.5 * 1024 * 1024;
/** Twice what a file may have: aliases of YAML repeat what it has. */
const charactersMax = 128 * 1024 * 1024;

const send = (message: ThreadMessage): void => parentPort!.postMessage(message);

/** The object as JSON, or why it is left out. */
function textOf(raw: unknown): string | Error {
  try {
    const json = JSON.stringify(raw);
    if (json.length <= objectCharactersMax) return json;
    return new Error('contains an object of more than 1.5 MiB, which no cluster accepts');
  } catch (error) {
    // A YAML anchor can put an object into itself.
    const words = (error as Error).message.split('\n')[0];
    return new Error(`contains a value that JSON cannot express, and is left out: ${words}`);
  }
}

function read({ file, bytes }: ThreadOrder): void {
  const findings: Findings = { problems: [], unreadable: [] };
  let objects: { json: string; line: number }[] = [];
  let characters = 0;
  let sent = 0;
  for (const found of flatten(file, parseManifest(file, Buffer.from(bytes)), findings)) {
    const { line, raw } = found;
    const json = textOf(raw);
    if (json instanceof Error) {
      findings.unreadable.push({ line, reason: json.message });
      continue;
    }
    objects.push({ json, line });
    characters += json.length;
    if (sent + characters > charactersMax) {
      const reason = 'contains objects of more than 128 MiB, by its aliases';
      findings.unreadable.push({ line, reason });
      break;
    }
    if (characters < charactersPerMessage) continue;
    send({ kind: 'objects', objects });
    objects = [];
    sent += characters;
    characters = 0;
  }
  send({ kind: 'objects', objects });
  send({ kind: 'findings', findings });
}

read(workerData as ThreadOrder);
