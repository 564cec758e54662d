/** Answers `/fairlead/v1/explain`. */
import type { Explained, Explanation } from '../../../ask/explanation.ts';
import { apiVersion } from '../../../ask/paths.ts';
import { pathDescribers } from '../../../modes/index.ts';
import { formatAddress, isLoopback } from '../../../net/address.ts';
import { type Protocol, protocols } from '../../../net/protocol.ts';
import type { Seen } from '../../../state/resolve.ts';
import { serviceKey } from '../../../state/types.ts';
import type { Pacer } from '../../../time/pacer.ts';
import type { AgentState } from '../agent-state.ts';
import { answerPacer } from '../answer-pacer.ts';
import { serviceAddresses, unknownNodeProblems } from '../endpoint-problems.ts';
import { Refusal } from '../refusal.ts';
import { readClient } from './client.ts';
import type { ExplainInput } from './input.ts';
import { withoutHolder } from './no-holder.ts';
import { nodeWarningsOf, obstaclesOf, unroutable } from './obstacles.ts';
import { pathOf } from './path.ts';
import { readQuestion } from './question.ts';
import { claimed, type Holder, searchBoth } from './search.ts';
import { seenOf } from './selection.ts';
import { isInForce, warningsOf } from './warnings.ts';

/** Throws a Refusal. */
export async function explanationOf(
  agent: AgentState,
  query: URLSearchParams,
): Promise<Explanation> {
  const pacer = answerPacer(agent);
  const { protocols, input } = await inputOf(agent, query, pacer);
  const first = await explain(input, pacer);
  const also: Explained[] = [];
  for (const protocol of protocols.slice(1)) {
    also.push(await explain({ ...input, target: { ...input.target, protocol } }, pacer));
  }
  return { apiVersion, kind: 'Explanation', ...first, ...(also.length > 0 && { also }) };
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
      ...warningsOf(input, holder, desired),
      ...services.map(({ text }) => text()),
      ...unknownNodes(input, seen),
      ...routes.map(({ text }) => text),
      ...obstacles.map(({ text }) => text()),
      ...(await nodeWarningsOf(input, holder, obstacles)),
    ],
    unreachable: unreachable([...services, ...routes, ...obstacles], holder),
    service: holder && serviceOf(input, holder),
    ...(holder === undefined
      ? await withoutHolder(input, inForce, pacer)
      : await pathOf(input, holder, seen)),
  };
}

/** An obstacle without an endpoint is before all of them. */
function unreachable(
  found: readonly { readonly endpoint: string | undefined }[],
  holder: Holder | undefined,
): string[] {
  const named = found.map(({ endpoint }) => endpoint);
  const all = named.includes(undefined) && holder !== undefined ? addressesOf(holder) : [];
  return [...new Set([...named.filter((one) => one !== undefined), ...all])];
}

/** The most addresses that are listed. */
const addressesMax = 100;

function addressesOf({ forwarding: { cluster, local } }: Holder): string[] {
  const list = cluster.length > 0 ? cluster : local;
  const count = Math.min(list.length, addressesMax);
  return Array.from({ length: count }, (_, i) => formatAddress(list.address(i)));
}

interface Asked {
  readonly input: ExplainInput;
  /** The frontends to explain; the first is that of `input`. */
  readonly protocols: readonly Protocol[];
}

async function inputOf(agent: AgentState, query: URLSearchParams, pacer: Pacer): Promise<Asked> {
  const engine = agent.engine();
  if (engine === undefined) throw new Refusal(503, 'it is starting: nothing is programmed yet');
  const asked = await readQuestion(query.get('to') ?? '', agent.state, pacer);
  const { family } = asked.address;
  const sync = engine.families.find((one) => one.family === family);
  const setting = engine.setting(family);
  if (sync === undefined || setting === undefined) {
    throw new Refusal(404, `this proxy does not serve ${family}`);
  }
  const { config } = setting;
  const { context } = engine;
  const client = await readClient({ agent, config, context, to: asked.address, query });
  const isBySocket = setting.localhost === 'sockets' && isLoopback(asked.address);
  const describer = pathDescribers[isBySocket ? 'userspace' : agent.mode().name];
  const { protocols, ...place } = asked;
  const all =
    protocols.length > 0 ? protocols : protocolsAt({ engine, agent, sync, target: place });
  const target = { ...place, protocol: all[0]! };
  return { input: { agent, engine, sync, setting, describer, target, client }, protocols: all };
}

/** TCP, which an address alone means, and the other protocols with which Services have it. */
function protocolsAt(place: Parameters<typeof claimed>[0]): Protocol[] {
  return protocols.filter((one) => one === 'TCP' || claimed(place, one) !== undefined);
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
