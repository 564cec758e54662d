/** Limits of connections that clients exceed, or that are not in force; in sentences. */
import { counted, firstNames } from '../../ask/words.ts';
import {
  limitAnnotations,
  limitNames,
  limitReasons,
  type Refused,
  type RefusedReason,
  refusedReasons,
} from '../../state/limits.ts';
import type { Service } from '../../state/types.ts';
import type { AgentState } from './agent-state.ts';
import type { Problem } from './problem.ts';

/** The most clients that a message names. */
const namedMax = 3;

export function limitProblems(
  { connectionLimits }: Pick<AgentState, 'connectionLimits'>,
  service: Service,
): Problem[] {
  const { key, limits } = service;
  const asked: Partial<Record<RefusedReason, number>> = limits ?? {};
  const because = connectionLimits.obstacleOf(service);
  const problems: Problem[] = [];
  const add = (text: () => string): number => problems.push({ reason: 'connection_limits', text });
  if (because !== undefined) add(() => `Its connections are not limited as it asks: ${because}.`);
  const refused = connectionLimits.refusals.of(key);
  for (const reason of refusedReasons) {
    const own = refused.filter((one) => one.reason === reason);
    if (own.length === 0) continue;
    add(() => {
      const worst = own.toSorted((a, b) => b.packets - a.packets).slice(0, namedMax);
      const named = worst.map(nameOf);
      const value = reason in limitAnnotations ? `: ${asked[reason] ?? 'as implied'}` : '';
      const limit = `${limitNames[reason]}${value}`;
      return `Clients were refused in the last two minutes (${limit}): ${firstNames(named, own.length)}.`;
    });
  }
  return problems;
}

function nameOf({ client, packets, pod = 'not known' }: Refused): string {
  return `${client} (pod ${pod}, ${counted(packets, 'packet')})`;
}

/** The limits of a Service, for people. */
export function limitRemarks({ limits = {} }: Pick<Service, 'limits'>): string[] {
  return limitReasons.flatMap((reason) => {
    const most = limits[reason];
    return most === undefined ? [] : [`Limited on this node: ${limitAnnotations[reason]} ${most}.`];
  });
}
