/** Texts about a Service's ports, for terminal and page. */
import { reasonWords } from './problem-reasons.ts';
import type { ServiceAnswer, ServiceList } from './service.ts';
import { counted } from './words.ts';

type Port = ServiceAnswer['ports'][number];

/** `http 80/TCP`. */
export function portTitle({ name, port, protocol }: Pick<Port, 'name' | 'port' | 'protocol'>) {
  return `${name === '' ? '' : `${name} `}${port}/${protocol}`;
}

/** `in force`, or the problems: `no endpoints, address taken`. */
export function stateWords({
  reasons,
  state,
}: Pick<ServiceList['items'][number], 'reasons' | 'state'>): string {
  if (reasons.length === 0) return state;
  const words = reasons.map(reasonWords).join(', ');
  return state === 'waiting' ? `${words} (waiting)` : words;
}

/** The destination of connections to a frontend. */
export function goesTo(port: Port, { heldBy, paths }: Port['frontends'][number]): string {
  if (heldBy !== undefined) return `not this Service: ${heldBy} has it`;
  const { pod, outside } = paths;
  if (pod.to === 'reject') return 'no endpoint: refused';
  if (pod.to === 'drop') return 'no endpoint: dropped';
  const goes = counted(port[pod.to], 'endpoint');
  if (outside.to !== pod.to) {
    return `${counted(port.local, 'endpoint')} of this node; from the node and its pods, ${port[pod.to]}`;
  }
  return pod.masqueraded ? `${goes}, masqueraded` : goes;
}

/** `ready`, `not ready,serving,terminating`. */
export function conditionsOf({ ready, serving, terminating }: Port['endpoints'][number]): string {
  const conditions = [
    ready ? 'ready' : 'not ready',
    ...(serving && !ready ? ['serving'] : []),
    ...(terminating ? ['terminating'] : []),
  ];
  return conditions.join(',');
}

/** `came`, `changed, frontends`. */
export function whatChanged({ also, what }: ServiceAnswer['changes'][number]): string {
  return [what, ...also].join(', ');
}

/** `2 to 3 +10.0.0.7:80`. */
export function endpointsChanged(change: ServiceAnswer['changes'][number]): string {
  const { added, after, before, removed } = change;
  const named = [...added.map((one) => `+${one}`), ...removed.map((one) => `-${one}`)];
  return [`${before} to ${after}`, ...named].join(' ');
}
