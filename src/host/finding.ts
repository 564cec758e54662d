/** The result of one check of a node: before an installation, and while the proxy runs. */

const levels = ['ok', 'warning', 'problem', 'fatal'] as const;
/**
 * `warning`: Fairlead runs, but an operator should know. `problem`: something is not done that is
 * asked for. `fatal`: a start fails, too.
 */
type Level = (typeof levels)[number];

export interface Finding {
  /** What was checked: `mode nftables`, `port 10256`; empty: the text says it. */
  readonly check: string;
  readonly level: Level;
  readonly text: string;
  /** What to do about it; empty = nothing. */
  readonly advice: string;
}

export function ok(check: string, text: string): Finding {
  return { check, level: 'ok', text, advice: '' };
}

export function warning(check: string, text: string, advice: string): Finding {
  return { check, level: 'warning', text, advice };
}

export function problem(check: string, text: string, advice: string): Finding {
  return { check, level: 'problem', text, advice };
}

/** The worst level of all findings; `ok` without findings. */
export function worst(findings: readonly Finding[]): Level {
  return levels.findLast((level) => findings.some((one) => one.level === level)) ?? 'ok';
}

/** Of what is not as it should be: what, why and what to do, without a full stop. */
export function findingText({ advice, check, text }: Finding): string {
  const what = check === '' ? text : `${check} ${text}`;
  return advice === '' ? what : `${what}; ${advice}`;
}
