import type { BigIntStats } from 'node:fs';
import { readdir, realpath, stat, statfs } from 'node:fs/promises';
import { resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type Resource, resources } from '../../state/change.ts';
import { kept, listOf, type OneOrMore } from '../../state/one-or-more.ts';
import { systemClock } from '../../time/clock.ts';
import { Pacer, readingSliceMs } from '../../time/pacer.ts';
import { type DecodeContext, decodeContext, goneChange } from '../decode.ts';
import { DirectoryWatcher } from '../directory-watcher.ts';
import { describeFileError } from '../file-error.ts';
import type { Lookup } from '../lookup.ts';
import type { Condition, Source, SourceSink } from '../source.ts';
import { graceMs, ManifestDirectory } from './directory.ts';
import { ManifestLookup } from './lookup.ts';
import type { ManifestObjects } from './objects.ts';

/** Local file systems, by magic number (statfs(2)): ext, xfs, btrfs, tmpfs, overlayfs. */
const local: ReadonlySet<number> = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630,
]);
/** Where events report all changes of files, rescans are rarer by this factor. */
const reportedFactor = 5;

/** How often files that are being written are read again at the start. */
const settleAttemptsMax = 20;

/** `unsettled`: of a file. `reported`: events report whatever is written from now on. */
type Seen = 'unsettled' | 'settled' | 'reported';

/** The objects of each file. */
type Contents = ReadonlyMap<string, ManifestObjects>;

const nothing: ManifestObjects = new Map();
const noFiles: readonly string[] = [];

interface ManifestSourceOptions {
  /** The directory with `*.yaml`, `*.yml` and `*.json`. Folders in it are not read. */
  readonly directory: string;
  /** This node's name: only its Node is delivered, and endpoints on it are local. */
  readonly nodeName: string;
  /** See `KubernetesSourceOptions`. */
  readonly proxyName?: string;
  /** How often files are checked without an event where not all changes are one. Default 2000. */
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
  readonly #pacer = new Pacer(systemClock, readingSliceMs);
  readonly #watcher: DirectoryWatcher;
  /** What was delivered last of each file. */
  #contents: Contents = new Map();
  /** By `resource/key`, the files that have the object, by name. The first one counts. */
  readonly #files = new Map<string, OneOrMore<string>>();
  #outage: string | undefined;
  readonly lookup: Lookup;
  #scannedAtMs: number | undefined;
  /** Until then, the files that events name are all that have changed. */
  #reportedUntilMs = 0;
  /** The longest time until the next scan. */
  readonly #patienceMs: Readonly<Record<Seen, number>>;

  constructor({ directory, nodeName, proxyName, rescanMs = 2000 }: ManifestSourceOptions) {
    this.#path = directory;
    const reported = reportedFactor * rescanMs;
    this.#patienceMs = { unsettled: graceMs, settled: rescanMs, reported };
    this.lookup = new ManifestLookup(directory);
    this.#context = decodeContext(nodeName, proxyName);
    this.#directory = new ManifestDirectory(directory, this.#context, this.#pacer);
    this.#watcher = new DirectoryWatcher(directory, rescanMs);
  }

  /** Rejects when the directory cannot be read at the start. */
  async run(sink: SourceSink, signal: AbortSignal): Promise<void> {
    try {
      let seen = await this.#scan(new Set(), sink, 'fail');
      for (let i = 0; seen === 'unsettled' && i < settleAttemptsMax && !signal.aborted; i += 1) {
        seen = await this.#scan(await this.#watcher.next(signal, graceMs), sink, 'fail');
      }
      await this.#deliver(sink);
      for (const resource of resources) sink.synced(resource);
      while (!signal.aborted) {
        const hinted = await this.#watcher.next(signal, this.#patienceMs[seen]);
        if (signal.aborted) return;
        seen = await this.#scan(hinted, sink, 'survive');
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

  async #scan(
    hinted: ReadonlySet<string>,
    sink: SourceSink,
    onOutage: 'fail' | 'survive',
  ): Promise<Seen> {
    try {
      if (performance.now() < this.#reportedUntilMs && this.#directory.hasAll(hinted)) {
        const { problems, state } = await this.#directory.scanOnly(hinted);
        for (const problem of problems) sink.problem(problem);
        this.#scannedAtMs = performance.now();
        return state === 'plain' ? 'reported' : state;
      }
      // Watches first and reads then, so that a change in between causes an event.
      const watched = this.#follow(await stat(this.#path, { bigint: true }), sink);
      const { problems, state } = await this.#directory.scan(hinted);
      for (const problem of problems) sink.problem(problem);
      if (watched === 'watched') this.#outage = undefined;
      this.#scannedAtMs = performance.now();
      if (state === 'unsettled') return state;
      const isReported = state === 'plain' && watched === 'watched' && (await this.#isLocal());
      this.#reportedUntilMs = isReported ? this.#scannedAtMs + this.#patienceMs.reported : 0;
      return isReported ? 'reported' : 'settled';
    } catch (error) {
      const reason = describeFileError(error);
      if (onOutage === 'fail') throw unreadable(this.#path, reason);
      this.#report(sink, `${reason}; what was read last stays in force`);
      return 'settled';
    }
  }

  /** The path has no symbolic links, and no other machine writes the directory. */
  async #isLocal(): Promise<boolean> {
    const isReal = (await realpath(this.#path)) === resolve(this.#path);
    return isReal && local.has((await statfs(this.#path)).type);
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

  /** Passes what differs since the last time to the sink. Only files that have changed are read. */
  async #deliver(sink: SourceSink): Promise<void> {
    const [before, after] = [this.#contents, new Map(this.#directory.contents())];
    const touched = await this.#index(before, after);
    this.#contents = after;
    for (const [key, had] of touched) {
      if (this.#pacer.due) await this.#pacer.rest();
      this.#reportClashes(key, had, sink);
      if (this.#files.has(key)) continue;
      sink.change(goneChange(...split(key)));
    }
    for (const [key, [file]] of touched) {
      if (this.#pacer.due) await this.#pacer.rest();
      const change = after.get(this.#filesOf(key)[0] ?? '')?.get(key)?.change;
      const delivered = before.get(file ?? '')?.get(key)?.change;
      if (change !== undefined && !isDeepStrictEqual(delivered, change)) sink.change(change);
    }
  }

  /** Returns the objects of files that have changed, with the files that had them. */
  async #index(before: Contents, after: Contents): Promise<Map<string, readonly string[]>> {
    const touched = new Map<string, readonly string[]>();
    for (const name of new Set([...after.keys(), ...before.keys()])) {
      const [had = nothing, has = nothing] = [before.get(name), after.get(name)];
      if (had === has) continue;
      for (const objects of [had, has]) {
        for (const key of objects.keys()) {
          if (this.#pacer.due) await this.#pacer.rest();
          const files = this.#filesOf(key);
          if (!touched.has(key)) touched.set(key, files);
          if (had.has(key) === has.has(key)) continue;
          const others = files.filter((one) => one !== name);
          const now = has.has(key) ? [...others, name].sort() : others;
          if (now.length > 0) this.#files.set(key, kept(now));
          else this.#files.delete(key);
        }
      }
    }
    return touched;
  }

  #filesOf(key: string): readonly string[] {
    return listOf(this.#files.get(key) ?? noFiles);
  }

  #reportClashes(key: string, [hadFirst, ...had]: readonly string[], sink: SourceSink): void {
    const [first, ...others] = this.#filesOf(key);
    for (const subject of others) {
      if (first === hadFirst && had.includes(subject)) continue;
      const reason = `${key} is in ${first} too; the one there counts`;
      sink.problem({ subject, field: undefined, reason });
    }
  }
}

function split(key: string): [Resource, string] {
  const at = key.indexOf('/');
  return [key.slice(0, at) as Resource, key.slice(at + 1)];
}
