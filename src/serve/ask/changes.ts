/** Answers `/fairlead/v1/changes`. */
import { apiVersion } from '../../ask/paths.ts';
import type { ChangeList } from '../../ask/service.ts';
import type { AgentState } from './agent-state.ts';
import { numberOf } from './refusal.ts';

const limits = { standard: 100, most: 1000 };

export function changeListOf({ eventHistory }: AgentState, query: URLSearchParams): ChangeList {
  const limit = numberOf(query, 'limit', limits);
  const items: ChangeList['items'][number][] = [];
  for (const change of eventHistory.recent.lastFirst()) {
    if (items.length === limit) break;
    items.push(change);
  }
  return { apiVersion, kind: 'ChangeList', items };
}
