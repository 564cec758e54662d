/** Finds Services by name, and suggests similar names. */
import { portTitle } from '../../ask/service-words.ts';
import { firstNames } from '../../ask/words.ts';
import { closeness } from '../../config/spelling.ts';
import type { List } from '../../net/list.ts';
import type { ClusterState } from '../../state/store.ts';
import type { Service, ServicePort } from '../../state/types.ts';
import type { Pacer } from '../../time/pacer.ts';
import { Refusal } from './refusal.ts';

interface Name {
  readonly name: string;
  /** Undefined: any. */
  readonly namespace: string | undefined;
}

const defaultNamespace = 'default';
const candidatesMax = 5;

/**
 * The Service with that name. Without a namespace: the only one, else the one in namespace default.
 * Throws a Refusal.
 */
export async function serviceNamed(
  state: ClusterState,
  { name, namespace }: Name,
  pacer: Pacer,
): Promise<Service> {
  const key = `${namespace ?? defaultNamespace}/${name}`;
  const service = state.service(key);
  if (service !== undefined && namespace !== undefined) return service;
  if (namespace !== undefined) throw new Refusal(404, await absence(state, key, pacer));
  const keys = await keysOf(state, name, pacer);
  if (keys.length === 0) throw new Refusal(404, await absence(state, name, pacer));
  const only = keys.length === 1 ? state.service(keys[0]!) : service;
  if (only !== undefined) return only;
  const shown = keys.slice(0, candidatesMax);
  const reason = `${keys.length} Services have that name; say which: ${shown.join(', ')}`;
  throw new Refusal(409, reason, shown);
}

/** Throws a Refusal if this proxy serves no Service of that name. */
export async function checkServed(
  state: ClusterState,
  { name, namespace }: Name,
  pacer: Pacer,
): Promise<void> {
  const isKnown =
    namespace === undefined
      ? (await keysOf(state, name, pacer)).length > 0
      : state.service(`${namespace}/${name}`) !== undefined;
  const key = namespace === undefined ? name : `${namespace}/${name}`;
  if (!isKnown) throw new Refusal(404, await absence(state, key, pacer));
}

async function keysOf(state: ClusterState, name: string, pacer: Pacer): Promise<string[]> {
  const found: string[] = [];
  for (const key of state.serviceKeys()) {
    if (key.endsWith(`/${name}`)) found.push(key);
    if (pacer.due) await pacer.rest();
  }
  return found;
}

/** Why a Service is not served. `key` may be a name without a namespace. */
async function absence(state: ClusterState, key: string, pacer: Pacer): Promise<string> {
  const because = state.unserved.get(key)?.because;
  if (because !== undefined) return `this proxy does not serve Service ${key}: ${because}`;
  const meant = await meantBy(state, key, pacer);
  const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
  return (
    `this proxy serves no Service ${key}: there is none of that name, or its label ` +
    `service.kubernetes.io/service-proxy-name gives it to another${hint}`
  );
}

/** A Service of the same name elsewhere, else the one with the most similar name. */
async function meantBy(
  state: ClusterState,
  key: string,
  pacer: Pacer,
): Promise<string | undefined> {
  const name = key.slice(key.indexOf('/') + 1);
  let best: { readonly known: string; readonly edits: number } | undefined;
  for (const known of state.serviceKeys()) {
    const knownName = known.slice(known.indexOf('/') + 1);
    if (knownName === name) return known;
    const edits = closeness(key, key.includes('/') ? known : knownName);
    if (edits !== undefined && edits < (best?.edits ?? Infinity)) best = { known, edits };
    if (pacer.due) await pacer.rest();
  }
  return best?.known;
}

/** Refuses a port that the Service (`namespace/name`) does not have. */
export function noSuchPort(key: string, port: string, ports: List<ServicePort>): Refusal {
  return new Refusal(404, `Service ${key} has no port "${port}": it has ${portsText(ports)}`);
}

/** The most ports of a Service that a message names. */
const namedMax = 10;

/** `http 80/TCP, dns 53/UDP` */
export function portsText(ports: List<ServicePort>): string {
  return firstNames(ports.slice(0, namedMax).map(portTitle), ports.length);
}
