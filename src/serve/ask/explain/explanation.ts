/** Answers `/fairlead/v1/explain`. */
import type { Explained, Explanation } from '../../../ask/explanation.ts';
import { apiVersion } from '../../../ask/paths.ts';
import { isDelivered } from '../../../ask/views/explanation.ts';
import { disabledText } from '../../../host/checks.ts';
import { pathDescribers } from '../../../modes/index.ts';
import {
  type Address,
  cidrContains,
  type Family,
  formatAddress,
  formatCIDR,
  isLoopback,
} from '../../../net/address.ts';
import { endpointKey } from '../../../net/endpoint-list.ts';
import { protocols } from '../../../net/protocol.ts';
import { externalIPNotices, formatExternalIPNotice } from '../../../state/external-ips.ts';
import { noSockets } from '../../../state/node-sockets.ts';
import type { ResolveContext, Seen } from '../../../state/resolve.ts';
import {
  type Forwarding,
  formatServicePortName,
  type Service,
  serviceKey,
} from '../../../state/types.ts';
import type { Pacer } from '../../../time/pacer.ts';
import { failureText } from '../../refusal-text.ts';
import type { AgentState, RunningEngine } from '../agent-state.ts';
import { answerPacer } from '../answer-pacer.ts';
import { serviceAddresses, unknownNodeProblems } from '../endpoint-problems.ts';
import type { Obstacle } from '../foreign-rules/foreign-rules.ts';
import { portState } from '../port-state.ts';
import { Refusal } from '../refusal.ts';
import { portsText } from '../service-names.ts';
import { readClient } from './client.ts';
import { describeHolder, type ExplainInput, targetText } from './input.ts';
import { nodeWarningsOf, obstaclesOf, unroutable } from './obstacles.ts';
import { type Answer, pathOf, untouched } from './path.ts';
import { externalTargets, type Question, readQuestion, type Target } from './question.ts';
import { classifyAddress, type Holder, holderAt, type SearchResult, searchBoth } from './search.ts';
import { seenOf } from './selection.ts';

/** Throws a Refusal. Frontends that clients outside do not reach come first. */
export async function explanationOf(
  agent: AgentState,
  query: URLSearchParams,
): Promise<Explanation> {
  const pacer = answerPacer(agent);
  const engine = agent.engine;
  if (engine === undefined) throw new Refusal(503, 'it is starting: nothing is programmed yet');
  const asked = await readQuestion(query.get('to') ?? '', agent.state, pacer);
  const external =
    query.get('from') === 'outside'
      ? externalTargets(asked, (family) => nodePortAddress(engine, family))
      : [];
  const targets = external.length > 0 ? external : targetsOf(asked, engine);
  const all: Explained[] = [];
  for (const target of targets)
    all.push(await explainTarget({ agent, engine, query }, target, pacer));
  if (external.length > 0) all.sort((a, b) => Number(isDelivered(a)) - Number(isDelivered(b)));
  const [first, ...also] = all;
  return { apiVersion, kind: 'Explanation', ...first!, ...(also.length > 0 && { also }) };
}

async function explain(input: ExplainInput, pacer: Pacer): Promise<Explained> {
  const { client, sync, target } = input;
  const { inForce, desired } = await searchBoth(input, pacer);
  const { holder } = inForce;
  const seen = holder && (await seenOf(input, holder));
  const { address, because, kind } = client;
  const services = serviceAddressesOf(input, seen);
  const routes = await unroutable(input, holder);
  const obstacles = await obstaclesOf(input, holder);
  return {
    to: {
      address: formatAddress(target.address.bytes),
      port: target.port,
      protocol: target.protocol,
      family: sync.family,
    },
    from: { kind, address: address && formatAddress(address.bytes), because },
    warnings: [
      ...insideOnly(input, holder),
      ...warningsOf(input, holder, desired),
      ...services.map(({ text }) => text()),
      ...unknownNodes(input, seen),
      ...routes.map(({ text }) => text),
      ...obstacles.map(({ text }) => text()),
      ...(await nodeWarningsOf(input, holder, obstacles)),
    ],
    unreachable: unreachable([...services, ...routes], obstacles, holder),
    service: holder && serviceOf(input, holder),
    ...(holder === undefined
      ? await withoutHolder(input, inForce, pacer)
      : await pathOf(input, holder, seen)),
  };
}

/** The question is about a Service and clients outside, for which it has no frontend. */
function insideOnly({ client, target }: ExplainInput, holder: Holder | undefined): string[] {
  const isAsked = client.kind === 'outside' && client.address === undefined;
  if (!isAsked || target.service === undefined) return [];
  if (holder?.frontend.kind !== 'clusterIP') return [];
  return ['It has no address for clients outside the cluster: this is about its ClusterIP.'];
}

/** An obstacle without endpoints is before all of them. */
function unreachable(
  found: readonly { readonly endpoint: string }[],
  obstacles: readonly Obstacle[],
  holder: Holder | undefined,
): string[] {
  const isBeforeAll = obstacles.some(({ endpoints }) => endpoints.length === 0);
  const all = isBeforeAll && holder !== undefined ? addressesOf(holder) : [];
  const behind = obstacles.flatMap(({ endpoints }) => endpoints);
  return [...new Set([...found.map(({ endpoint }) => endpoint), ...behind, ...all])];
}

/** The most addresses that are listed. */
const addressesMax = 100;

function addressesOf({ forwarding: { cluster, local } }: Holder): string[] {
  const list = cluster.length > 0 ? cluster : local;
  const count = Math.min(list.length, addressesMax);
  return Array.from({ length: count }, (_, i) => formatAddress(list.address(i)));
}

/** An address of this node that accepts node ports, or its own, which does not. */
function nodePortAddress(engine: RunningEngine, family: Family): Address | undefined {
  const open = engine.setting(family)?.environment.nodePortAddresses ?? [];
  const own = engine.context.nodeAddresses.find((address) => address.family === family);
  if (open === 'all' || open.length === 0) return own;
  return open.find(({ key }) => key === own?.key) ?? open[0];
}

type Place = Pick<ExplainInput, 'agent' | 'engine'>;

function targetsOf({ protocols: named, ...place }: Question, engine: RunningEngine): Target[] {
  if (named.length > 0) return named.map((protocol) => ({ ...place, protocol }));
  // TCP, which an address alone means, and the other protocols with which Services have it.
  const found = protocols.filter((one) => one === 'TCP' || holderAt(engine, place, one));
  return found.map((protocol) => ({ ...place, protocol }));
}

async function explainTarget(
  { agent, engine, query }: Place & { readonly query: URLSearchParams },
  target: Target,
  pacer: Pacer,
): Promise<Explained> {
  const { family } = target.address;
  const sync = engine.families.find((one) => one.family === family);
  const setting = engine.setting(family);
  if (sync === undefined || setting === undefined) return unserved(target);
  const { config } = setting;
  const { context } = engine;
  const client = await readClient({ agent, config, context, to: target.address, query });
  const isBySocket = setting.localhost === 'sockets' && isLoopback(target.address);
  const describer = pathDescribers[isBySocket ? 'userspace' : agent.mode.name];
  return explain({ agent, engine, sync, setting, describer, target, client }, pacer);
}

/** No rule of this proxy is about the family. */
function unserved({ address, port, protocol }: Target): Explained {
  const { family } = address;
  const summary = `This node does not serve ${family}: ${disabledText}.`;
  return {
    to: { address: formatAddress(address.bytes), port, protocol, family },
    from: { kind: 'outside', address: undefined, because: `nothing of ${family} is served` },
    outcome: 'nobody',
    summary,
    warnings: [],
    service: undefined,
    steps: [{ text: summary }],
    endpoints: [],
    unreachable: [],
  };
}

/** Endpoints that are addresses of Services. */
function serviceAddressesOf({ engine, agent }: ExplainInput, seen: Seen | undefined) {
  if (seen === undefined) return [];
  return serviceAddresses(engine, agent.state, serviceKey(seen.forwarding.servicePort), [seen]);
}

function unknownNodes({ agent }: ExplainInput, seen: Seen | undefined): string[] {
  if (seen === undefined) return [];
  const key = serviceKey(seen.forwarding.servicePort);
  const service = agent.state.service(key);
  if (service === undefined) return [];
  return unknownNodeProblems(service, agent.state.slices(key)).map(({ text }) => text());
}

function serviceOf(input: ExplainInput, { forwarding, frontend }: Holder): Explanation['service'] {
  const { namespace, name, port } = forwarding.servicePort;
  return { namespace, name, port, frontend: frontend.kind, inForce: isInForce(input, forwarding) };
}

/** Warnings, the most important first. `desired` is used if no Service is in force. */
function warningsOf(
  input: ExplainInput,
  inForce: Holder | undefined,
  desired: Holder | undefined,
): string[] {
  const holder = inForce ?? desired;
  return [
    ...starting(input),
    ...(holder === undefined ? [] : waiting(input, holder, inForce !== undefined)),
    ...lost(input, holder),
  ];
}

/** Whether the desired state of the Service port is in force. */
function isInForce({ agent, sync }: ExplainInput, { key, servicePort }: Forwarding): boolean {
  return portState(agent, serviceKey(servicePort), key, sync).status === 'in force';
}

function starting({ sync }: ExplainInput): string[] {
  const { phase } = sync.progress;
  if (phase === 'live') return [];
  return [`${sync.family} is starting (${phase}): its previous state may still be in force.`];
}

function waiting(input: ExplainInput, { forwarding }: Holder, holdsInForce: boolean): string[] {
  const { sync } = input;
  if (isInForce(input, forwarding)) return [];
  const { key } = forwarding;
  const name = formatServicePortName(forwarding.servicePort);
  const still = holdsInForce ? 'its previous state is still in force' : 'nothing of it is in force';
  const aside = sync.quarantined.get(key);
  if (aside !== undefined) {
    const tries = aside.attempts === 1 ? 'once' : `${aside.attempts} times`;
    const error = failureText(aside.failure);
    return [`The kernel refuses ${name} (tried ${tries}): ${error}; ${still}.`];
  }
  if (!sync.desired.has(key)) return [`${name} is to be removed, and is still in force.`];
  return [`${name} has changed, and the change is not in force yet; ${still}.`];
}

/** Warns if another Service has the address of the one that the question names. */
function lost(input: ExplainInput, holder: Holder | undefined): string[] {
  const { service } = input.target;
  if (service === undefined || holder === undefined) return [];
  const has = serviceKey(holder.forwarding.servicePort);
  if (has === service.key) return [];
  return [`${service.key} asks for ${targetText(input)}, but ${has} has it: its claim is better.`];
}

/** What happens to a packet to an address and port that no Service has. `found`: similar ones. */
async function withoutHolder(
  input: ExplainInput,
  found: SearchResult,
  pacer: Pacer,
): Promise<Answer> {
  const because = await whyNobody(input, found, pacer);
  const taken = new Set(found.similar.map(({ frontend }) => frontend.kind));
  const unclaimed = input.describer.unclaimed(
    input.setting.config,
    input.setting.environment,
    input.target.address,
    taken,
  );
  const fate =
    unclaimed === undefined
      ? { text: untouched }
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
  { similar, nodePorts }: SearchResult,
  pacer: Pacer,
): Promise<string> {
  return (
    whyNotThisPort(input, similar) ??
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
  similar: readonly Holder[],
): string | undefined {
  const [first] = similar;
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
