/** What becomes of a packet: the question and the answer. */
import type { Explanation } from '../../ask/explanation.ts';
import { explainedOf, explanationBlocks, isDelivered } from '../../ask/views/explanation.ts';
import { type Html, html } from './html.ts';
import { blocksHtml, runbookLink } from './parts.ts';

export function explainForm(to: string, from: string): Html {
  return html`<h2 id="explain">What becomes of a packet?</h2>
<form action="/" aria-label="Explain">
<label>To <input name="to" value="${to}" required autocomplete="off" placeholder="NAMESPACE/NAME:PORT or ADDRESS:PORT"></label>
<label>From <input name="from" value="${from}" autocomplete="off" placeholder="pod, node, outside or an address"></label>
<button>Explain</button>
</form>
`;
}

export function explanationSection(answer: Explanation, to: string, from: string): Html {
  const failed = explainedOf(answer).find((one) => !isDelivered(one));
  return html`${explainForm(to, from)}<section>
${failed && html`<p>${runbookLink(sections[failed.from.kind])}</p>`}
${blocksHtml(explanationBlocks(answer, true), 0)}</section>
`;
}

/** Sections of docs/runbook.md, by client. */
const sections = { pod: 'from-a-pod', node: 'from-the-node', outside: 'from-outside' } as const;
