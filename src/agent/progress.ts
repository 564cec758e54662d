/** Returns whether a part has nothing left to do. */
type Part = () => boolean;

/**
 * Whether everything that the source has delivered so far is in force in the kernel, or in
 * quarantine. Each part that knows it is asked itself.
 */
export class Progress {
  readonly #lasting: readonly Part[];
  /** Parts of the engine that runs; undefined: none does, or another is about to replace it. */
  #parts: readonly Part[] | undefined;

  /** `lasting`: parts that outlive engines. */
  constructor(lasting: readonly Part[]) {
    this.#lasting = lasting;
  }

  get upToDate(): boolean {
    if (this.#parts === undefined) return false;
    return [...this.#lasting, ...this.#parts].every((isDone) => isDone());
  }

  /** An engine runs, with these parts; undefined: it is about to be replaced. */
  follow(parts: readonly Part[] | undefined): void {
    this.#parts = parts;
  }
}
