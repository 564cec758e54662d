/** What a family does after a failure. docs/internals/code.md is made from it. */

/** What is known of a failure. */
interface FailureFacts {
  /** What failed was a sync, not a repair. */
  readonly isSync: boolean;
  /** A part of the batch may be in force. */
  readonly isPartly: boolean;
  /** Forwardings are to blame, and all of them are in quarantine. */
  readonly isContained: boolean;
  /** The kernel is not as we thought. */
  readonly isContradiction: boolean;
  /** That is because another program has written. */
  readonly isMoved: boolean;
  /** Another process has what is needed. */
  readonly isHeld: boolean;
}

/** When the kernel is read and repaired. */
export type RepairTime = 'in 250 ms' | 'when repairs may take time again' | 'after a growing delay';

interface FailureRow {
  readonly facts: Partial<FailureFacts>;
  /** Undefined: all but what is in quarantine is planned again. */
  readonly repairs: RepairTime | undefined;
  /** Syncs continue while an audit compares. */
  readonly compares: boolean;
  readonly what: string;
}

const known = { isSync: true, isPartly: false, isContained: true } as const;

/** The first row whose facts are true applies. */
export const failureTable: readonly FailureRow[] = [
  {
    facts: { ...known, isContradiction: false },
    repairs: undefined,
    compares: false,
    what: 'The kernel refuses Forwardings of a sync as a whole',
  },
  {
    facts: known,
    repairs: undefined,
    compares: true,
    what: 'The same, again and again, because an object is missing, exists already or is full',
  },
  {
    facts: { isHeld: true },
    repairs: 'in 250 ms',
    compares: false,
    what: 'Another process has what is needed',
  },
  {
    facts: { isMoved: true },
    repairs: 'when repairs may take time again',
    compares: false,
    what: 'An object is missing, exists already or is full, and another program has written',
  },
  {
    facts: {},
    repairs: 'after a growing delay',
    compares: false,
    what: 'Anything else: a repair failed, a part is in force, or no Forwarding is to blame',
  },
];

export function afterFailure(facts: FailureFacts): FailureRow {
  const applies = (row: FailureRow): boolean =>
    Object.entries(row.facts).every(([name, is]) => facts[name as keyof FailureFacts] === is);
  return failureTable.find(applies)!;
}
