/** Rules that packets have matched, as text: their position and contents. */
import { chainText, ruleText } from '../../kernel/rule-text.ts';
import type { TraceEvent } from './headers.ts';
import type { Rule } from './ruleset.ts';

/** `rule 12 of chain inet firewalld filter_FORWARD: tcp dport 8080 drop` */
export function placeOfRule(event: TraceEvent, rule: Rule | undefined): string {
  const text = rule === undefined ? '' : ruleText(event.family, rule);
  const comment = rule === undefined || rule.comment === '' ? '' : ` "${rule.comment}"`;
  const place = `rule ${event.rule} of chain ${chainText(event)}`;
  return text === '' ? place : `${place}: ${text}${comment}`;
}

/** Whether it answers with an error, which the kernel reports as a drop. */
export function refuses(rule: Rule | undefined): boolean {
  return (
    rule?.expressions.some(
      (one) => one.kind === 'reject' || (one.kind === 'target' && one.name === 'REJECT'),
    ) ?? false
  );
}
