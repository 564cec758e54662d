/** Answers `/fairlead/v1/problems`. */

import { apiVersion } from '../../ask/paths.ts';
import type { ProblemList } from '../../ask/problems.ts';
import type { Pacer } from '../../time/pacer.ts';
import type { AgentState } from './agent-state.ts';
import { answerPacer } from './answer-pacer.ts';
import { look } from './look.ts';
import { numberOf } from './refusal.ts';
import { problemsOf } from './service-problems.ts';
import { statusOf } from './status.ts';

const limits = { standard: 500, most: 1000 };

type Item = ProblemList['items'][number];

export async function problemListOf(
  agent: AgentState,
  query: URLSearchParams,
): Promise<ProblemList> {
  const limit = numberOf(query, 'limit', limits);
  const namespace = query.get('namespace');
  const after = query.get('continue') ?? '';
  const { problems: proxy, remarks, services } = await statusOf(agent);
  const { node, healthy, reasons } = totals(agent, proxy);
  const keys = [...agent.problemIndex.withProblems.keys()].filter((key) => key > after).sort();
  const head = { apiVersion, kind: 'ProblemList', node, healthy, proxy, remarks } as const;
  const counts = { known: services.known, withProblems: services.withProblems };
  const pacer = answerPacer(agent);
  const items: Item[] = [];
  let last = '';
  for (const key of keys) {
    if (namespace !== null && !key.startsWith(`${namespace}/`)) continue;
    if (items.length === limit) {
      return { ...head, services: counts, reasons, items, continue: last };
    }
    const item = await itemOf(agent, key, pacer);
    if (item !== undefined) items.push(item);
    last = key;
  }
  return { ...head, services: counts, reasons, items };
}

function totals({ nodeName, problemIndex }: AgentState, proxy: readonly string[]) {
  const { byReason, services } = problemIndex.counts;
  const reasons = Array.from(byReason, ([reason, count]) => ({ reason, services: count }));
  return {
    node: nodeName,
    healthy: proxy.length === 0 && services === 0,
    reasons: reasons.filter((one) => one.services > 0),
  };
}

/** Undefined: the Service is gone, or has no problem any more. */
async function itemOf(agent: AgentState, key: string, pacer: Pacer): Promise<Item | undefined> {
  const service = agent.state.service(key);
  if (service === undefined) return undefined;
  const { resolved, seen } = await look(agent, service, pacer);
  if (pacer.due) await pacer.rest();
  const problems = problemsOf(agent, { service, seen, excess: resolved.excess });
  if (problems.length === 0) return undefined;
  const { name, namespace } = service;
  return {
    namespace,
    name,
    problems: problems.map(({ reason, text }) => ({ reason, text: text() })),
  };
}
