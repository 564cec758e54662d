/** What Config has for values that passed validation. One that cannot be converted throws. */
import { type Address, type CIDR, parseAddress, parseCIDR } from '../../net/address.ts';
import { type HostPort, parseEndpoint } from '../../net/host-port.ts';
import { toMs } from '../duration.ts';
import { addressKeywords, type Values } from './checks.ts';

/** Which of the node's addresses answer on node ports. */
export type NodePortAddresses =
  | { readonly kind: 'all' }
  | {
      readonly kind: 'listed';
      readonly cidrs: readonly CIDR[];
      /** The node's primary addresses, too. */
      readonly primary: boolean;
    };

function must<T>(value: T | undefined, text: string): T {
  if (value === undefined) throw new Error(`${JSON.stringify(text)} passed validation unparsed`);
  return value;
}

/** The text as one of these words. */
export function oneOf<const T extends string>(words: readonly T[]): (text: string) => T {
  return (text) =>
    must(
      words.find((word) => word === text),
      text,
    );
}

export function toAddress(text: string): Address {
  return must(parseAddress(text), text);
}

export function toCIDRs(texts: readonly string[]): readonly CIDR[] {
  return texts.map((text) => must(parseCIDR(text), text));
}

/** Undefined: nothing is served there. */
export function toHostPort(text: string): HostPort | undefined {
  return text === '' ? undefined : must(parseEndpoint(text), text);
}

export function toNodePortAddresses(addresses: readonly string[]): NodePortAddresses {
  if (addresses.length === 0) return { kind: 'all' };
  const texts = addresses.filter((text) => text !== 'primary').flatMap(blocksOf);
  return { kind: 'listed', cidrs: toCIDRs(texts), primary: addresses.includes('primary') };
}

function blocksOf(text: string): readonly string[] {
  return Object.hasOwn(addressKeywords, text) ? addressKeywords[text]! : [text];
}

/** Only with the requested mode `mode` have values of its section been checked, and are used. */
export function inMode<T, Made>(mode: string, make: (value: T) => Made, other: Made) {
  return (value: T, all: Values): Made => (all.mode === mode ? make(value) : other);
}

/** Nanoseconds as whole seconds. They are rounded up, so that a short time does not become 0. */
export function toSeconds(ns: bigint): number {
  return Math.ceil(toMs(ns) / 1000);
}
