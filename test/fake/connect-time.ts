/** What connections meet that programs translate, by the maps of a fake kernel. */
import {
  addressFamily,
  addressKey,
  countOf,
  frontendKey,
  groupCount,
  mapNames,
  packedGroup,
  writeGroupKey,
} from '../../src/connect-time/maps/layout.ts';
import type { Address } from '../../src/net/address.ts';
import { EndpointList, endpointBytes } from '../../src/net/endpoint-list.ts';
import type { FakeBpf } from './bpf.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

export const bpfDirectory = '/sys/fs/bpf/fairlead';

/** Whether programs translate connections at present. */
export function areTranslated({ leases, links, now }: FakeBpf, { family }: Address): boolean {
  const at = `${bpfDirectory} ${addressFamily[family]}`;
  return links.has(at) && (leases.get(at) ?? 0) > now();
}

/** Where TCP connections of the node and its pods go; undefined: rules decide. */
export function endpointsAtConnectTime(
  { maps }: FakeBpf,
  to: Address,
  port: number,
): EndpointList | undefined {
  const { endpoints, frontends } = mapNames[to.family];
  const bytes = endpointBytes[to.family];
  const at = (key: Uint8Array) => maps.get(`${bpfDirectory}/${frontends}`)?.get(hex(key));
  const single = at(frontendKey(to, port));
  const all = at(addressKey(to));
  const isRange = single === undefined && all && countOf(Buffer.from(all, 'hex')) > 0;
  const value = single ?? (isRange ? all : all && at(frontendKey(undefined, port)));
  if (value === undefined) return undefined;
  const pool = Buffer.from(value, 'hex');
  const [first, last] = [pool.readUInt16LE(20), pool.readUInt16LE(22)];
  if (isRange && (port < first || port > last)) return undefined;
  const count = countOf(pool);
  if (count === 0) return undefined;
  const groups = Array.from({ length: groupCount(count) }, (_, number) => {
    const key = new Uint8Array(24);
    writeGroupKey(key, 0, pool.subarray(0, 16), number);
    const group = maps.get(`${bpfDirectory}/${endpoints}`)?.get(hex(key)) ?? '';
    return packedGroup(to.family, Buffer.from(group, 'hex'));
  });
  const packed = Buffer.concat(groups);
  for (let at = bytes; isRange && at <= packed.length; at += bytes) {
    packed.writeUInt16BE(port, at - 2);
  }
  return EndpointList.from(to.family, packed);
}
