import type { BigIntStats } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { type Resource, resources } from '../../state/change.ts';
import { Pacer } from '../../time/pacer.ts';
import { type DecodeContext, decodeContext, goneChange } from '../decode.ts';
import { DirectoryWatcher } from '../directory-watcher.ts';
import { describeFileError } from '../file-error.ts';
import type { Lookup } from '../lookup.ts';
import type { Condition, Source, SourceSink } from '../source.ts';
import { graceMs, ManifestDirectory } from './directory.ts';
import { ManifestLookup } from './lookup.ts';
import type { ManifestObject } from './objects.ts';

/** How often files that are being written are read again at the start. */
const settleAttemptsMax = 20;

interface ManifestSourceOptions {
  /** The directory with `*.yaml`, `*.yml` and `*.json`. Folders in it are not read. */
  readonly directory: string;
  /** This node's name: only its Node is delivered, and endpoints on it are local. */
  readonly nodeName: string;
  /** How often files are checked without an event. Default 2000. */
  readonly rescanMs?: number;
}

/** Rejects with the reason when a directory of manifests cannot be read. */
export async function checkDirectory(path: string): Promise<void> {
  await readdir(path).catch((error: unknown) => {
    throw unreadable(path, describeFileError(error));
  });
}

function unreadable(path: string, reason: string): Error {
  return new Error(`manifests directory ${path}: ${reason}`);
}

/**
 * Services, EndpointSlices, the Node and ServiceCIDRs from a directory of manifests. Changes are
 * applied within 100 ms. A broken file is reported with its line, and its last valid content stays
 * in force. Of two files with the same object, the first by name wins.
 */
export class ManifestSource implements Source {
  readonly #path: string;
  readonly #context: DecodeContext;
  readonly #directory: ManifestDirectory;
  readonly #pacer = new Pacer();
  readonly #watcher: DirectoryWatcher;
  /** The changes passed to the sink, by `resource/key`. */
  #delivered = new Map<string, ManifestObject>();
  /** Pairs of files with the same object that were reported. */
  #clashes = new Set<string>();
  #outage: string | undefined;
  readonly lookup: Lookup;
  #scannedAtMs: number | undefined;

  constructor({ directory, nodeName, rescanMs = 2000 }: ManifestSourceOptions) {
    this.#path = directory;
    this.lookup = new ManifestLookup(directory);
    this.#context = decodeContext(nodeName);
    this.#directory = new ManifestDirectory(directory, this.#context, this.#pacer);
    this.#watcher = new DirectoryWatcher(directory, rescanMs);
  }

  /** Rejects when the directory cannot be read at the start. */
  async run(sink: SourceSink, signal: AbortSignal): Promise<void> {
    try {
      let unsettled = await this.#scan(new Set(), sink, 'fail');
      for (let i = 0; unsettled && i < settleAttemptsMax && !signal.aborted; i += 1) {
        unsettled = await this.#scan(await this.#watcher.next(signal, graceMs), sink, 'fail');
      }
      await this.#deliver(sink);
      for (const resource of resources) sink.synced(resource);
      while (!signal.aborted) {
        const hinted = await this.#watcher.next(signal, unsettled ? graceMs : undefined);
        if (signal.aborted) return;
        unsettled = await this.#scan(hinted, sink, 'survive');
        await this.#deliver(sink);
      }
    } finally {
      this.#watcher.close();
    }
  }

  /** Files have no versions. */
  revision(): undefined {
    return undefined;
  }

  /** Files are not from an API server. */
  server(): undefined {
    return undefined;
  }

  serverVersion(): undefined {
    return undefined;
  }

  /** All resources are in one directory. */
  condition(_resource: Resource): Condition {
    const silenceMs =
      this.#scannedAtMs === undefined ? undefined : performance.now() - this.#scannedAtMs;
    return { silenceMs, missingMs: undefined, failure: this.#outage };
  }

  /** Whether a file is unsettled. */
  async #scan(
    hinted: ReadonlySet<string>,
    sink: SourceSink,
    onOutage: 'fail' | 'survive',
  ): Promise<boolean> {
    try {
      // Watches first and reads then, so that a change in between causes an event.
      const watched = this.#follow(await stat(this.#path, { bigint: true }), sink);
      const { problems, state } = await this.#directory.scan(hinted);
      for (const problem of problems) sink.problem(problem);
      if (watched === 'watched') this.#outage = undefined;
      this.#scannedAtMs = performance.now();
      return state === 'unsettled';
    } catch (error) {
      const reason = describeFileError(error);
      if (onOutage === 'fail') throw unreadable(this.#path, reason);
      this.#report(sink, `${reason}; what was read last stays in force`);
      return false;
    }
  }

  #follow({ ino }: BigIntStats, sink: SourceSink): 'watched' | 'unwatched' {
    try {
      this.#watcher.follow(ino);
      return 'watched';
    } catch (error) {
      this.#report(sink, `cannot be watched, changes are seen late: ${describeFileError(error)}`);
      return 'unwatched';
    }
  }

  /** Reports once for each outage, not for each scan. */
  #report(sink: SourceSink, reason: string): void {
    if (this.#outage === reason) return;
    this.#outage = reason;
    sink.problem({ subject: this.#path, field: undefined, reason });
  }

  /** Passes the differences between the files and the previous changes to the sink. */
  async #deliver(sink: SourceSink): Promise<void> {
    const desired = await this.#merge(sink);
    for (const [key, { resource }] of this.#delivered) {
      if (this.#pacer.due) await this.#pacer.rest();
      if (!desired.has(key)) sink.change(goneChange(resource, key.slice(resource.length + 1)));
    }
    for (const [key, object] of desired) {
      if (this.#pacer.due) await this.#pacer.rest();
      const delivered = this.#delivered.get(key);
      if (delivered?.change === object.change) continue;
      if (delivered !== undefined && isDeepStrictEqual(delivered.change, object.change)) continue;
      sink.change(object.change);
    }
    this.#delivered = desired;
  }

  async #merge(sink: SourceSink): Promise<Map<string, ManifestObject>> {
    const merged = new Map<string, ManifestObject>();
    const fileOf = new Map<string, string>();
    const clashes = new Set<string>();
    for (const [file, objects] of this.#directory.contents()) {
      for (const [key, object] of objects) {
        if (this.#pacer.due) await this.#pacer.rest();
        const first = fileOf.get(key);
        if (first === undefined) {
          fileOf.set(key, file);
          merged.set(key, object);
          continue;
        }
        const reason = `${key} is in ${first} too; the one there counts`;
        clashes.add(`${file} ${reason}`);
        if (!this.#clashes.has(`${file} ${reason}`)) {
          sink.problem({ subject: file, field: undefined, reason });
        }
      }
    }
    this.#clashes = clashes;
    return merged;
  }
}
