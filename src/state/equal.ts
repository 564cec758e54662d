import type { CIDR } from './address.ts';
import type { Forwarding, Frontend } from './types.ts';

/** Deep equality; the order of pools and frontends counts. */
export function sameForwarding(a: Forwarding, b: Forwarding): boolean {
  if (a === b) return true;
  return (
    a.family === b.family &&
    a.servicePort.port === b.servicePort.port &&
    a.servicePort.protocol === b.servicePort.protocol &&
    a.servicePort.name === b.servicePort.name &&
    a.servicePort.namespace === b.servicePort.namespace &&
    a.affinityTimeoutSeconds === b.affinityTimeoutSeconds &&
    a.nodeInSourceRanges === b.nodeInSourceRanges &&
    a.healthCheckNodePort === b.healthCheckNodePort &&
    sameList(a.frontends, b.frontends, sameFrontend) &&
    sameList(a.sourceRanges, b.sourceRanges, sameRange) &&
    a.cluster.equals(b.cluster) &&
    a.local.equals(b.local) &&
    a.hairpin.equals(b.hairpin) &&
    a.serving.equals(b.serving)
  );
}

export function sameFrontend(a: Frontend, b: Frontend): boolean {
  return (
    a.kind === b.kind &&
    a.port === b.port &&
    a.treatment === b.treatment &&
    a.pool === b.pool &&
    sameBytes(a.address?.bytes, b.address?.bytes)
  );
}

function sameRange(a: CIDR, b: CIDR): boolean {
  return a.prefixLength === b.prefixLength && sameBytes(a.address.bytes, b.address.bytes);
}

function sameList<T>(a: readonly T[], b: readonly T[], same: (x: T, y: T) => boolean): boolean {
  return a.length === b.length && a.every((item, i) => same(item, b[i]!));
}

/** Whether two byte strings are the same; undefined equals only itself. */
export function sameBytes(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
