/** Whether source ranges let a client in. */
import { allowedClients, selfClient } from '../../../modes/source-ranges.ts';
import { formatAddress, formatCIDR } from '../../../net/address.ts';
import { sameBytes } from '../../../net/bytes.ts';
import { rangesHold } from '../../../net/interval.ts';
import type { Forwarding } from '../../../state/types.ts';
import type { ExplainInput } from './input.ts';
import type { Holder } from './search.ts';

/** Undefined when there are no source ranges: all clients may connect. */
export function admissionOf(
  { client, engine }: ExplainInput,
  { forwarding, frontend }: Holder,
): { readonly isIn: boolean; readonly text: string } | undefined {
  const allowed = allowedClients(forwarding, frontend);
  if (allowed === undefined) return undefined;
  const ranges = `loadBalancerSourceRanges (${forwarding.sourceRanges.map(formatCIDR).join(', ')})`;
  const address = addressIn(client, engine.context.nodeAddresses, forwarding);
  if (address === undefined) {
    return { isIn: true, text: `Only clients in ${ranges} are let in: this one is taken for one.` };
  }
  const self = selfClient(forwarding, frontend);
  const isIn = rangesHold(allowed, address) || sameBytes(self ?? new Uint8Array(), address);
  const where = isIn ? 'is let in: it is in' : 'is dropped: it is in none of';
  return { isIn, text: `The client ${formatAddress(address)} ${where} ${ranges}.` };
}

/** The address of the client, if it is known. */
function addressIn(
  { address, kind }: ExplainInput['client'],
  nodeAddresses: ExplainInput['engine']['context']['nodeAddresses'],
  { family }: Forwarding,
): Uint8Array | undefined {
  if (address !== undefined) return address.bytes;
  if (kind !== 'node') return undefined;
  return nodeAddresses.find((own) => own.family === family)?.bytes;
}
