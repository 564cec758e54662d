/** Reads the files again for fields that are not kept. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Pacer } from '../../time/pacer.ts';
import type { RawObject } from '../decode/field-reader.ts';
import { keyIn, podNames, podOfSlices, readPod, serviceOfSlice } from '../decode/pod.ts';
import { type FoundPod, type Lookup, LookupError } from '../lookup.ts';
import { isManifest } from './directory.ts';
import { readManifest } from './read.ts';

export class ManifestLookup implements Lookup {
  readonly #directory: string;
  readonly #pacer = new Pacer();

  constructor(directory: string) {
    this.#directory = directory;
  }

  async pod(namespace: string, name: string, signal: AbortSignal): Promise<FoundPod> {
    const key = `${namespace}/${name}`;
    const slices: RawObject[] = [];
    for await (const raw of this.#objects(signal)) {
      if (raw.kind === 'Pod' && keyIn(raw) === key) return readPod(raw);
      if (raw.kind === 'EndpointSlice' && keyIn(raw).startsWith(`${namespace}/`)) slices.push(raw);
    }
    const found = podOfSlices(slices, name);
    if (found !== undefined) return found;
    throw new LookupError(
      'absence',
      `no Pod and no EndpointSlice of ${this.#directory} is about ${key}`,
    );
  }

  async podsOf(
    namespace: string,
    service: string,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>> {
    const slices: RawObject[] = [];
    for await (const raw of this.#objects(signal)) {
      if (raw.kind !== 'EndpointSlice') continue;
      if (serviceOfSlice(raw) === `${namespace}/${service}`) slices.push(raw);
    }
    return podNames(slices);
  }

  async *#objects(signal: AbortSignal): AsyncGenerator<RawObject> {
    const files = await readdir(this.#directory).catch(failIn(this.#directory));
    for (const file of files.filter(isManifest).sort()) {
      signal.throwIfAborted();
      const path = join(this.#directory, file);
      const bytes = await readFile(path).catch(failIn(path));
      const read = await readManifest(file, bytes, this.#pacer).catch(failIn(path));
      for (const { raw } of read.found) yield raw;
      // The answer may be in what cannot be read.
      const [first] = read.unreadable;
      if (first !== undefined) failIn(`${path}:${first.line}`)(new Error(first.reason));
    }
  }
}

function failIn(path: string): (error: Error) => never {
  return (error) => {
    throw new LookupError('source', `${path}: ${error.message}`);
  };
}
