/** Answers `/fairlead/v1/services`. */
import { apiVersion } from '../../ask/paths.ts';
import type { ServiceList } from '../../ask/service.ts';
import type { Service } from '../../state/types.ts';
import type { AgentState } from './agent-state.ts';
import { answerPacer } from './answer-pacer.ts';
import { lookedUp } from './lookups.ts';
import { stateOf } from './port-state.ts';
import { isAsked, numberOf, Refusal } from './refusal.ts';
import { rowsMax, type ServiceRow, ServiceRows } from './service-rows.ts';

const limits = { standard: 500, most: rowsMax };

const noReasons: ServiceRow['reasons'] = [];

export async function servicesOf(agent: AgentState, query: URLSearchParams): Promise<ServiceList> {
  const limit = numberOf(query, 'limit', limits);
  const namespace = query.get('namespace');
  const name = query.get('name');
  const isOnlyTroubled = isAsked(query, 'state', 'unhealthy');
  const areTroubledFirst = isAsked(query, 'order', 'problems');
  const selected = await selectedBy(agent, query, namespace);
  await agent.problemIndex.catchUp();
  const { troubled } = agent.problemIndex;
  const rows = agent.serviceRows.value ?? new ServiceRows();
  agent.serviceRows.value = rows;
  const pacer = answerPacer(agent);
  const items: ServiceRow[] = [];
  let last = '';
  const first = areTroubledFirst ? troubled : new Map();
  for (const place of placesAfter(query.get('continue') ?? '', agent, first)) {
    if (pacer.due) await pacer.rest();
    const key = place.replace(firstMark, '');
    const service = agent.state.service(key);
    if (service === undefined) continue;
    if (namespace !== null && service.namespace !== namespace) continue;
    if (selected?.has(key) === false) continue;
    if (name !== null && !matchesGlob(service.name, name)) continue;
    const reasons = troubled.get(key) ?? noReasons;
    if (isOnlyTroubled && reasons.length === 0) continue;
    if (items.length === limit) return { apiVersion, kind: 'ServiceList', items, continue: last };
    items.push(rowOf(agent, service, { rows, reasons }));
    last = place;
  }
  return { apiVersion, kind: 'ServiceList', items };
}

/** Keys of the Services with these labels, which are not kept; undefined = any labels. */
async function selectedBy(
  { askers, source }: AgentState,
  query: URLSearchParams,
  namespace: string | null,
): Promise<ReadonlySet<string> | undefined> {
  const selector = query.get('labelSelector');
  if (selector === null) return undefined;
  return lookedUp({ askers, query }, (signal) =>
    source.lookup.servicesWith(selector, namespace ?? '', signal),
  );
}

/** Marks places among the Services that come first. */
const firstMark = '!';

/**
 * The places after `last`, at which a page ended; empty: all. First those of `first`, by name: the
 * one at `last` may have left them. Then those of the others, which keep their order.
 */
function* placesAfter(
  last: string,
  { state }: AgentState,
  first: ReadonlyMap<string, unknown>,
): Generator<string> {
  let isBefore = last !== '' && !last.startsWith(firstMark);
  if (isBefore && state.service(last) === undefined) {
    throw new Refusal(410, `Service ${last} was deleted in the meantime: start again`);
  }
  if (!isBefore) {
    const places = Array.from(first.keys(), (key) => firstMark + key);
    yield* places.sort().filter((place) => place > last);
  }
  for (const key of state.serviceKeys()) {
    if (isBefore) isBefore = key !== last;
    else if (!first.has(key)) yield key;
  }
}

interface Said {
  readonly rows: ServiceRows;
  readonly reasons: ServiceRow['reasons'];
}

function rowOf(agent: AgentState, service: Service, { reasons, rows }: Said): ServiceRow {
  const keys = rows.keysOf(service);
  let endpoints = 0;
  for (const { length } of agent.state.slices(service.key)) endpoints += length;
  const used = leastUsed(agent, keys);
  return rows.row(service, { endpoints, used, state: stateOf(agent, service, keys), reasons });
}

/** The smallest number over all ports. */
function leastUsed(agent: AgentState, keys: readonly string[]): number {
  const families = agent.engine?.families ?? [];
  let least: number | undefined;
  for (const key of keys) {
    let used = 0;
    for (const { desired } of families) {
      const forwarding = desired.get(key);
      used += Math.max(forwarding?.cluster.length ?? 0, forwarding?.local.length ?? 0);
    }
    least = Math.min(least ?? used, used);
  }
  return least ?? 0;
}

/**
 * Whether a name matches a pattern, in which `*` matches any characters and `?` one. The time is at
 * most proportional to the product of both lengths.
 */
export function matchesGlob(name: string, pattern: string): boolean {
  let [at, mark] = [0, 0];
  let star = -1;
  for (let i = 0; i < name.length; ) {
    const want = pattern[at];
    if (want === '*') {
      star = at;
      mark = i;
      at += 1;
    } else if (want === '?' || want === name[i]) {
      i += 1;
      at += 1;
    } else if (star >= 0) {
      // Try again with the last star matching one more character.
      mark += 1;
      i = mark;
      at = star + 1;
    } else return false;
  }
  return [...pattern.slice(at)].every((rest) => rest === '*');
}
