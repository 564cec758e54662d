import type { CIDR } from '../../net/address.ts';
import { specialUseWithin } from '../../net/special-address.ts';
import type { ServiceCIDR } from '../../state/types.ts';
import { readCIDR } from './addresses.ts';
import { entriesMax } from './entries.ts';
import { type Decoded, open, show } from './field-reader.ts';

/**
 * The blocks from which ClusterIPs are allocated; status and deletion are not used (4.1). Packets
 * to unused addresses of a block are dropped, so too wide a block would disconnect the node.
 */
export function decodeServiceCIDR(raw: unknown): Decoded<ServiceCIDR> {
  const opened = open('ServiceCIDR', raw, 'cluster');
  const { fields } = opened;
  if (opened.id === undefined) return { record: undefined, problems: fields.problems };
  const spec = fields.object(opened.raw.spec, 'spec') ?? {};
  const cidrs: CIDR[] = [];
  const list = fields.list(spec.cidrs, 'spec.cidrs', entriesMax.others);
  for (const [i, text] of list.entries()) {
    const field = `spec.cidrs[${i}]`;
    const cidr = readCIDR(fields, text, field);
    const special = cidr && specialUseWithin(cidr);
    if (special !== undefined)
      fields.refuse(field, `${show(text)} holds ${special}: it is not used`);
    else if (cidr !== undefined) cidrs.push(cidr);
  }
  const isEmpty = list.length === 0 && Array.isArray(spec.cidrs ?? list);
  if (isEmpty) fields.refuse('spec.cidrs', 'is empty');
  return { record: { name: opened.id.name, cidrs }, problems: fields.problems };
}
