import type { Change, Resource, Taken } from '../../state/change.ts';
import { objectOf } from '../decode/field-reader.ts';
import {
  changeInSteps,
  type DecodeContext,
  type DecodedChange,
  goneChange,
  keyOfChange,
  keyOfRaw,
} from '../decode.ts';
import type { SourceSink } from '../source.ts';

/** Delivers an object once it is decoded. Returns its key; undefined if it has none. */
type Deliver = () => string | undefined;

/** Receives the objects of one resource from lists and watches. */
export interface ObjectDelivery {
  /** The number of objects. */
  readonly size: number;
  /** How often an object was added, changed or deleted by what was delivered. */
  readonly changes: number;
  /** Whether it was delivered, and not left out. */
  has(key: string): boolean;
  /** Undefined: it has none. */
  keyOf(raw: unknown): string | undefined;
  /** Decodes an object that exists, in steps. */
  decode(raw: unknown): Generator<undefined, Deliver>;
  remove(key: string): void;
  /** Deletes all objects except those with these keys, which a complete list contained. */
  retain(keys: ReadonlySet<string>): void;
}

/**
 * Delivers the objects of one resource, with deletions that were missed. An object that is listed
 * again is decoded again: its content may be another one, although its resourceVersion is the same.
 */
export class Delivery implements ObjectDelivery {
  readonly #resource: Resource;
  readonly #context: DecodeContext;
  readonly #sink: SourceSink;
  /** resourceVersion of each delivered object, by key. */
  readonly #versions = new Map<string, string>();
  #changes = 0;
  /** The sink has left out an object, which is not among these. */
  #hasLeftOut = false;

  constructor(resource: Resource, context: DecodeContext, sink: SourceSink) {
    this.#resource = resource;
    this.#context = context;
    this.#sink = sink;
  }

  get size(): number {
    return this.#versions.size;
  }

  get changes(): number {
    return this.#changes;
  }

  has(key: string): boolean {
    return this.#versions.has(key);
  }

  keyOf(raw: unknown): string | undefined {
    return keyOfRaw(this.#resource, raw);
  }

  *decode(raw: unknown): Generator<undefined, Deliver> {
    const decoded = yield* changeInSteps(this.#resource, raw, this.#context);
    return () => this.#put(raw, decoded);
  }

  #put(raw: unknown, { change, problems }: DecodedChange): string | undefined {
    const key = this.keyOf(raw);
    const version = resourceVersionOf(raw);
    const isKnown = key !== undefined && version !== '' && this.#versions.get(key) === version;
    if (key !== undefined && change !== undefined) {
      // The record's own key string: an equal one would be kept in memory in addition to it.
      this.#versions.set(keyOfChange(change), version);
      if (this.#change(change) === 'left out') {
        this.#hasLeftOut = true;
        this.#versions.delete(key);
      }
    } else if (key !== undefined) {
      // It is not relevant, or no longer.
      this.remove(key);
    }
    // Last: an event about the object names its uid.
    if (!isKnown) for (const problem of problems) this.#sink.problem(problem);
    return key;
  }

  /** Undefined: the object was not delivered, or has no resourceVersion. */
  revision(key: string): string | undefined {
    return this.#versions.get(key) || undefined;
  }

  remove(key: string): void {
    const wasDelivered = this.#versions.delete(key);
    if (wasDelivered || this.#hasLeftOut) this.#change(goneChange(this.#resource, key));
  }

  retain(keys: ReadonlySet<string>): void {
    for (const key of this.#versions.keys()) {
      if (!keys.has(key)) this.remove(key);
    }
  }

  #change(change: Change): Taken {
    const taken = this.#sink.change(change);
    if (taken === 'changed') this.#changes += 1;
    return taken;
  }
}

/** Opaque; empty if absent. */
export function resourceVersionOf(raw: unknown): string {
  const version = objectOf(objectOf(raw).metadata).resourceVersion;
  return typeof version === 'string' ? version : '';
}
