/** Why no Service has an address and port, and what happens to a packet sent there. */
import { type Address, cidrContains, formatAddress, formatCIDR } from '../../../net/address.ts';
import { endpointKey } from '../../../net/endpoint-list.ts';
import { externalIPNotices, formatExternalIPNotice } from '../../../state/external-ips.ts';
import { noSockets } from '../../../state/node-sockets.ts';
import type { ResolveContext } from '../../../state/resolve.ts';
import {
  type Forwarding,
  formatServicePortName,
  type Service,
  serviceKey,
} from '../../../state/types.ts';
import type { Pacer } from '../../../time/pacer.ts';
import { portsText } from '../service-names.ts';
import { describeHolder, type ExplainInput, targetText } from './input.ts';
import type { Answer } from './path.ts';
import type { Target } from './question.ts';
import { classifyAddress, type Holder, type SearchResult } from './search.ts';

/** `found`: similar frontends that are in force. */
export async function withoutHolder(
  input: ExplainInput,
  found: SearchResult,
  pacer: Pacer,
): Promise<Answer> {
  const because = await whyNobody(input, found, pacer);
  const taken = new Set(found.near.map(({ frontend }) => frontend.kind));
  const unclaimed = input.describer.unclaimed(
    input.setting.config,
    input.setting.environment,
    input.target.address,
    taken,
  );
  const fate =
    unclaimed === undefined
      ? { text: 'This proxy does nothing with the packet: it goes where the node routes it.' }
      : { text: `The packet is ${unclaimed.end}.`, object: unclaimed.object };
  return {
    outcome: 'nobody',
    summary: `No Service has ${targetText(input)}: ${because}.`,
    steps: [{ text: `No Service has ${targetText(input)}: ${because}.` }, fate],
    endpoints: [],
  };
}

async function whyNobody(
  input: ExplainInput,
  { near, nodePorts }: SearchResult,
  pacer: Pacer,
): Promise<string> {
  return (
    whyNotThisPort(input, near) ??
    (await whyNotGiven(input, pacer)) ??
    whyNoNodePort(input, nodePorts) ??
    whyUnserved(input) ??
    (await whoseEndpoint(input, pacer)) ??
    whyNoAddress(input)
  );
}

/** A Service has the address, but not this port. */
function whyNotThisPort(
  { target, agent }: ExplainInput,
  near: readonly Holder[],
): string | undefined {
  const [first] = near;
  if (first === undefined) return undefined;
  const { servicePort } = first.forwarding;
  const key = serviceKey(servicePort);
  const has = portsText(agent.state.service(key)?.ports ?? []);
  const asked = `${target.port}${target.protocol === undefined ? '' : `/${target.protocol}`}`;
  const what = describeHolder(first.forwarding, first.frontend).replace(/ of .*/, '');
  return `${formatAddress(target.address.bytes)} is ${what} of ${key}, which has ${has}, not ${asked}`;
}

/** The reason, if a Service claims the address and port but does not get them. */
async function whyNotGiven(
  { engine, agent, target }: ExplainInput,
  pacer: Pacer,
): Promise<string | undefined> {
  for (const key of agent.state.serviceKeys()) {
    if (pacer.due) await pacer.rest();
    const service = agent.state.service(key);
    if (service === undefined || !asksFor(service, target.address, target.port)) continue;
    return `${key} asks for it and does not get it: ${whyKept(engine.context, service, target)}`;
  }
  return undefined;
}

/** Why the Service does not get the address. */
function whyKept(context: ResolveContext, service: Service, { address }: Target): string {
  const { externalIPRules, nodeSockets = noSockets } = context;
  const notices = externalIPNotices(service, externalIPRules, nodeSockets);
  const own = notices.find((notice) => notice.address.key === address.key);
  if (own !== undefined && own.because !== 'node') return formatExternalIPNotice(own);
  return `fairlead service show ${service.key} says who comes first`;
}

function asksFor(service: Service, { key }: Address, port: number): boolean {
  const { clusterIPs, externalIPs, loadBalancerIPs, portRange, ports } = service;
  const isIt = (address: Address): boolean => address.key === key;
  const has = [clusterIPs, externalIPs, loadBalancerIPs].some((all) => all.some(isIt));
  const isInRange = portRange !== undefined && port > portRange.first && port <= portRange.last;
  return has && (isInRange || ports.some((one) => one.port === port));
}

function whyNoNodePort(input: ExplainInput, nodePorts: readonly Holder[]): string | undefined {
  const { engine, setting, target } = input;
  const text = formatAddress(target.address.bytes);
  const { acceptsNodePorts, isOwn } = classifyAddress(setting, engine.context, target.address);
  const [first] = nodePorts;
  if (first === undefined) {
    return isOwn
      ? `${text} is this node's, and no Service has node port ${target.port}`
      : undefined;
  }
  const { protocol } = first.forwarding.servicePort;
  const whose = `${target.port} is the node port of ${formatServicePortName(first.forwarding.servicePort)}`;
  if (acceptsNodePorts) return `${whose} for ${protocol}, not for ${target.protocol}`;
  if (!isOwn) return `${whose}, but ${text} is not an address of this node`;
  const { nodePortAddresses: open } = setting.environment;
  const list = open === 'all' ? 'all but loopback' : open.map(({ bytes }) => formatAddress(bytes));
  return `${whose}, but ${text} is not among the addresses that accept node ports (${String(list)})`;
}

function whyUnserved({ agent, target }: ExplainInput): string | undefined {
  const text = formatAddress(target.address.bytes);
  for (const { addresses, because, key } of agent.state.unserved.values()) {
    if (addresses.includes(text)) return `it is of ${key}, which is not served here: ${because}`;
  }
  return undefined;
}

async function whoseEndpoint(
  { sync, target }: ExplainInput,
  pacer: Pacer,
): Promise<string | undefined> {
  for (const forwarding of sync.inForce.values()) {
    if (pacer.due) await pacer.rest();
    if (!hasEndpoint(forwarding, target.address, target.port)) continue;
    return `it is an endpoint of ${formatServicePortName(forwarding.servicePort)} itself`;
  }
  return undefined;
}

function hasEndpoint({ family, serving }: Forwarding, { bytes }: Address, port: number): boolean {
  const packed = Buffer.concat([bytes, Uint8Array.of(port >> 8, port & 0xff)]);
  // The search may match within an endpoint, so the list is compared.
  if (!serving.latin1.includes(packed.toString('latin1'))) return false;
  const key = endpointKey(family, packed, 0);
  for (let i = 0; i < serving.length; i += 1) if (serving.key(i) === key) return true;
  return false;
}

function whyNoAddress({ setting, target }: ExplainInput): string {
  const { serviceCIDRs } = setting.environment;
  const block = serviceCIDRs.find((cidr) => cidrContains(cidr, target.address));
  if (block !== undefined) return `it is not allocated in ServiceCIDR ${formatCIDR(block)}`;
  if (serviceCIDRs.length === 0) return 'no ServiceCIDR is known to which it could belong';
  return `it is in no ServiceCIDR (${serviceCIDRs.map(formatCIDR).join(', ')})`;
}
