/** Mutants whose results are the same, and why. */
export const equivalents: readonly {
  readonly file: string;
  readonly name: string;
  readonly why: string;
}[] = [];
