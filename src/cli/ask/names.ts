/** Names of Services and targets in command lines. */

import { parseAddress } from '../../net/address.ts';
import { splitTarget } from '../../net/host-port.ts';
import type { Given } from '../command.ts';
import { UsageError } from '../errors.ts';

interface ServiceName {
  readonly name: string;
  /** Undefined: any. */
  readonly namespace: string | undefined;
}

/** Names of Services and namespaces are DNS labels. */
const label = /^[^./]+$/;

/** `-n`; undefined with `-A`. Throws a UsageError. */
export function namespaceOf({ values }: Given): string | undefined {
  const { 'all-namespaces': all, count, namespace } = values;
  if (all || namespace === undefined) return undefined;
  if (count === undefined && /^\d+$/.test(namespace)) {
    throw new UsageError(`-n "${namespace}" is the namespace; a count is -c ${namespace}`);
  }
  if (!label.test(namespace)) throw new UsageError(`-n "${namespace}" is not a namespace`);
  return namespace;
}

/** Reads `[NAMESPACE/]NAME`. Throws a UsageError. */
export function readServiceName(word: string, given: Given): ServiceName {
  const standard = namespaceOf(given);
  const [name = '', namespace = standard, ...more] = word.split('/').reverse();
  const isName = more.length === 0 && label.test(name) && label.test(namespace ?? 'any');
  if (!isName) throw new UsageError(`"${word}" is not [NAMESPACE/]NAME`);
  return { name, namespace };
}

/**
 * Reads `ADDRESS:PORT` or `[NAMESPACE/]NAME:PORT`, with an optional `/TCP`, `/UDP` or `/SCTP`;
 * returns it with the namespace of -n. Throws a UsageError.
 */
export function readTarget(word: string, given: Given): string {
  const parts = splitTarget(word);
  const form = 'ADDRESS:PORT[/PROTOCOL] or [NAMESPACE/]NAME:PORT[/PROTOCOL]';
  if (parts === undefined) {
    const bare = word.replace(/^\[(.*)\]$/, '$1');
    const isAddress = parseAddress(bare) !== undefined;
    const isName = /^[-a-z0-9]+(\/[-a-z0-9]+)?$/.test(word);
    const reason = isAddress || isName ? `"${word}" has no port` : `"${word}" is not understood`;
    throw new UsageError(`${reason}: it must be ${form}`);
  }
  const { host, port } = parts;
  const [, protocol] = /\/(.*)$/.exec(port) ?? [];
  if (protocol !== undefined) {
    throw new UsageError(`"${protocol}" is not a protocol: TCP, UDP or SCTP`);
  }
  if (parseAddress(host) !== undefined) {
    const number = /^\d+$/.test(port) ? Number(port) : 0;
    if (number < 1 || number > 65_535) throw new UsageError(`"${port}" is not a port: 1 to 65535`);
    return word;
  }
  if (port === '') throw new UsageError(`"${word}" has no port: it must be ${form}`);
  const isAddress = host.includes(':') || /^[\d.]+$/.test(host);
  if (isAddress) throw new UsageError(`"${host}" is not an address: the target must be ${form}`);
  const { name, namespace } = readServiceName(host, given);
  return `${namespace === undefined ? '' : `${namespace}/`}${name}${word.slice(host.length)}`;
}
