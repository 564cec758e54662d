/** The page for people, at `/`. It shows the same answers as programs get, to the same clients. */
import { endpoints } from '../../ask/endpoints.ts';
import { admit } from '../ask/admission.ts';
import { changeListOf } from '../ask/changes.ts';
import { explanationOf } from '../ask/explain/explanation.ts';
import type { Inside } from '../ask/inside.ts';
import { numberOf, Refusal } from '../ask/refusal.ts';
import { serviceOf } from '../ask/service.ts';
import { servicesOf } from '../ask/services.ts';
import { statusOf } from '../ask/status.ts';
import { type Asked, type Reply, textHeaders } from '../reply.ts';
import { changesMost, changesSection, changesShown } from './changes.ts';
import { explainForm, explanationSection } from './explain.ts';
import { html } from './html.ts';
import { contentSecurityPolicy } from './look.ts';
import { documentOf } from './parts.ts';
import { serviceSection } from './service.ts';
import { listQuery, servicesSection, wantedOf } from './services.ts';
import { nodeSection, verdict } from './status.ts';
import { tiles } from './tiles.ts';

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
  ...['namespace', 'q', 'state', 'continue', 'changes', 'service', 'more', 'to', 'from'],
];

export async function page(inside: Inside, asked: Asked): Promise<Reply> {
  try {
    admit(asked, parameters);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { status: error.status, headers: textHeaders, body: `${error.message}\n` };
  }
  const { query } = asked;
  try {
    return { status: 200, headers, body: await make(inside, query) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { status: error.status, headers, body: refusalPage(inside, error) };
  }
}

function make(inside: Inside, query: URLSearchParams): Promise<string> {
  const service = query.get('service');
  if (service !== null) return servicePage(inside, service, query.get('more') === 'true');
  const to = query.get('to');
  if (to !== null) return explainPage(inside, to.trim(), query.get('from')?.trim() ?? '');
  return frontPage(inside, query);
}

async function frontPage(inside: Inside, query: URLSearchParams): Promise<string> {
  const wanted = wantedOf(query);
  const limit = numberOf(query, 'changes', { standard: changesShown, most: changesMost });
  const changes = changeListOf(inside, new URLSearchParams({ limit: String(limit) }));
  const services = await servicesOf(inside, listQuery(wanted));
  const status = await statusOf(inside);
  const traffic = await inside.counters.read();
  const nowMs = inside.clock.wallMs();
  return documentOf({
    title: `${status.node}: ${status.healthy ? 'healthy' : 'unhealthy'} · Fairlead`,
    node: status.node,
    json: endpoints.status.path,
    body: [
      verdict(status, changes.items[0], nowMs),
      tiles(status, traffic),
      servicesSection(wanted, services, nowMs),
      explainForm('', ''),
      changesSection(changes, nowMs),
      nodeSection(status, nowMs),
    ],
  });
}

async function servicePage(inside: Inside, key: string, isMore: boolean): Promise<string> {
  const at = key.indexOf('/');
  const query = new URLSearchParams({
    ...{ namespace: key.slice(0, at), name: key.slice(at + 1) },
    ...(isMore ? { pods: 'true', traffic: 'true' } : {}),
  });
  const service = await serviceOf(inside, query);
  return documentOf({
    title: `${key} on ${inside.nodeName} · Fairlead`,
    node: inside.nodeName,
    json: `${endpoints.service.path}?${query}`,
    body: serviceSection(service, isMore, inside.clock.wallMs()),
  });
}

async function explainPage(inside: Inside, to: string, from: string): Promise<string> {
  const query = new URLSearchParams({ to, ...(from === '' ? {} : { from }) });
  const answer = await explanationOf(inside, query);
  return documentOf({
    title: `${to} on ${inside.nodeName} · Fairlead`,
    node: inside.nodeName,
    json: `${endpoints.explain.path}?${query}`,
    body: explanationSection(answer, to, from),
  });
}

function refusalPage({ nodeName }: Inside, { message }: Refusal): string {
  return documentOf({
    title: 'No answer · Fairlead',
    node: nodeName,
    json: endpoints.status.path,
    body: html`<h2>No answer</h2>
<p>${message}</p>
`,
  });
}
