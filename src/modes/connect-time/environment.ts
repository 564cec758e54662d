/**
 * What the maps hold because of the environment: the addresses of this node that accept node ports,
 * in the map of frontends, and the cgroups of excluded pods.
 */
import { isLoopback } from '../../net/address.ts';
import { binary } from '../elements.ts';
import type { Environment } from '../mode.ts';
import {
  allExcluded,
  excludedKey,
  excludedValue,
  isNodeAddressKey,
  nodeAddressKey,
  nodeAddressValue,
} from './layout.ts';

export interface EnvironmentElement {
  readonly map: 'frontends' | 'excluded' | 'secret';
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

export function environmentId({ key, map }: Pick<EnvironmentElement, 'key' | 'map'>): string {
  return `${map} ${binary(key)}`;
}

export function isOfEnvironment(map: EnvironmentElement['map'], key: Uint8Array): boolean {
  return map !== 'frontends' || isNodeAddressKey(key);
}

/** By `environmentId`. */
export function environmentElements(environment: Environment): Map<string, EnvironmentElement> {
  const all = [...nodeAddresses(environment), ...excludedCgroups(environment)];
  return new Map(all.map((one) => [environmentId(one), one]));
}

function nodeAddresses({ connectTimeAddresses = [] }: Environment): EnvironmentElement[] {
  return connectTimeAddresses.map((address) => ({
    map: 'frontends',
    key: nodeAddressKey(address),
    value: nodeAddressValue(isLoopback(address) ? 'node' : 'everybody'),
  }));
}

/** The last one says that the others are there. */
function excludedCgroups({ excludedCgroups: ids }: Environment): EnvironmentElement[] {
  if (ids === undefined) return [];
  return [...ids, allExcluded].map((id) => ({
    map: 'excluded',
    key: excludedKey(id),
    value: excludedValue,
  }));
}
