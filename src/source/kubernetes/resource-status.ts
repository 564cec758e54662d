import type { Condition, SourceProblem, SourceSink, Watched } from '../source.ts';

/** What a reflector reports, other than objects. */
export type ReflectorSink = Pick<SourceSink, 'listed' | 'problem'> & {
  /** There was a complete list, or the resource is not available. Called once. */
  synced(resource: Watched): void;
};

/** The status of a reflector's resource, and what was reported about it. */
export class ResourceStatus {
  readonly #resource: Watched;
  readonly #sink: ReflectorSink;
  #askedAtMs: number | undefined;
  #lastWordMs: number | undefined;
  #synced = false;
  #failure: string | undefined;
  /** Reasons that were reported since the last success. */
  readonly #reported = new Set<string>();

  constructor(resource: Watched, sink: ReflectorSink) {
    this.#resource = resource;
    this.#sink = sink;
  }

  get condition(): Condition {
    const nowMs = performance.now();
    const since = (ms: number | undefined) => (ms === undefined ? undefined : nowMs - ms);
    return {
      silenceMs: since(this.#lastWordMs),
      missingMs: this.#synced ? undefined : since(this.#askedAtMs),
      failure: this.#failure,
    };
  }

  /** The first complete list was delivered, or the resource is not available. */
  get synced(): boolean {
    return this.#synced;
  }

  asked(): void {
    this.#askedAtMs ??= performance.now();
    this.#lastWordMs = performance.now();
  }

  /** The server sends something. What it refused before is over, if it does not come back. */
  heard(): void {
    this.#lastWordMs = performance.now();
    this.#failure = undefined;
  }

  markSynced(): void {
    if (this.#synced) return;
    this.#synced = true;
    this.#sink.synced(this.#resource);
  }

  /** The resource is not available: then silence is not a problem. */
  continueWithout(reason: string): void {
    this.report(`not available, continuing without it: ${reason}`);
    this.#lastWordMs = undefined;
    this.markSynced();
  }

  wentWell(): void {
    this.#failure = undefined;
    this.#reported.clear();
  }

  /** Reports each reason once, until the next success. */
  report(reason: string): void {
    this.#failure = reason;
    if (this.#reported.has(reason)) return;
    this.#reported.add(reason);
    this.#send(reason);
  }

  /** That is not a failure of the watch that runs. */
  corrected(objects: number): void {
    this.#send('objects had changed without an event', { corrected: objects });
  }

  #send(reason: string, more: Pick<SourceProblem, 'corrected'> = {}): void {
    this.#sink.problem({ subject: `${this.#resource} watch`, field: undefined, reason, ...more });
  }
}
