/** The result of one check of a node before an installation. */

const levels = ['ok', 'warning', 'problem'] as const;
/** `warning`: Fairlead runs, but an operator should know. `problem`: it cannot do its work. */
type Level = (typeof levels)[number];

export interface Finding {
  /** What was checked: `mode nftables`, `port 10256`. */
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
