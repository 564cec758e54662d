/**
 * The elements that do not depend on Forwardings: the addresses of this node that accept node
 * ports, in the map of frontends, the cgroups of excluded pods, and the secret.
 */

import { binary, bytesOf } from '../../modes/elements.ts';
import type { Environment } from '../../modes/mode.ts';
import type { SharedObject } from '../../modes/shared-objects.ts';
import { isLoopback } from '../../net/address.ts';
import {
  addressKey,
  allExcluded,
  excludedKey,
  excludedValue,
  isNodeAddress,
  keyBytes,
  nodeAddressValue,
} from './layout.ts';

type MapName = 'frontends' | 'excluded' | 'secret';

export interface EnvironmentElement extends SharedObject {
  readonly map: MapName;
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

export function environmentId(map: MapName, key: Uint8Array): string {
  return `${map} ${binary(key)}`;
}

/** The map and the key of an `environmentId`. */
export function elementAt(id: string): { readonly map: MapName; readonly key: Uint8Array } {
  const at = id.indexOf(' ');
  return { map: id.slice(0, at) as MapName, key: bytesOf(id.slice(at + 1)) };
}

export function isOfEnvironment(map: MapName, key: Uint8Array, value: Uint8Array): boolean {
  return map !== 'frontends' || isNodeAddress(key, value);
}

export function environmentElements(
  environment: Environment,
  secret: Uint8Array,
): EnvironmentElement[] {
  const ofSecret = element('secret', new Uint8Array(keyBytes.secret), secret);
  return [ofSecret, ...nodeAddresses(environment), ...excludedCgroups(environment)];
}

function element(map: MapName, key: Uint8Array, value: Uint8Array): EnvironmentElement {
  const bytes = key.length + value.length;
  return { id: environmentId(map, key), isShared: true, map, key, value, bytes };
}

function nodeAddresses({ connectTimeAddresses = [] }: Environment): EnvironmentElement[] {
  return connectTimeAddresses.map((address) => {
    const value = nodeAddressValue(isLoopback(address) ? 'node' : 'everybody');
    return element('frontends', addressKey(address), value);
  });
}

/** The last element marks that all others exist. */
function excludedCgroups({ excludedCgroups: ids }: Environment): EnvironmentElement[] {
  if (ids === undefined) return [];
  return [...ids, allExcluded].map((id) => element('excluded', excludedKey(id), excludedValue));
}
