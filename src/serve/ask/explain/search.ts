/** Searches the frontend at an address and port, and frontends that are similar. */
import {
  type Address,
  addressKey,
  type CIDR,
  cidrContains,
  isLoopback,
} from '../../../net/address.ts';
import { sameBytes } from '../../../net/bytes.ts';
import type { Protocol } from '../../../net/protocol.ts';
import { noSockets } from '../../../state/node-sockets.ts';
import type { ResolveContext } from '../../../state/resolve.ts';
import type { Forwarding, Frontend } from '../../../state/types.ts';
import type { Pacer } from '../../../sync/clock.ts';
import type { Setting } from '../inside.ts';
import type { Target } from './question.ts';

/** A frontend, and the Forwarding that has it. */
export interface Holder {
  readonly forwarding: Forwarding;
  readonly frontend: Frontend;
}

/** The result of a search. */
export interface Neighbourhood {
  /** The frontend that a packet to the address and port meets. */
  readonly holder: Holder | undefined;
  /** Frontends of the address with another port or protocol. */
  readonly near: readonly Holder[];
  /** Node ports with this number, even if the address accepts no node ports. */
  readonly nodePorts: readonly Holder[];
}

export async function search(
  forwardings: Iterable<Forwarding>,
  { address, port, protocol }: Target,
  acceptsNodePorts: boolean,
  pacer: Pacer,
): Promise<Neighbourhood> {
  const near: Holder[] = [];
  const nodePorts: Holder[] = [];
  for (const forwarding of forwardings) {
    if (pacer.spent) await pacer.rest();
    for (const frontend of forwarding.frontends) {
      if (frontend.address === undefined) {
        if (frontend.port === port) nodePorts.push({ forwarding, frontend });
      } else if (sameBytes(frontend.address.bytes, address.bytes)) {
        near.push({ forwarding, frontend });
      }
    }
  }
  const isMeant = ({ forwarding, frontend }: Holder): boolean =>
    frontend.port === port &&
    (protocol ?? forwarding.servicePort.protocol) === protocolOf(forwarding);
  // An address and port of a Service is looked up before a node port.
  const holder =
    first(near.filter(isMeant)) ??
    (acceptsNodePorts ? first(nodePorts.filter(isMeant)) : undefined);
  return { holder, near: near.filter((one) => one !== holder), nodePorts };
}

const order = ['TCP', 'UDP', 'SCTP'] as const satisfies readonly Protocol[];

/** Without a protocol in the question, TCP comes first, then UDP. */
function first(holders: readonly Holder[]): Holder | undefined {
  const rank = ({ forwarding }: Holder): number => order.indexOf(protocolOf(forwarding));
  return holders.toSorted((a, b) => rank(a) - rank(b))[0];
}

function protocolOf({ servicePort }: Forwarding): Protocol {
  return servicePort.protocol;
}

/** Whether it is an address of this node, and whether node ports are open on it. */
export function judgeAddress(
  { config, environment }: Setting,
  { nodeSockets = noSockets }: ResolveContext,
  address: Address,
): { readonly isOwn: boolean; readonly acceptsNodePorts: boolean } {
  const { addresses } = nodeSockets;
  const isLocalhost = isLoopback(address);
  const isOwn = isLocalhost || addresses.has(addressKey(address));
  if (isLocalhost) return { isOwn, acceptsNodePorts: config.localhostNodePorts };
  const { nodePortAddresses: open } = environment;
  const acceptsNodePorts =
    open === 'all' ? isOwn : open.some(({ bytes }) => sameBytes(bytes, address.bytes));
  return { isOwn, acceptsNodePorts };
}

export function blockOf(cidrs: readonly CIDR[], address: Address): CIDR | undefined {
  return cidrs.find((cidr) => cidrContains(cidr, address));
}
