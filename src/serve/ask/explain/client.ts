/** The client that sends the packet, and how rules classify it. */
import type { ModeConfig } from '../../../modes/mode.ts';
import { describeDetector } from '../../../modes/packet-path.ts';
import {
  type Address,
  cidrContains,
  formatAddress,
  isLoopback,
  parseAddress,
  parseCIDR,
} from '../../../net/address.ts';
import { noSockets } from '../../../state/node-sockets.ts';
import { type ClientKind, clientKinds } from '../../../state/paths.ts';
import type { ResolveContext } from '../../../state/resolve.ts';
import type { AgentState } from '../agent-state.ts';
import { lookedUp } from '../lookups.ts';
import { Refusal } from '../refusal.ts';

export interface Client {
  readonly kind: ClientKind;
  readonly address: Address | undefined;
  readonly because: string;
}

/** What the classification of a client depends on. */
interface Surroundings {
  readonly agent: AgentState;
  readonly config: ModeConfig;
  readonly context: ResolveContext;
  /** The destination of the packet. */
  readonly to: Address;
  readonly query: URLSearchParams;
}

/** The client that the question names, by its parameter `from`. Throws a Refusal. */
export async function readClient(surroundings: Surroundings): Promise<Client> {
  const text = surroundings.query.get('from');
  if (text === null && isLoopback(surroundings.to)) {
    const because = 'packets to a loopback address do not leave the machine';
    return { kind: 'node', address: undefined, because };
  }
  const kind = text === null ? 'pod' : clientKinds.find((one) => one === text);
  if (kind !== undefined) {
    const because = `the question names ${text === null ? 'no other client' : 'it'}`;
    return { kind, address: undefined, because };
  }
  const [, namespace, name] = /^pod\/([^/]+)\/([^/]+)$/.exec(text!) ?? [];
  if (name !== undefined) return podClient(namespace!, name, surroundings);
  const address = parseAddress(text!);
  if (address === undefined) {
    const known = 'address, pod, node, outside or pod/NAMESPACE/NAME';
    throw new Refusal(400, `from "${text}" is not one of: ${known}`);
  }
  if (address.family !== surroundings.config.family) {
    throw new Refusal(400, `from ${text} and the address that it is sent to are of two families`);
  }
  return { address, ...kindOf(address, surroundings) };
}

async function podClient(
  namespace: string,
  name: string,
  surroundings: Surroundings,
): Promise<Client> {
  const { config, agent, query } = surroundings;
  const { askers, source } = agent;
  const pod = await lookedUp({ askers, query }, (signal) =>
    source.lookup.pod(namespace, name, signal),
  );
  const addresses = pod.addresses.map((text) => parseAddress(text));
  const address = addresses.find((one) => one?.family === config.family);
  if (address === undefined) {
    throw new Refusal(404, `pod ${namespace}/${name} has no ${config.family} address`);
  }
  const { kind, because } = kindOf(address, surroundings);
  const isElsewhere = pod.nodeName !== '' && pod.nodeName !== agent.nodeName;
  const where = isElsewhere ? `; its packets meet the proxy of node ${pod.nodeName} instead` : '';
  return {
    kind,
    address,
    because: `pod ${namespace}/${name} is asked for, and ${because}${where}`,
  };
}

function kindOf(
  address: Address,
  { config, context, agent }: Surroundings,
): Pick<Client, 'kind' | 'because'> {
  const { addresses } = context.nodeSockets ?? noSockets;
  const detector = config.localDetector;
  const text = formatAddress(address.bytes);
  if (isLoopback(address) || addresses.has(address.key)) {
    return { kind: 'node', because: `${text} is an address of this node` };
  }
  if (detector.kind === 'none') {
    return { kind: 'outside', because: 'no detectLocal setting recognises pods' };
  }
  if (detector.kind === 'cidr') {
    return cidrContains(detector.cidr, address)
      ? { kind: 'pod', because: `${text} ${describeDetector(detector)}` }
      : {
          kind: 'outside',
          because: `${text} is not an address that ${describeDetector(detector)}`,
        };
  }
  // The rules match the interface, and an address does not determine it.
  const pods = (agent.state.node?.podCIDRs ?? []).map((cidr) => parseCIDR(cidr));
  const isOurs = pods.some((cidr) => cidr !== undefined && cidrContains(cidr, address));
  return isOurs
    ? { kind: 'pod', because: `${text} is of this node's podCIDRs` }
    : { kind: 'outside', because: `${text} is not of this node's podCIDRs` };
}
