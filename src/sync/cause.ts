/** A change from outside on its way into the kernel. */
export interface Cause {
  /** `Clock.now` when the change came, and when its Forwarding was resolved. */
  readonly receivedMs: number;
  readonly resolvedMs: number;
  /** Milliseconds since the epoch. */
  readonly triggerTimesMs: readonly number[];
}

/** What is planned again after a change. Only `DirtyForwardings` changes it. */
export class Due {
  /** It is to be planned. */
  isDirty = false;
  /** Why, and since when, where that came from outside. */
  cause: Cause | undefined = undefined;

  /** Returns why it is planned now. Of a change that came since, that is not known yet. */
  takeCause(): Cause | undefined {
    if (this.isDirty) return undefined;
    const { cause } = this;
    this.cause = undefined;
    return cause;
  }
}

/** Of one batch, the times of at most this many changes are measured. */
const timesMax = 100;

/** The joint cause of two changes of one Forwarding. */
export function joined(earlier: Cause | undefined, later: Cause | undefined): Cause | undefined {
  if (earlier === undefined || later === undefined) return earlier ?? later;
  const triggerTimesMs = [...earlier.triggerTimesMs, ...later.triggerTimesMs].slice(0, timesMax);
  return { ...earlier, triggerTimesMs };
}
