/** Work in steps, each of which is a turn of a generator. */
import { EndpointList, endpointBytes } from '../net/endpoint-list.ts';

/** Runs all steps of a generator without a pause. */
export function finish<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
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
