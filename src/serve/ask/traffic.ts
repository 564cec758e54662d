/** Answers `/fairlead/v1/traffic`. */

import { apiVersion } from '../../ask/paths.ts';
import type { Traffic } from '../../ask/traffic.ts';
import type { EndpointTraffic, Outcomes, ServiceTraffic } from '../service-counters.ts';
import type { AgentState } from './agent-state.ts';
import { answerPacer } from './answer-pacer.ts';
import { timeOf } from './port-state.ts';
import { numberOf, Refusal } from './refusal.ts';
import { checkServed } from './service-names.ts';

const limits = { standard: 500, most: 1000 };
const most = Number.MAX_SAFE_INTEGER;

/**
 * Throws a Refusal if nothing is counted (with how to change that), or the Service does not exist.
 */
export async function trafficOf(agent: AgentState, query: URLSearchParams): Promise<Traffic> {
  const { clock, counters } = agent;
  const limit = numberOf(query, 'limit', limits);
  const first = numberOf(query, 'continue', { standard: 1, most });
  const known = await counters.read();
  if (known === undefined) throw new Refusal(409, whyNot(agent));
  const pacer = answerPacer(agent);
  const items: Traffic['items'][number][] = [];
  const time = timeOf(clock, known.readAtMs);
  const head = { apiVersion, kind: 'Traffic', time } as const;
  for (let i = first - 1; i < known.services.length; i += 1) {
    if (pacer.due) await pacer.rest();
    const one = known.services[i]!;
    if (!isWanted(one, query) || !hasTraffic(one)) continue;
    if (items.length === limit) return { ...head, items, continue: String(i + 1) };
    const bytes = agent.serviceBytes.bytesOf(one);
    items.push({ ...shown(one, query.has('service')), ...(bytes !== undefined && { bytes }) });
  }
  const service = query.get('service');
  if (items.length === 0 && service !== null) {
    const namespace = query.get('namespace') ?? undefined;
    await checkServed(agent.state, { name: service, namespace }, pacer);
  }
  return { ...head, items };
}

function whyNot({ config }: AgentState): string {
  if (config.serviceMetrics) return 'the proxy is starting: ask again soon';
  return (
    'traffic is not counted: start with --service-metrics, or write "serviceMetrics: true" into ' +
    'the configuration file, which may be done while the proxy runs'
  );
}

function isWanted(
  { namespace, service }: Pick<ServiceTraffic, 'namespace' | 'service'>,
  query: URLSearchParams,
): boolean {
  const wanted = { namespace: query.get('namespace'), service: query.get('service') };
  if (wanted.namespace !== null && wanted.namespace !== namespace) return false;
  return wanted.service === null || wanted.service === service;
}

function hasTraffic({ connections, refusals }: ServiceTraffic): boolean {
  return connections > 0 || [...refusals.values()].some((packets) => packets > 0);
}

function shown(one: ServiceTraffic, withEndpoints: boolean): Traffic['items'][number] {
  const { connections, endpoints, family, namespace, port, protocol, refusals, service } = one;
  return {
    namespace,
    service,
    port,
    protocol,
    family,
    connections,
    refusals: [...refusals].map(([reason, packets]) => ({ reason, packets })),
    ...(withEndpoints
      ? { endpoints: Array.from(endpoints, ([endpoint, one]) => ({ endpoint, ...counts(one) })) }
      : {}),
  };
}

function counts({ connections, outcomes }: EndpointTraffic) {
  return outcomes === undefined
    ? { connections }
    : { connections, outcomes: shownOutcomes(outcomes) };
}

export function shownOutcomes({ answered, reset, tried }: Outcomes) {
  return { tried, answered, reset, unanswered: Math.max(0, tried - answered - reset) };
}
