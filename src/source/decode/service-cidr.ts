import { type CIDR, parseCIDR } from '../../state/address.ts';
import type { ServiceCIDR } from '../../state/types.ts';
import { type Decoded, open, show } from './door.ts';

/** The blocks that ClusterIPs are allocated from; status and deletion are of no interest (4.1). */
export function decodeServiceCIDR(raw: unknown): Decoded<ServiceCIDR> {
  const opened = open('ServiceCIDR', raw, 'cluster');
  const { door } = opened;
  if (opened.id === undefined) return { record: undefined, problems: door.problems };
  const spec = door.object(opened.raw.spec, 'spec') ?? {};
  const cidrs: CIDR[] = [];
  for (const [i, element] of door.list(spec.cidrs, 'spec.cidrs').entries()) {
    const text = door.text(element, `spec.cidrs[${i}]`);
    if (text === undefined) continue;
    const cidr = parseCIDR(text);
    if (cidr !== undefined) cidrs.push(cidr);
    else door.refuse(`spec.cidrs[${i}]`, `is no address block: ${show(text)}`);
  }
  return { record: { name: opened.id.name, cidrs }, problems: door.problems };
}
