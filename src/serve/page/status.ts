/** The health of this node's proxy on the page: one sentence, then the problems. */
import type { ProblemList } from '../../ask/problems.ts';
import type { ChangeList } from '../../ask/service.ts';
import type { Status } from '../../ask/status.ts';
import { familiesTable, setAsideTable, statusFacts, watchesTable } from '../../ask/views/status.ts';
import { age, counted, grouped } from '../../ask/words.ts';
import { type Content, type Html, html } from './html.ts';
import { facts, list, live, problemList, runbookLink, table } from './parts.ts';
import { serviceProblems } from './problems.ts';

type Change = ChangeList['items'][number];

/** `services`: those with problems. */
export function verdict(
  status: Status,
  services: ProblemList,
  last: Change | undefined,
  nowMs: number,
): Html {
  const { problems, remarks, runbook, setAside, healthy } = status;
  const troubled = troubledServices(status);
  const sentence = healthy
    ? html`<strong class="good">Proxy healthy.</strong> ${summary(status)}${lastChange(last, nowMs)}.`
    : html`<strong class="bad">Proxy unhealthy.</strong> ${problems[0]} ${runbookLink(runbook[0]!)}${troubled && ['. ', troubled, '.']}`;
  return live('status', [
    html`<p class="verdict${healthy ? '' : ' bad'}">${sentence}</p>`,
    problems.length > 1 ? problemList(problems.slice(1), runbook.slice(1)) : undefined,
    serviceProblems(services),
    remarks.length > 0 ? html`<h2>Worth knowing</h2>${list(remarks)}` : undefined,
    setAside.length > 0
      ? [html`<h2>Refused by the kernel</h2>`, table(setAsideTable(status), nowMs)]
      : undefined,
  ]);
}

function summary(status: Status): Content {
  const { families, services } = status;
  const { known } = services;
  const waiting = Math.max(services.waiting, ...families.map((family) => family.waiting));
  const wait = `${grouped(waiting)} of ${counted(known, 'Service')} wait`;
  const troubled = troubledServices(status);
  if (troubled !== undefined) return waiting > 0 ? [troubled, `; ${wait}`] : troubled;
  if (waiting > 0) return wait;
  return known === 1
    ? 'The only Service is in force'
    : `All ${counted(known, 'Service')} are in force`;
}

/** `6 Services have problems`; undefined if there are none. */
function troubledServices({ services: { withProblems } }: Status): Html | undefined {
  if (withProblems === 0) return undefined;
  const text = `${counted(withProblems, 'Service')} ${withProblems === 1 ? 'has' : 'have'} problems`;
  return html`<a href="/?state=unhealthy#services">${text}</a>`;
}

function lastChange(change: Change | undefined, nowMs: number): string {
  if (change?.latencyMs === undefined) return '';
  const since = age((nowMs - Date.parse(change.time)) / 1000);
  return `; the last change, ${since} ago, took ${change.latencyMs} ms`;
}

/** The other facts about the node. */
export function nodeSection(status: Status, nowMs: number): Html {
  return live('node', [
    html`<h2>This node</h2>`,
    facts(statusFacts(status), nowMs),
    html`<h3>Families</h3>`,
    table(familiesTable(status), nowMs),
    ...(status.watches.length > 0
      ? [html`<h3>Watches</h3>`, table(watchesTable(status), nowMs)]
      : []),
  ]);
}
