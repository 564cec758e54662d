/** Answers `/fairlead/v1/explain`. */
import type { Explained, Explanation } from '../../../ask/explanation.ts';
import { apiVersion } from '../../../ask/paths.ts';
import { isDelivered } from '../../../ask/views/explanation.ts';
import { disabledText } from '../../../host/checks.ts';
import { pathDescribers } from '../../../modes/index.ts';
import { type Address, type Family, formatAddress, isLoopback } from '../../../net/address.ts';
import { protocols } from '../../../net/protocol.ts';
import type { Seen } from '../../../state/resolve.ts';
import { type Forwarding, formatServicePortName, serviceKey } from '../../../state/types.ts';
import type { Pacer } from '../../../time/pacer.ts';
import { failureText } from '../../refusal-text.ts';
import type { AgentState, RunningEngine } from '../agent-state.ts';
import { answerPacer } from '../answer-pacer.ts';
import { serviceAddresses, unknownNodeProblems } from '../endpoint-problems.ts';
import type { Obstacle } from '../foreign-rules/foreign-rules.ts';
import { portState } from '../port-state.ts';
import { Refusal } from '../refusal.ts';
import { readClient } from './client.ts';
import { type ExplainInput, targetText } from './input.ts';
import { withoutHolder } from './no-holder.ts';
import { nodeWarningsOf, obstaclesOf, unroutable } from './obstacles.ts';
import { pathOf } from './path.ts';
import { externalTargets, type Question, readQuestion, type Target } from './question.ts';
import { type Holder, holderAt, searchBoth } from './search.ts';
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
