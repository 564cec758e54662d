/** Answers `/fairlead/v1/changes`. */
import { apiVersion } from '../../ask/paths.ts';
import type { ChangeList } from '../../ask/service.ts';
import type { AgentState } from './agent-state.ts';
import { numberOf } from './refusal.ts';

const limits = { standard: 100, most: 1000 };

export function changeListOf({ eventHistory }: AgentState, query: URLSearchParams): ChangeList {
  const limit = numberOf(query, 'limit', limits);
  const items = [...eventHistory.recent.lastFirst()].slice(0, limit);
  return { apiVersion, kind: 'ChangeList', items };
}
