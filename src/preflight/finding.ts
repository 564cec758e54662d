/** What a look at a node before an installation has found. */

export const levels = ['ok', 'warning', 'problem'] as const;
/** `warning`: it runs, but somebody should know; `problem`: it can't do its work. */
export type Level = (typeof levels)[number];

export interface Finding {
  /** What was looked at: `mode nftables`, `port 10256`. */
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

/** The worst of all; `ok` where there are none. */
export function worst(findings: readonly Finding[]): Level {
  return levels.findLast((level) => findings.some((one) => one.level === level)) ?? 'ok';
}
