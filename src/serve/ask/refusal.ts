/** Why a question has no answer, with the status code of HTTP. */
export class Refusal extends Error {
  readonly status: number;
  /** Candidates, if the question is ambiguous. */
  readonly candidates: readonly string[] | undefined;

  constructor(status: number, reason: string, candidates?: readonly string[]) {
    super(reason);
    this.status = status;
    this.candidates = candidates;
  }
}

/** Whether the parameter has the only value that it may have. Throws a Refusal. */
export function isAsked(query: URLSearchParams, name: string, only = 'true'): boolean {
  const value = query.get(name);
  if (value === null || value === only) return value !== null;
  throw new Refusal(400, `${name} must be ${only}, not "${value}"`);
}

/** The number in a parameter, from 1 to `most`. Throws a Refusal. */
export function numberOf(
  query: URLSearchParams,
  name: string,
  { standard, most }: { readonly standard: number; readonly most: number },
): number {
  const text = query.get(name);
  if (text === null) return standard;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= most) return value;
  throw new Refusal(400, `${name} must be a number from 1 to ${most}, not "${text}"`);
}
