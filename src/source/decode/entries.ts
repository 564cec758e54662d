import { after, done, each, type Steps } from '../../state/steps.ts';

/** The number of entries that are read in one step, which takes some 0.5 ms. */
export const entriesAStep = 256;

/** Calls `read` for each entry of a list. */
export function eachEntry<E>(
  list: readonly E[],
  read: (entry: E, index: number) => void,
): Steps<undefined> {
  return each(list.length, entriesAStep, (i) => read(list[i]!, i));
}

/** What `read` makes of each entry of a list, without those of which it makes nothing. */
export function readEntries<E, T>(
  list: readonly E[],
  read: (entry: E, index: number) => T | undefined,
): Steps<T[]> {
  const found: T[] = [];
  const steps = eachEntry(list, (entry, i) => {
    const one = read(entry, i);
    if (one !== undefined) found.push(one);
  });
  return after(steps, () => done(found));
}

/**
 * The most entries that are read of each list, in every encoding: a decoded entry takes up to
 * twenty times its size in the object. The rest of the list is left out, and a problem of the field
 * says so. The object is not refused: a tenant can store it, and lists of objects must be complete.
 */
export const entriesMax = {
  /** Of a Service or a slice. An object of 1.5 MiB has room for 55,000. */
  ports: 65_536,
  /** The API allows 1,000. */
  endpoints: 20_000,
  /** External IPs, those of a load balancer, and those of a Node. */
  addresses: 10_000,
  sourceRanges: 20_000,
  /** Hints, taints, CIDRs, and whatever else has some entries. */
  others: 1000,
} as const;
