/** Reads manifests without holding the event loop: those that take long, on a thread. */
import { once } from 'node:events';
import { extname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Pacer } from '../pacer.ts';
import type { SourceProblem } from '../source.ts';
import { flatten, type RawManifest } from './flatten.ts';
import { ManifestError, parseManifest } from './parse.ts';

/** Takes 5 ms of a turn as YAML. */
const bytesHereMax = 8 * 1024;
/** Of the thread: a file that needs more cannot be read, and the process goes on. */
const heapMegabytesMax = 1024;

interface ReadManifest {
  readonly found: readonly RawManifest[];
  readonly problems: readonly SourceProblem[];
}

/** What the thread tells, one message for some objects. */
export type ThreadMessage =
  /** Each object as JSON: that crosses to this thread in small pieces. */
  | { readonly kind: 'objects'; readonly objects: readonly { json: string; line: number }[] }
  | { readonly kind: 'problems'; readonly problems: readonly SourceProblem[] }
  | { readonly kind: 'error'; readonly line: number; readonly reason: string };

export interface ThreadOrder {
  readonly file: string;
  readonly bytes: Uint8Array;
}

/** The objects of a file. Rejects with a ManifestError. `bytes` are not to be used afterwards. */
export async function readManifest(
  file: string,
  bytes: Buffer,
  pacer: Pacer,
): Promise<ReadManifest> {
  if (bytes.length > bytesHereMax) return readOnThread(file, bytes, pacer);
  const problems: SourceProblem[] = [];
  const found = [...flatten(file, parseManifest(file, bytes), problems)];
  return { found, problems };
}

async function readOnThread(file: string, bytes: Buffer, pacer: Pacer): Promise<ReadManifest> {
  const script = `parse-thread${extname(import.meta.filename)}`;
  const order: ThreadOrder = { file, bytes };
  const worker = new Worker(join(import.meta.dirname, script), {
    workerData: order,
    transferList: [bytes.buffer as ArrayBuffer],
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytesMax },
  });
  // It may take seconds, for which nobody waits who ends the process.
  worker.unref();
  const texts: { json: string; line: number }[] = [];
  const problems: SourceProblem[] = [];
  let failure: ManifestError | undefined;
  worker.on('message', (message: ThreadMessage) => {
    if (message.kind === 'objects') texts.push(...message.objects);
    else if (message.kind === 'problems') problems.push(...message.problems);
    else failure = new ManifestError(message.line, message.reason);
  });
  await once(worker, 'exit');
  if (failure !== undefined) throw failure;
  const found: RawManifest[] = [];
  for (const { json, line } of texts) {
    if (pacer.due) await pacer.rest();
    found.push({ raw: JSON.parse(json), line });
  }
  return { found, problems };
}
