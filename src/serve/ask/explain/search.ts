/** Finds the frontend at an address and port, and similar frontends. */
import { type Address, isLoopback } from '../../../net/address.ts';
import type { Protocol } from '../../../net/protocol.ts';
import { noSockets } from '../../../state/node-sockets.ts';
import type { ResolveContext } from '../../../state/resolve.ts';
import { type Forwarding, type Frontend, forwardingKey } from '../../../state/types.ts';
import { inTurns, type Pacer } from '../../../time/pacer.ts';
import type { Setting } from '../agent-state.ts';
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
  readonly near: readonly Holder[];
  /** Node ports with this number, even if the address does not accept node ports. */
  readonly nodePorts: readonly Holder[];
}

/** What is in force at the address and port, otherwise the desired holder. */
export async function searchBoth(
  input: Pick<ExplainInput, 'engine' | 'agent' | 'setting' | 'sync' | 'target'>,
  pacer: Pacer,
): Promise<{ readonly inForce: SearchResult; readonly desired: Holder | undefined }> {
  const { engine, setting, sync, target } = input;
  const holder = claimed(input, target.protocol);
  if (holder !== undefined) {
    return { inForce: { holder, near: [], nodePorts: [] }, desired: undefined };
  }
  const { acceptsNodePorts } = classifyAddress(setting, engine.context, target.address);
  const inForce = await search(sync.inForce.values(), target, acceptsNodePorts, pacer);
  if (inForce.holder !== undefined) return { inForce, desired: undefined };
  const desired = await search(sync.desired.values(), target, acceptsNodePorts, pacer);
  return { inForce, desired: desired.holder };
}

/**
 * The frontend in force at the address and port, found by the Service that claims it: this answers
 * most questions, and searching all Services takes milliseconds.
 */
export function claimed({ engine, agent, sync, target }: Place, protocol: Protocol) {
  const { address, port } = target;
  const key = engine.owners.ownerOf(sync.family, protocol, { address, port });
  const service = key === undefined ? undefined : agent.state.service(key);
  for (const one of service?.ports ?? []) {
    if (one.protocol !== protocol) continue;
    const { name, namespace } = service!;
    const forwarding = sync.inForce.get(
      forwardingKey({ namespace, name, port: one.name, protocol }),
    );
    const frontend = forwarding?.frontends.find((its) => its.port === port && isAt(its, address));
    if (frontend !== undefined) return { forwarding: forwarding!, frontend };
  }
  return undefined;
}

interface Place extends Pick<ExplainInput, 'engine' | 'agent' | 'sync'> {
  readonly target: Pick<Target, 'address' | 'port'>;
}

async function search(
  forwardings: Iterable<Forwarding>,
  { address, port, protocol }: Target,
  acceptsNodePorts: boolean,
  pacer: Pacer,
): Promise<SearchResult> {
  const near: Holder[] = [];
  const nodePorts: Holder[] = [];
  await inTurns(forwardings, pacer.pause, (forwarding) => {
    for (const frontend of forwarding.frontends) {
      if (frontend.address === undefined) {
        if (frontend.port === port) nodePorts.push({ forwarding, frontend });
      } else if (isAt(frontend, address)) {
        near.push({ forwarding, frontend });
      }
    }
  });
  const isMeant = ({ forwarding, frontend }: Holder): boolean =>
    frontend.port === port && protocol === protocolOf(forwarding);
  // The address and port of a Service match before a node port.
  const holder = near.find(isMeant) ?? (acceptsNodePorts ? nodePorts.find(isMeant) : undefined);
  return { holder, near: near.filter((one) => one !== holder), nodePorts };
}

function isAt(frontend: Frontend, { key }: Address): boolean {
  return frontend.address?.key === key;
}

function protocolOf({ servicePort }: Forwarding): Protocol {
  return servicePort.protocol;
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
