/** Finds the frontend at an address and port, and similar frontends. */
import type { Destination } from '../../../modes/packet-path.ts';
import { type Address, isLoopback } from '../../../net/address.ts';
import { EndpointList } from '../../../net/endpoint-list.ts';
import type { Protocol } from '../../../net/protocol.ts';
import { frontendKey } from '../../../state/frontend-key.ts';
import { rangeOf } from '../../../state/frontends-in-force.ts';
import { noSockets } from '../../../state/node-sockets.ts';
import { hasPort } from '../../../state/port-range.ts';
import type { ResolveContext } from '../../../state/resolve.ts';
import type { Forwarding, Frontend } from '../../../state/types.ts';
import { inTurns, type Pacer } from '../../../time/pacer.ts';
import type { RunningEngine, Setting } from '../agent-state.ts';
import type { ExplainInput } from './input.ts';
import type { Target } from './question.ts';

/** A frontend and its Forwarding. */
export interface Holder {
  readonly forwarding: Forwarding;
  readonly frontend: Frontend;
}

/** The result of a search. If there is a holder, similar frontends may be left out. */
export interface SearchResult {
  /** The frontend that matches a packet to the address and port. */
  readonly holder: Holder | undefined;
  /** Frontends of the address with another port or protocol. */
  readonly similar: readonly Holder[];
  /** Node ports with this number, even if the address does not accept node ports. */
  readonly nodePorts: readonly Holder[];
}

/** What is in force at the address and port, otherwise the desired holder. */
export async function searchBoth(
  input: Pick<ExplainInput, 'engine' | 'setting' | 'sync' | 'target'>,
  pacer: Pacer,
): Promise<{ readonly inForce: SearchResult; readonly desired: Holder | undefined }> {
  const { engine, setting, sync, target } = input;
  const holder = holderAt(engine, target, target.protocol);
  if (holder !== undefined) {
    return { inForce: { holder, similar: [], nodePorts: [] }, desired: undefined };
  }
  const { acceptsNodePorts } = classifyAddress(setting, engine.context, target.address);
  const inForce = await search(sync.inForce.values(), target, acceptsNodePorts, pacer);
  if (inForce.holder !== undefined) return { inForce, desired: undefined };
  const desired = await search(sync.desired.values(), target, acceptsNodePorts, pacer);
  return { inForce, desired: desired.holder };
}

/** The frontend in force at the address and port. Searching all Services takes milliseconds. */
export function holderAt(
  { frontends }: Pick<RunningEngine, 'frontends'>,
  { address, port }: Pick<Target, 'address' | 'port'>,
  protocol: Protocol,
): Holder | undefined {
  const holders = frontends[address.family]?.of(protocol);
  const key = frontendKey({ address, port });
  const forwarding = holders?.get(key) ?? (holders && rangeOf(holders, key, port));
  const frontend = forwarding?.frontends.find((one) => hasPort(one, port) && isAt(one, address));
  return frontend && holderOf(forwarding!, frontend, port);
}

/** The endpoints of a range of ports are met at the port of the packet. */
function holderOf(forwarding: Forwarding, frontend: Frontend, port: number): Holder {
  if (frontend.lastPort === undefined) return { forwarding, frontend };
  const { cluster, hairpin, local, serving } = forwarding;
  const at = (list: EndpointList): EndpointList => {
    const all = Array.from({ length: list.length }, (_, i) => ({ address: list.address(i), port }));
    return EndpointList.of(list.family, all);
  };
  const pools = {
    cluster: at(cluster),
    hairpin: at(hairpin),
    local: at(local),
    serving: at(serving),
  };
  return { forwarding: { ...forwarding, ...pools }, frontend };
}

async function search(
  forwardings: Iterable<Forwarding>,
  { address, port, protocol }: Target,
  acceptsNodePorts: boolean,
  pacer: Pacer,
): Promise<SearchResult> {
  const similar: Holder[] = [];
  const nodePorts: Holder[] = [];
  await inTurns(forwardings, pacer.pause, (forwarding) => {
    for (const frontend of forwarding.frontends) {
      if (frontend.address === undefined) {
        if (frontend.port === port) nodePorts.push({ forwarding, frontend });
      } else if (isAt(frontend, address)) {
        similar.push({ forwarding, frontend });
      }
    }
  });
  const isMeant = ({ forwarding, frontend }: Holder): boolean =>
    hasPort(frontend, port) && protocol === protocolOf(forwarding);
  // The address and port of a Service match before a node port.
  const exact = similar.find((one) => isMeant(one) && one.frontend.lastPort === undefined);
  const holder =
    exact ?? similar.find(isMeant) ?? (acceptsNodePorts ? nodePorts.find(isMeant) : undefined);
  const met = holder && holderOf(holder.forwarding, holder.frontend, port);
  return { holder: met, similar: similar.filter((one) => one !== holder), nodePorts };
}

function isAt(frontend: Frontend, { key }: Address): boolean {
  return frontend.address?.key === key;
}

function protocolOf({ servicePort }: Forwarding): Protocol {
  return servicePort.protocol;
}

/** The frontend as the destination of the packet. */
export function destinationOf(
  { engine, setting, target: { address } }: ExplainInput,
  holder: Holder,
): Destination {
  return { ...holder, address, isOwn: classifyAddress(setting, engine.context, address).isOwn };
}

/** Whether it is an address of this node, and whether it accepts node ports. */
export function classifyAddress(
  { environment, localhost }: Setting,
  { nodeSockets = noSockets }: ResolveContext,
  address: Address,
): { readonly isOwn: boolean; readonly acceptsNodePorts: boolean } {
  const { addresses } = nodeSockets;
  const isLocalhost = isLoopback(address);
  const isOwn = isLocalhost || addresses.has(address.key);
  if (isLocalhost) return { isOwn, acceptsNodePorts: localhost !== 'nothing' };
  const { nodePortAddresses: open } = environment;
  const acceptsNodePorts = open === 'all' ? isOwn : open.some(({ key }) => key === address.key);
  return { isOwn, acceptsNodePorts };
}
