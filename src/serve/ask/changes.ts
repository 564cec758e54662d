/** Answers `/fairlead/v1/changes`. */
import { apiVersion } from '../../ask/schema.ts';
import type { ChangeList } from '../../ask/service.ts';
import type { AgentState } from './agent-state.ts';
import { type RecentChange, shownChange } from './recent.ts';
import { numberOf } from './refusal.ts';

const limits = { standard: 100, most: 1000 };

export function changeListOf({ eventHistory }: AgentState, query: URLSearchParams): ChangeList {
  const items = [...eventHistory.recent.lastFirst()].slice(0, numberOf(query, 'limit', limits));
  return { apiVersion, kind: 'ChangeList', items: items.map(namedChange) };
}

function namedChange(change: RecentChange): ChangeList['items'][number] {
  const { namespace, name } = change.servicePort;
  return { namespace, service: name, ...shownChange(change) };
}
