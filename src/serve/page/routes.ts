/** The page for people, at `/`. It shows the same answers as programs get, to the same clients. */
import { endpoints } from '../../ask/endpoints.ts';
import type { ChangeList } from '../../ask/service.ts';
import { allChangesTable } from '../../ask/views/service.ts';
import { admitLocal, checkParameters, refusalBy } from '../ask/admission.ts';
import type { AgentState } from '../ask/agent-state.ts';
import { changeListOf } from '../ask/changes.ts';
import { explanationOf } from '../ask/explain/explanation.ts';
import { problemListOf } from '../ask/problem-list.ts';
import { numberOf, Refusal } from '../ask/refusal.ts';
import { serviceOf } from '../ask/service.ts';
import { servicesOf } from '../ask/services.ts';
import { statusOf } from '../ask/status.ts';
import type { Route } from '../reply.ts';
import { explainForm, explanationSection } from './explain.ts';
import { type Html, html } from './html.ts';
import { contentSecurityPolicy } from './look.ts';
import { documentOf, live, table } from './parts.ts';
import { namedMax } from './problems.ts';
import { serviceSection } from './service.ts';
import { filterOf, listQuery, servicesSection } from './services.ts';
import { nodeSection, verdict } from './status.ts';
import { latelySection, tiles } from './tiles.ts';

const headers = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': contentSecurityPolicy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'Cache-Control': 'no-store',
} as const;

const parameters = [
  ...['namespace', 'q', 'state', 'continue', 'changes', 'service', 'more', 'to', 'from', 'runbook'],
];

/** Answers `/`. */
export function pageRoute(agent: AgentState): Route {
  return async (asked) => {
    const refused = refusalBy(() => {
      admitLocal(asked);
      checkParameters(asked, parameters);
    });
    if (refused !== undefined) return refused;
    try {
      return { status: 200, headers, body: await make(agent, asked.query) };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { status: error.status, headers, body: refusalPage(agent, error) };
    }
  };
}

async function make(agent: AgentState, query: URLSearchParams): Promise<string[]> {
  const service = query.get('service');
  if (service !== null) return servicePage(agent, service, query.get('more') === 'true');
  const to = query.get('to');
  if (to !== null) return explainPage(agent, to.trim(), query.get('from')?.trim() ?? '');
  return query.has('runbook') ? runbookPage(agent) : frontPage(agent, query);
}

async function frontPage(agent: AgentState, query: URLSearchParams): Promise<string[]> {
  const filter = filterOf(query);
  const limit = numberOf(query, 'changes', { standard: changesShown, most: changesMost });
  const changes = changeListOf(agent, new URLSearchParams({ limit: String(limit) }));
  const services = await servicesOf(agent, listQuery(filter));
  const status = await statusOf(agent);
  const problems = await problemListOf(agent, new URLSearchParams({ limit: String(namedMax) }));
  const traffic = await agent.counters.read();
  const nowMs = agent.clock.wallMs();
  return documentOf({
    title: `${status.node}: ${status.healthy ? 'healthy' : 'unhealthy'} · Fairlead`,
    node: status.node,
    json: endpoints.status.path,
    body: [
      verdict(status, problems, changes.items[0], nowMs),
      tiles(status, traffic),
      latelySection(agent.eventHistory.recent.lately(), traffic),
      servicesSection(filter, services, traffic, nowMs),
      explainForm('', ''),
      changesSection(changes, nowMs),
      nodeSection(status, nowMs),
    ],
  });
}

async function servicePage(agent: AgentState, key: string, isMore: boolean): Promise<string[]> {
  const at = key.indexOf('/');
  const query = new URLSearchParams({
    ...(at < 0 ? {} : { namespace: key.slice(0, at) }),
    name: key.slice(at + 1),
    ...(isMore ? { pods: 'true', traffic: 'true' } : {}),
  });
  const service = await serviceOf(agent, query);
  return documentOf({
    title: `${key} on ${agent.nodeName} · Fairlead`,
    node: agent.nodeName,
    json: `${endpoints.service.path}?${query}`,
    body: serviceSection(service, isMore, agent.clock.wallMs()),
  });
}

async function explainPage(agent: AgentState, to: string, from: string): Promise<string[]> {
  const query = new URLSearchParams({ to, ...(from === '' ? {} : { from }) });
  const answer = await explanationOf(agent, query);
  return documentOf({
    title: `${to} on ${agent.nodeName} · Fairlead`,
    node: agent.nodeName,
    json: `${endpoints.explain.path}?${query}`,
    body: explanationSection(answer, to, from),
  });
}

async function runbookPage({ nodeName }: AgentState): Promise<string[]> {
  const { runbookSection } = await import('./runbook.ts');
  return documentOf({
    title: 'Runbook · Fairlead',
    node: nodeName,
    json: endpoints.problems.path,
    body: await runbookSection(),
  });
}

function refusalPage({ nodeName }: AgentState, { message }: Refusal): string[] {
  return documentOf({
    title: 'No answer · Fairlead',
    node: nodeName,
    json: endpoints.status.path,
    body: html`<h2>No answer</h2>
<p>${message}</p>
`,
  });
}

const changesShown = 15;
const changesMost = 200;

/** The last changes in the kernel, and how long each took. */
function changesSection(changes: ChangeList, nowMs: number): Html {
  const { length } = changes.items;
  return live('changes', [
    html`<h2>Recent changes</h2>`,
    length === 0 ? html`<p>None yet.</p>` : table(allChangesTable(changes), nowMs),
    length === changesShown
      ? html`<p><a href="/?changes=${changesMost}#changes">More changes</a></p>`
      : undefined,
  ]);
}
