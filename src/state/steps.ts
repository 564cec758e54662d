/**
 * Work in steps, between which the event loop serves others. Most work is small: it is done in the
 * step of its caller. Only large work is a generator, because making and resuming one takes
 * as much time and memory as decoding a small object.
 */
import { EndpointList, endpointBytes } from '../net/endpoint-list.ts';

/** Work whose steps `yield*` takes in a generator, and whose result is the value of that. */
export interface Steps<T> extends Iterator<undefined, T, undefined> {
  [Symbol.iterator](): Iterator<undefined, T, undefined>;
}

/** Work that is over. */
class Done<T> implements Steps<T> {
  readonly done = true;
  readonly value: T;

  constructor(value: T) {
    this.value = value;
  }

  next(): this {
    return this;
  }

  [Symbol.iterator](): this {
    return this;
  }
}

/** The result of work that took no step of its own. */
export function done<T>(value: T): Steps<T> {
  return new Done(value);
}

/** Work whose result is `undefined`, and that is over. */
export const noSteps = done(undefined);

/** Continues with the result of `first`. */
export function after<T, U>(first: Steps<T>, next: (value: T) => Steps<U>): Steps<U> {
  return first instanceof Done ? next(first.value as T) : afterSteps(first, next);
}

function* afterSteps<T, U>(
  first: Steps<T>,
  next: (value: T) => Steps<U>,
): Generator<undefined, U, undefined> {
  return yield* next(yield* first);
}

/** The results of all, one after the other. */
export function all<T extends readonly unknown[]>(
  parts: {
    readonly [K in keyof T]: Steps<T[K]>;
  },
): Steps<T> {
  const values: unknown[] = [];
  for (const part of parts) if (part instanceof Done) values.push(part.value);
  return values.length === parts.length ? done(values as unknown as T) : allSteps<T>(parts);
}

function* allSteps<T extends readonly unknown[]>(
  parts: readonly Steps<unknown>[],
): Generator<undefined, T, undefined> {
  const values: unknown[] = [];
  for (const part of parts) values.push(yield* part);
  return values as unknown as T;
}

/** The work that `begin` begins, or what `handle` makes of an error of it. */
export function caught<T>(begin: () => Steps<T>, handle: (error: unknown) => T): Steps<T> {
  try {
    const steps = begin();
    return steps instanceof Done ? steps : caughtSteps(steps, handle);
  } catch (error) {
    return done(handle(error));
  }
}

function* caughtSteps<T>(
  steps: Steps<T>,
  handle: (error: unknown) => T,
): Generator<undefined, T, undefined> {
  try {
    return yield* steps;
  } catch (error) {
    return handle(error);
  }
}

/** Calls `work` for each index below `count`, `aStep` times in each step. */
export function each(
  count: number,
  aStep: number,
  work: (index: number) => void,
): Steps<undefined> {
  if (count > aStep) return eachInSteps(count, aStep, work);
  for (let i = 0; i < count; i += 1) work(i);
  return noSteps;
}

function* eachInSteps(
  count: number,
  aStep: number,
  work: (index: number) => void,
): Generator<undefined, undefined, undefined> {
  for (let i = 0; i < count; i += 1) {
    if (i > 0 && i % aStep === 0) yield;
    work(i);
  }
  return undefined;
}

/** Takes all steps without a pause. */
export function finish<T>(steps: Steps<T>): T {
  for (;;) {
    const { done: isOver, value } = steps.next();
    if (isOver) return value;
  }
}

/** One of each queue after the other, until all are empty. */
export function* alternating<T>(queues: readonly Iterator<T>[]): Generator<T> {
  let waiting = queues;
  while (waiting.length > 0) {
    const more: Iterator<T>[] = [];
    for (const queue of waiting) {
      const next = queue.next();
      if (next.done) continue;
      more.push(queue);
      yield next.value;
    }
    waiting = more;
  }
}

/** The number of endpoints that are copied in one step. */
const copiesAStep = 4096;

/** Like `EndpointList.picked`, in steps: a list of `length` endpoints, by their indexes in `list`. */
export function* pickedInSteps(
  list: EndpointList,
  length: number,
  indexAt: (place: number) => number,
): Generator<undefined, EndpointList> {
  const stride = endpointBytes[list.family];
  const bytes = new Uint8Array(length * stride);
  for (let at = 0; at < length; at += 1) {
    if (at % copiesAStep === 0) yield;
    list.copy(indexAt(at), bytes, at * stride);
  }
  return EndpointList.from(list.family, bytes);
}
