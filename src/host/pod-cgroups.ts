/** Finds the cgroups of pods, by the names that a kubelet gives to their folders. */
import { type FSWatcher, readdirSync, statSync, watch } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';

/** Programs look no deeper (`kDepthMax` in native/bpf/connect.bpf.c). */
const depthMax = 16;
/** Folders read before the event loop gets a turn; reading one takes 10 to 100 µs. */
const foldersPerTurn = 32;
/** How long a search of the whole hierarchy is good for, once it has found folders. */
const searchPeriodMs = 60_000;

/** `kubepods.slice`; `kubepods` where systemd does not make them; both may have a prefix. */
const top = /(?:^|-)kubepods(?:\.slice)?$/;
/** `kubepods-burstable.slice`, `burstable` */
const qualityOfService = /(?:^|-)(?:burstable|besteffort)(?:\.slice)?$/;
/** `kubepods-pod6f1c8a5e_0d3b.slice`, `pod6f1c8a5e-0d3b` */
const ofPod = /(?:^|-)pod([0-9a-f_-]+)(?:\.slice)?$/;

function podIdOf(folder: string): string | undefined {
  return ofPod.exec(folder)?.[1]?.replaceAll('_', '-');
}

export class PodCgroups {
  readonly #root: string;
  readonly #changed: () => void;
  /** Folders that hold those of pods; undefined if the kernel does not report them. */
  readonly #folders = new Map<string, FSWatcher | undefined>();
  #searchedAtMs = Number.NEGATIVE_INFINITY;
  #looked = 0;

  /** `changed` is called when cgroups of pods may have come or gone. */
  constructor(root: string, changed: () => void) {
    this.#root = root;
    this.#changed = changed;
  }

  /** The numbers of the cgroups of these pods, by what the kubelet calls a pod. */
  async find(ids: ReadonlySet<string>): Promise<ReadonlyMap<string, readonly bigint[]>> {
    const found = await this.#read(ids);
    if (found.size === ids.size) return found;
    const known = this.#folders.size;
    if (known > 0 && performance.now() - this.#searchedAtMs < searchPeriodMs) return found;
    this.#searchedAtMs = performance.now();
    await this.#search(this.#root, 1);
    return this.#folders.size === known ? found : this.#read(ids);
  }

  close(): void {
    for (const path of this.#folders.keys()) this.#forget(path);
  }

  async #read(ids: ReadonlySet<string>): Promise<Map<string, bigint[]>> {
    const found = new Map<string, bigint[]>();
    for (const path of this.#folders.keys()) {
      for (const name of await this.#foldersIn(path)) {
        const id = podIdOf(name);
        if (id === undefined || !ids.has(id)) continue;
        await this.#rest();
        const number = numberOf(join(path, name));
        if (number !== undefined) found.set(id, [...(found.get(id) ?? []), number]);
      }
    }
    return found;
  }

  async #search(path: string, depth: number): Promise<void> {
    for (const name of await this.#foldersIn(path)) {
      if (top.test(name)) await this.#keepAll(join(path, name));
      else if (depth < depthMax) await this.#search(join(path, name), depth + 1);
    }
  }

  /** The pods that are guaranteed what they ask for are in `path` itself. */
  async #keepAll(path: string): Promise<void> {
    const classes = (await this.#foldersIn(path)).filter((name) => qualityOfService.test(name));
    for (const folder of [path, ...classes.map((name) => join(path, name))]) this.#keep(folder);
  }

  #keep(path: string): void {
    if (this.#folders.has(path)) return;
    try {
      const watcher = watch(path, this.#changed);
      watcher.on('error', () => this.#forget(path));
      this.#folders.set(path, watcher);
    } catch {
      // There may be too many watches on this machine: who asks again later finds it, too.
      this.#folders.set(path, undefined);
    }
  }

  #forget(path: string): void {
    this.#folders.get(path)?.close();
    this.#folders.delete(path);
  }

  /** Names of folders; none where there is no such folder any more. */
  async #foldersIn(path: string): Promise<string[]> {
    await this.#rest();
    try {
      const entries = readdirSync(path, { withFileTypes: true });
      return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    } catch {
      this.#forget(path);
      return [];
    }
  }

  async #rest(): Promise<void> {
    this.#looked += 1;
    if (this.#looked % foldersPerTurn === 0) await setImmediate();
  }
}

/** The number of a folder of cgroup2 is its id (kernfs_id). Undefined: it has gone. */
function numberOf(path: string): bigint | undefined {
  try {
    return statSync(path, { bigint: true }).ino;
  } catch {
    return undefined;
  }
}
