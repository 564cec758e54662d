/** Problems of Services: what `fairlead problems` prints, and what to do. */
import { reasonSections, reasonWords } from '../../ask/problem-reasons.ts';
import type { ProblemList } from '../../ask/problems.ts';
import { type Content, html } from './html.ts';
import { list, runbookLink, servicePath } from './parts.ts';

/** The most Services that are named. */
export const namedMax = 5;

export function serviceProblems({ continue: more, items }: ProblemList): Content {
  if (items.length === 0) return undefined;
  const all = items.flatMap(({ name, namespace, problems }) =>
    problems.map(({ reason, text }) => {
      const service = html`<a href="${servicePath(namespace, name)}">${namespace}/${name}</a>`;
      const link = runbookLink(reasonSections[reason]);
      return html`${service} <strong class="bad">${reasonWords(reason)}</strong> ${text} ${link}`;
    }),
  );
  const rest = html`<p><a href="/?state=unhealthy#services">All Services with problems</a></p>`;
  return [html`<h2 id="problems">Problems of Services</h2>`, list(all), more && rest];
}
