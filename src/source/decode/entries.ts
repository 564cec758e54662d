const entriesAStep = 256;

/** Whether this entry of a list is the first of another step. Each takes some 0.5 ms. */
export function endsStep(index: number): boolean {
  return index % entriesAStep === entriesAStep - 1;
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
