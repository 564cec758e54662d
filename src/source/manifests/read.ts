/** Reads manifests without blocking the event loop: large ones on a thread. */
import { once } from 'node:events';
import { extname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Pacer } from '../../time/pacer.ts';
import { type Findings, flatten, type RawManifest } from './flatten.ts';
import { parseManifest } from './parse.ts';

/** Files up to this size are parsed on this thread, which takes 5 ms for YAML. */
export const bytesHereMax = 8 * 1024;
/** The heap of the thread. A file that needs more is refused, and the process continues. */
const heapMegabytesMax = 1024;

interface ReadManifest extends Findings {
  readonly found: readonly RawManifest[];
}

/** A message from the thread, with some of the objects. */
export type ThreadMessage =
  /** Objects as JSON: they are parsed on this thread one by one. */
  | { readonly kind: 'objects'; readonly objects: readonly { json: string; line: number }[] }
  /** The last message of a file. */
  | { readonly kind: 'findings'; readonly findings: Findings };

export interface ThreadOrder {
  readonly file: string;
  readonly bytes: Uint8Array;
}

/**
 * The objects of a file. Rejects if the thread ended. `bytes` must not be used afterwards.
 */
export async function readManifest(
  file: string,
  bytes: Buffer,
  pacer: Pacer,
): Promise<ReadManifest> {
  if (bytes.length > bytesHereMax) return readOnThread(file, bytes, pacer);
  const findings: Findings = { problems: [], unreadable: [] };
  const found = [...flatten(file, parseManifest(file, bytes), findings)];
  return { found, ...findings };
}

async function readOnThread(file: string, bytes: Buffer, pacer: Pacer): Promise<ReadManifest> {
  const script = `parse-thread${extname(import.meta.filename)}`;
  const order: ThreadOrder = { file, bytes };
  const worker = new Worker(join(import.meta.dirname, script), {
    workerData: order,
    transferList: [bytes.buffer as ArrayBuffer],
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytesMax },
  });
  // It may take seconds, and must not keep the process from ending.
  worker.unref();
  const texts: { json: string; line: number }[] = [];
  let findings: Findings | undefined;
  worker.on('message', (message: ThreadMessage) => {
    if (message.kind === 'objects') texts.push(...message.objects);
    else findings = message.findings;
  });
  // Rejects with the thread's exception, or with the failure to start it.
  const [code] = await once(worker, 'exit');
  if (findings === undefined) throw new Error(`its thread has ended with code ${code}`);
  const found: RawManifest[] = [];
  for (const { json, line } of texts) {
    if (pacer.due) await pacer.rest();
    found.push({ raw: JSON.parse(json), line });
  }
  return { found, ...findings };
}
