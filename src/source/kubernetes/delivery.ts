import type { Resource } from '../../state/change.ts';
import { objectOf } from '../decode/field-reader.ts';
import { type DecodeContext, decodeChange, goneChange, keyOfChange, keyOfRaw } from '../decode.ts';
import type { SourceSink } from '../source.ts';

/** Receives the objects of one resource from lists and watches. */
export interface ObjectDelivery {
  /** The number of objects. */
  readonly size: number;
  /** Undefined: it has none. */
  keyOf(raw: unknown): string | undefined;
  /** Delivers an object that exists. Returns its key; undefined if it has none. */
  put(raw: unknown): string | undefined;
  remove(key: string): void;
  /** Deletes all objects except those with these keys, which a complete list contained. */
  retain(keys: ReadonlySet<string>): void;
}

/**
 * Delivers the objects of one resource: without repetitions, and with deletions that were missed.
 */
export class Delivery implements ObjectDelivery {
  readonly #resource: Resource;
  readonly #context: DecodeContext;
  readonly #sink: SourceSink;
  /** resourceVersion of each delivered object, by key. */
  readonly #versions = new Map<string, string>();

  constructor(resource: Resource, context: DecodeContext, sink: SourceSink) {
    this.#resource = resource;
    this.#context = context;
    this.#sink = sink;
  }

  get size(): number {
    return this.#versions.size;
  }

  keyOf(raw: unknown): string | undefined {
    return keyOfRaw(this.#resource, raw);
  }

  put(raw: unknown): string | undefined {
    const key = this.keyOf(raw);
    const version = resourceVersionOf(raw);
    if (key !== undefined && version !== '' && this.#versions.get(key) === version) return key;
    const { change, problems } = decodeChange(this.#resource, raw, this.#context);
    if (key !== undefined && change !== undefined) {
      // The record's own key string: an equal one would be kept in memory in addition to it.
      this.#versions.set(keyOfChange(change), version);
      this.#sink.change(change);
    } else if (key !== undefined) {
      // It is not relevant, or no longer.
      this.remove(key);
    }
    // Last: an event about the object names its uid.
    for (const problem of problems) this.#sink.problem(problem);
    return key;
  }

  /** Undefined: the object was not delivered, or has no resourceVersion. */
  revision(key: string): string | undefined {
    return this.#versions.get(key) || undefined;
  }

  remove(key: string): void {
    if (this.#versions.delete(key)) this.#sink.change(goneChange(this.#resource, key));
  }

  retain(keys: ReadonlySet<string>): void {
    for (const key of this.#versions.keys()) {
      if (!keys.has(key)) this.remove(key);
    }
  }
}

/** Opaque; empty if absent. */
export function resourceVersionOf(raw: unknown): string {
  const version = objectOf(objectOf(raw).metadata).resourceVersion;
  return typeof version === 'string' ? version : '';
}
