/** The page for people, at `/`. It shows the same answers as programs get, to the same clients. */
import { endpoints } from '../../ask/endpoints.ts';
import type { Explanation } from '../../ask/explanation.ts';
import type { ChangeList, ServiceAnswer } from '../../ask/service.ts';
import { explainedOf, explanationBlocks, isDelivered } from '../../ask/views/explanation.ts';
import { allChangesTable, serviceBlocks, serviceFacts } from '../../ask/views/service.ts';
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
import { type Html, html } from './html.ts';
import { contentSecurityPolicy } from './look.ts';
import {
  blocksHtml,
  documentOf,
  facts,
  live,
  problemList,
  runbookLink,
  servicePath,
  table,
} from './parts.ts';
import { filterOf, listQuery, servicesSection } from './services.ts';
import { latelySection, namedMax, nodeSection, tiles, verdict } from './status.ts';

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

/** `isMore`: with what the page asks others for, which is not to be asked every two seconds. */
function serviceSection(service: ServiceAnswer, isMore: boolean, nowMs: number): Html {
  const { name, namespace, ports, problems, runbook } = service;
  const key = `${namespace}/${name}`;
  const [first] = ports;
  const content = [
    html`<h2>${key}</h2>`,
    serviceVerdict(service),
    problems.length > 1 ? problemList(problems.slice(1), runbook.slice(1)) : undefined,
    facts(serviceFacts(service), nowMs),
    isMore
      ? html`<p>As it was when you asked. <a href="${servicePath(namespace, name)}">Follow it</a></p>`
      : html`<p><a href="${servicePath(namespace, name, true)}">With names of pods and answers</a></p>`,
    blocksHtml(serviceBlocks(service), nowMs),
  ];
  return html`${isMore ? html`<section>${content}</section>` : live('service', content)}
${explainForm(first === undefined ? '' : `${key}:${first.port}`, '')}`;
}

function serviceVerdict({ problems, runbook, state }: ServiceAnswer): Html {
  const [first] = problems;
  if (first !== undefined) {
    const link = runbookLink(runbook[0]!);
    return html`<p class="verdict bad"><strong class="bad">Unhealthy.</strong> ${first} ${link}</p>`;
  }
  const words = {
    'in force': 'All of it is in force.',
    waiting: 'A change of it is not in the kernel yet.',
    'set aside': 'The kernel refuses it.',
  };
  return html`<p class="verdict"><strong class="good">No known problem.</strong> ${words[state]}</p>`;
}

/** The question what becomes of a packet. */
function explainForm(to: string, from: string): Html {
  return html`<h2 id="explain">What becomes of a packet?</h2>
<form action="/" aria-label="Explain">
<label>To <input name="to" value="${to}" required autocomplete="off" placeholder="NAMESPACE/NAME:PORT or ADDRESS:PORT"></label>
<label>From <input name="from" value="${from}" autocomplete="off" placeholder="pod, node, outside or an address"></label>
<button>Explain</button>
</form>
`;
}

function explanationSection(answer: Explanation, to: string, from: string): Html {
  const failed = explainedOf(answer).find((one) => !isDelivered(one));
  return html`${explainForm(to, from)}<section>
${failed && html`<p>${runbookLink(sections[failed.from.kind])}</p>`}
${blocksHtml(explanationBlocks(answer, true), 0)}</section>
`;
}

/** Sections of docs/runbook.md, by client. */
const sections = { pod: 'from-a-pod', node: 'from-the-node', outside: 'from-outside' } as const;
