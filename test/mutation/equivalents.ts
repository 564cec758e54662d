/** Mutants whose results are the same, and why. */
export const equivalents: readonly {
  readonly file: string;
  readonly name: string;
  readonly why: string;
}[] = [
  {
    file: 'src/conntrack/policy.ts',
    name: 'if (!made.has(forwarding)) made.set(forwarding, make(forwarding)); | !made.has(forwarding) -> true',
    why: 'Computes again what is kept: the same, later.',
  },
  {
    file: 'src/conntrack/policy.ts',
    name: 'return listNames.every((name) => a[name].equals(b[name])); | listNames.every((name) => a[name].equals(b[name])) -> undefined',
    why: 'Compares what is the same endpoint by endpoint: the same, later.',
  },
  {
    file: 'src/conntrack/reconciler.ts',
    name: 'if (at > 0) await clock.turn(); | at > 0 -> at >= 0',
    why: 'One more turn of the event loop before the first deletions.',
  },
  {
    file: 'src/sync/family.ts',
    name: "signal.addEventListener('abort', stop, { once: true }); | true -> false",
    why: 'A signal aborts once.',
  },
  {
    file: 'src/sync/tracked.ts',
    name: 'if (holders.size === 0) continue; | continue; -> ',
    why: 'Looks for frontends where there are none.',
  },
];
