/**
 * What may stop a packet apart from our rules: sysctls, chains of other programs, tracked
 * connections.
 */

import { counted } from '../../../ask/words.ts';
import { notForwarded } from '../../../host/machine-checks.ts';
import { isKernelError, orElse } from '../../../kernel/errors.ts';
import { NF_INET, NFPROTO } from '../../../kernel/nft/constants.ts';
import { hookWord } from '../../../kernel/nft/words.ts';
import { formatAddress, formatEndpoint } from '../../../net/address.ts';
import { sameBytes } from '../../../net/bytes.ts';
import { endpointKeys } from '../../../net/endpoint-list.ts';
import type { Obstacle } from '../foreign-rules/foreign-rules.ts';
import { bothFamilies } from '../foreign-rules/reading.ts';
import { unroutedText } from '../unrouted.ts';
import { type ExplainInput, targetText } from './input.ts';
import { destinationOf, type Holder } from './search.ts';

/** Warnings, each a sentence. Checks that cannot be made are left out. */
export async function nodeWarningsOf(
  input: ExplainInput,
  holder: Holder | undefined,
  obstacles: readonly Obstacle[],
): Promise<string[]> {
  const entries = await orElse(staleEntries(input, holder), [], isKernelError);
  const chains = droppingChains(input, new Set(obstacles.map(({ chain }) => chain)));
  const isForwarded = holder !== undefined && hookOf(input) !== NF_INET.LOCAL_OUT;
  return [...entries, ...(isForwarded ? forwarding(input) : []), ...chains];
}

/** How many endpoints are checked for a route. */
const routesMax = 16;

/** Endpoints to which this node has no route. Rules for sources or marks are not considered. */
export async function unroutable(
  { agent: { routesTo } }: ExplainInput,
  holder: Holder | undefined,
): Promise<{ readonly endpoint: string; readonly text: string }[]> {
  if (routesTo === undefined || holder === undefined) return [];
  const { cluster, family, local } = holder.forwarding;
  const addresses = new Set<string>();
  for (const list of [local, cluster]) {
    for (let i = 0; i < list.length && addresses.size < routesMax; i += 1) {
      addresses.add(formatAddress(list.address(i)));
    }
  }
  const endpoints = [...addresses];
  const routes = await routesTo(endpoints, family);
  return endpoints.flatMap((endpoint, i) => {
    const route = routes[i]!;
    return route === 'found' ? [] : [{ endpoint, text: unroutedText(endpoint, route) }];
  });
}

function forwarding({ agent: { host }, sync }: ExplainInput): string[] {
  if (host === undefined) return [];
  return notForwarded(host, sync.family).map((text) => `${text}.`);
}

/** Rules of other programs that stop the packets of this client for certain. */
export async function obstaclesOf(
  input: ExplainInput,
  holder: Holder | undefined,
): Promise<readonly Obstacle[]> {
  const { agent, client, describer, engine, setting } = input;
  const { foreignRules } = agent;
  await foreignRules.refresh();
  if (holder === undefined) return [];
  const to = destinationOf(input, holder);
  const { isMasqueraded } = describer.describe(setting.config, to, client.kind);
  const isOfNode = client.kind === 'node';
  return foreignRules
    .obstacles([{ forwarding: holder.forwarding }], engine.interfaces, {
      address: client.address?.bytes,
      isMasqueraded,
      isPod: client.kind === 'pod',
    })
    .filter(({ hook }) => {
      if (hook === NF_INET.POST_ROUTING) return true;
      return isOfNode === (hook === NF_INET.LOCAL_OUT);
    });
}

/** The hooks that a packet to an endpoint passes and at which other chains may drop it. */
function hookOf({ client, describer }: ExplainInput): number {
  return client.kind === 'node' ? NF_INET.LOCAL_OUT : describer.endpointHook;
}

/** Base chains with policy drop, other than those of `named`. */
function droppingChains(input: ExplainInput, named: ReadonlySet<string>): string[] {
  const hook = hookOf(input);
  const own: readonly number[] = [bothFamilies, NFPROTO[input.sync.family]];
  return input.agent.foreignRules.found.all
    .filter((one) => one.isDropPolicy && one.hook === hook && own.includes(one.family))
    .filter(({ name }) => !named.has(name))
    .map(({ name }) => {
      return `Chain ${name} (hook ${hookWord(bothFamilies, hook)}) drops what none of its rules accepts: see nft list chain ${name}.`;
    });
}

const namedMax = 3;

/** Tracked connections to the address and port that lead elsewhere, and are not over. */
async function staleEntries(input: ExplainInput, holder: Holder | undefined): Promise<string[]> {
  const { client, describer, agent, sync, target } = input;
  const isTranslated = describer.endpointHook !== NF_INET.LOCAL_OUT;
  if (holder === undefined || !isTranslated) return [];
  const { forwarding: of } = holder;
  const { address, port } = target;
  const { entries } = await agent.conntrack.dump({
    family: sync.family,
    protocol: of.servicePort.protocol,
    state: 'any',
    zone: 0,
    destination: { address: address.bytes, port },
  });
  const right = endpointKeys(of.cluster, of.local, of.serving);
  const wrong: number[] = [];
  for (let i = 0; i < entries.length; i += 1) {
    const isAsked =
      client.address === undefined ||
      sameBytes(entries.address(i, 'originalSource'), client.address.bytes);
    if (isAsked && !entries.isClosed(i) && !right.has(entries.key(i, 'replySource'))) wrong.push(i);
  }
  if (wrong.length === 0) return [];
  const ways = new Set<string>();
  for (const i of wrong) {
    const from = formatAddress(entries.address(i, 'originalSource'));
    const to = entries.address(i, 'replySource');
    ways.add(`${from} to ${formatEndpoint(to, entries.port(i, 'replySource'))}`);
    if (ways.size === namedMax) break;
  }
  return [
    `Connection tracking has ${counted(wrong.length, 'connection')} to ${targetText(input)} that ` +
      `${wrong.length === 1 ? 'leads' : 'lead'} to none of its endpoints (${[...ways].join(', ')}), by ` +
      'an earlier state of it or by a rule of another program: their packets still go there.',
  ];
}
