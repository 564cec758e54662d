/** What happens to a packet to a frontend, step by step. */

import type { Explanation } from '../../../ask/explanation.ts';
import { counted, firstNames } from '../../../ask/words.ts';
import type { DescribedPath } from '../../../modes/packet-path.ts';
import { allowedClients, selfClients } from '../../../modes/source-ranges.ts';
import { formatAddress, formatCIDR } from '../../../net/address.ts';
import { sameBytes } from '../../../net/bytes.ts';
import type { Seen } from '../../../state/resolve.ts';
import { type Forwarding, serviceKey } from '../../../state/types.ts';
import { describeHolder, type ExplainInput, targetText } from './input.ts';
import { destinationOf, type Holder } from './search.ts';
import { selectionOf, whyNoEndpoint } from './selection.ts';

type Step = Explanation['steps'][number];

export type Answer = Pick<Explanation, 'outcome' | 'summary' | 'steps' | 'endpoints'>;

/** The most endpoints that the answer lists. */
const listedMax = 500;
/** What becomes of a packet that no rule concerns. */
export const untouched =
  'This proxy does nothing with the packet: it goes where the node routes it.';
/** The most endpoints that a step names. */
const namedMax = 4;

export async function pathOf(
  input: ExplainInput,
  holder: Holder,
  seen: Seen | undefined,
): Promise<Answer> {
  const { forwarding, frontend } = holder;
  const { client, describer, setting } = input;
  const way = describer.describe(setting.config, destinationOf(input, holder), client.kind);
  const subject = `${targetText(input)} is ${describeHolder(forwarding, frontend)}`;
  const steps: Step[] = [{ text: `${subject}.`, object: way.objects.frontend }];
  const admission = admissionOf(input, holder);
  if (admission !== undefined) {
    steps.push({ text: admission.text, object: way.objects.sourceRanges });
    if (!admission.isIn) return { outcome: 'dropped', ...end(subject, admission.text, steps) };
  }
  if (way.end !== 'endpoint') {
    const because = refusalOf(input, holder, seen);
    const fate = way.end === 'routed' ? untouched : `The packet is ${way.end}.`;
    const text = `${fate} ${because}`;
    steps.push({ text, object: way.objects.refusal });
    return { outcome: way.end, ...end(subject, text, steps) };
  }
  const affinity = await affinityOf(input, holder, way);
  const selection = seen === undefined ? [] : selectionOf(input, seen, way.pool);
  steps.push(...affinity, ...towards(holder, way, input, selection));
  const pool = forwarding[way.pool];
  steps.push(...laterPackets(input, forwarding));
  const endpoints = pool.texts(listedMax);
  const masquerade = way.isMasqueraded ? 'masqueraded' : 'with the address of the client';
  const goes = `goes to ${oneOf(pool.length)}, ${masquerade}`;
  return { outcome: 'endpoint', summary: `${subject}: it ${goes}.`, steps, endpoints };
}

/** The packets of a connection that has been made. */
function laterPackets({ client, agent }: ExplainInput, { servicePort }: Forwarding): Step[] {
  const fastPath = agent.fastPath;
  if (fastPath.state.kind !== 'flowtable' || client.kind === 'node') return [];
  if (servicePort.protocol === 'SCTP' || !fastPath.takes(serviceKey(servicePort))) return [];
  const { packets } = fastPath.state;
  const text = `After ${counted(packets, 'packet')} a connection takes the fast path: later packets meet no rules.`;
  return [{ text, object: 'flowtable inet fairlead-fast-path services' }];
}

async function affinityOf(
  { client, describer, agent, setting }: ExplainInput,
  { forwarding }: Holder,
  { objects, pool }: DescribedPath,
): Promise<Step[]> {
  const { affinityTimeoutSeconds: seconds } = forwarding;
  if (seconds === 0) return [];
  const { address } = client;
  const { config } = setting;
  const known =
    address && (await describer.remembered?.(agent.kernel, config, forwarding, pool, address));
  const text =
    address === undefined || known === undefined
      ? `Session affinity: a client that was here within ${seconds} s gets the endpoint that it had.`
      : `Session affinity: ${formatAddress(address.bytes)} gets ${known}, which it had within ${seconds} s.`;
  return [{ text, object: objects.affinity }];
}

function end(subject: string, because: string, steps: readonly Step[]) {
  return { summary: `${subject}. ${because}`, steps, endpoints: [] };
}

function oneOf(count: number): string {
  return count === 1 ? 'its only endpoint' : `one of ${count} endpoints`;
}

function refusalOf(input: ExplainInput, { frontend }: Holder, seen: Seen | undefined): string {
  if (frontend.paths.outside.to === 'reject') {
    return seen === undefined ? 'Its Service has gone.' : whyNoEndpoint(input, seen);
  }
  const policy = frontend.kind === 'clusterIP' ? 'internalTrafficPolicy' : 'externalTrafficPolicy';
  const others = seen === undefined ? [] : selectionOf(input, seen, 'local');
  return [`${policy} is Local, and no endpoint of this node can be used.`, ...others].join(' ');
}

function towards(
  { forwarding }: Holder,
  way: DescribedPath,
  { client }: ExplainInput,
  selection: readonly string[],
): Step[] {
  const { hairpin } = forwarding;
  const { because, isMasqueraded, objects, pool } = way;
  const list = forwarding[pool];
  const named = firstNames(list.texts(namedMax), list.length);
  const whose = pool === 'local' ? ' of this node' : '';
  const steps: Step[] = [];
  const goes = list.length === 1 ? 'Its only endpoint' : `One of ${list.length} endpoints`;
  steps.push({ text: `${goes}${whose} is taken: ${named}.`, object: objects.endpoints });
  steps.push(...selection.map((text) => ({ text })));
  const masqueraded = isMasqueraded ? 'It is masqueraded' : 'It is not masqueraded';
  const object = isMasqueraded ? objects.mark : undefined;
  steps.push({ text: `${masqueraded}: ${because}.`, object });
  if (isMasqueraded || hairpin.length === 0 || objects.hairpin === undefined) return steps;
  if (!mayBeEndpoint(client, forwarding)) return steps;
  const text = 'If the endpoint is the client itself, it is masqueraded, so that it can answer.';
  return [...steps, { text, object: objects.hairpin }];
}

/** Whether the client may be an endpoint of this node. */
function mayBeEndpoint(
  { address, kind }: ExplainInput['client'],
  { hairpin }: Forwarding,
): boolean {
  if (address === undefined) return kind === 'pod';
  for (let i = 0; i < hairpin.length; i += 1) {
    if (sameBytes(hairpin.address(i), address.bytes)) return true;
  }
  return false;
}

/**
 * Whether source ranges let a client in. Undefined when there are none: all clients may connect.
 */
function admissionOf(
  { client, engine }: ExplainInput,
  { forwarding, frontend }: Holder,
): { readonly isIn: boolean; readonly text: string } | undefined {
  const allowed = allowedClients(forwarding, frontend);
  if (allowed === undefined) return undefined;
  const ranges = `loadBalancerSourceRanges (${forwarding.sourceRanges.map(formatCIDR).join(', ')})`;
  const address = addressIn(client, engine.context.nodeAddresses, forwarding);
  if (address === undefined) {
    return { isIn: true, text: `Only clients in ${ranges} are let in: this one is taken for one.` };
  }
  const isSelf = selfClients(forwarding, frontend).some(({ bytes }) => sameBytes(bytes, address));
  const isIn = isSelf || allowed.holds(address);
  const where = isIn ? 'is let in: it is in' : 'is dropped: it is in none of';
  return { isIn, text: `The client ${formatAddress(address)} ${where} ${ranges}.` };
}

/** The address of the client, if it is known. */
function addressIn(
  { address, kind }: ExplainInput['client'],
  nodeAddresses: ExplainInput['engine']['context']['nodeAddresses'],
  { family }: Forwarding,
): Uint8Array | undefined {
  if (address !== undefined) return address.bytes;
  if (kind !== 'node') return undefined;
  return nodeAddresses.find((own) => own.family === family)?.bytes;
}
