/** Who sends the packet, and what rules take him for. */
import { isLoopback } from '../../../host/node-ips.ts';
import type { LocalDetector, ModeConfig } from '../../../modes/mode.ts';
import { type ClientKind, describeDetector } from '../../../modes/passage.ts';
import {
  type Address,
  addressKey,
  cidrContains,
  formatAddress,
  parseAddress,
  parseCIDR,
} from '../../../net/address.ts';
import { noSockets } from '../../../state/node-sockets.ts';
import type { ResolveContext } from '../../../state/resolve.ts';
import type { Node } from '../../../state/types.ts';
import { Refusal } from '../refusal.ts';

export interface Client {
  readonly kind: ClientKind;
  readonly address: Address | undefined;
  readonly because: string;
}

const kinds = ['pod', 'node', 'outside'] as const satisfies readonly ClientKind[];

/** Throws a Refusal. */
export function readClient(
  text: string,
  config: ModeConfig,
  { nodeSockets }: ResolveContext,
  node: Node | undefined,
): Client {
  const kind = kinds.find((one) => one === text);
  if (kind !== undefined) return { kind, address: undefined, because: 'so it was asked' };
  const address = parseAddress(text);
  if (address === undefined) {
    const pods = 'this proxy does not know pods by name';
    throw new Refusal(400, `from "${text}" is no address, pod, node or outside: ${pods}`);
  }
  if (address.family !== config.family) {
    throw new Refusal(400, `from ${text} and the address that it is sent to are of two families`);
  }
  return { address, ...kindOf(address, config.localDetector, nodeSockets, node) };
}

function kindOf(
  address: Address,
  detector: LocalDetector,
  { addresses } = noSockets,
  node: Node | undefined,
): Pick<Client, 'kind' | 'because'> {
  const text = formatAddress(address.bytes);
  if (isLoopback(address) || addresses.has(addressKey(address))) {
    return { kind: 'node', because: `${text} is an address of this node` };
  }
  if (detector.kind === 'none') {
    return { kind: 'outside', because: 'nothing tells pods from other clients (detectLocal)' };
  }
  if (detector.kind === 'cidr') {
    return cidrContains(detector.cidr, address)
      ? { kind: 'pod', because: `${text} ${describeDetector(detector)}` }
      : { kind: 'outside', because: `${text} is no address that ${describeDetector(detector)}` };
  }
  // Rules look at the interface, which an address does not tell.
  const pods = (node?.podCIDRs ?? []).map((cidr) => parseCIDR(cidr));
  const isOurs = pods.some((cidr) => cidr !== undefined && cidrContains(cidr, address));
  return isOurs
    ? { kind: 'pod', because: `${text} is of this node's podCIDRs` }
    : { kind: 'outside', because: `${text} is not of this node's podCIDRs` };
}
