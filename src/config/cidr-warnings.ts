import { parseCIDR } from '../net/address.ts';
import { cidrReading } from '../net/reading.ts';
import type { FieldPath, Settings } from './fields/index.ts';

/** Blocks that are taken as something else than they say. Of valid settings. */
export function cidrWarnings(settings: Settings): string[] {
  const lists: readonly (readonly [FieldPath, readonly string[]])[] = [
    ['clusterCIDR', settings.clusterCIDR.split(',')],
    ['nodePortAddresses', settings.nodePortAddresses],
    ['externalIPs.cidrs', settings['externalIPs.cidrs']],
    ['ipvs.excludeCIDRs', settings['ipvs.excludeCIDRs']],
  ];
  return lists.flatMap(([field, texts]) =>
    texts.flatMap((text) => {
      const cidr = parseCIDR(text);
      const reading = cidr && cidrReading(text, cidr);
      return reading === undefined ? [] : [`${field}: ${text} is taken as ${reading}`];
    }),
  );
}
