/** A batch of one change is in force: received, resolved, encoded, applied. */
export const committed = {
  kind: 'committed',
  family: 'IPv4',
  purpose: 'changes',
  forwardings: 1,
  writes: 3,
  bytes: 300,
  applyMs: 4,
  stages: { receivedMs: 100, resolvedMs: 101, encodedMs: 103, committedMs: 107 },
  triggerTimesMs: [],
} as const;
