/** What becomes of a packet that a Service gets, step by step. */
import type { Explanation } from '../../../ask/explanation.ts';
import type { Passage, Way } from '../../../modes/passage.ts';
import { allowedClients, selfClient } from '../../../modes/source-ranges.ts';
import { formatAddress, formatCIDR } from '../../../net/address.ts';
import { sameBytes } from '../../../net/bytes.ts';
import { rangesHold } from '../../../net/interval.ts';
import { type Forwarding, type Frontend, objectKey } from '../../../state/types.ts';
import { counted, describeHolder, type Scene, targetText } from './scene.ts';
import type { Holder } from './search.ts';
import { whyEmpty } from './why-empty.ts';

export type Step = Explanation['steps'][number];

export type Answer = Pick<Explanation, 'outcome' | 'summary' | 'steps' | 'endpoints'>;

/** How many endpoints are named in a step. */
const namedMax = 4;

export function wayOf(scene: Scene, holder: Holder): Answer {
  const { forwarding, frontend } = holder;
  const { client, guide, setting, target } = scene;
  const way = guide.way(setting.config, { ...holder, address: target.address }, client.kind);
  const subject = `${targetText(scene)} is ${describeHolder(forwarding, frontend)}`;
  const steps: Step[] = [{ text: `${subject}.`, object: way.places.frontend }];
  const admission = admissionOf(scene, holder);
  if (admission !== undefined) {
    steps.push({ text: `${admission.text}.`, object: way.places.sourceRanges });
    if (!admission.isIn) return { outcome: 'dropped', ...end(subject, admission.text, steps) };
  }
  if (way.end !== 'endpoint') {
    const because = refusalOf(scene, holder, way);
    const text = `The packet is ${way.end}: ${because}.`;
    steps.push({ text, object: way.places.refusal });
    return { outcome: way.end, ...end(subject, `${because}, so it is ${way.end}`, steps) };
  }
  steps.push(...towards(holder, way, scene));
  const endpoints = forwarding[way.pool].texts();
  const masquerade = way.isMasqueraded ? 'masqueraded' : 'with the address of the client';
  const goes = `goes to ${oneOf(endpoints.length)}, ${masquerade}`;
  return { outcome: 'endpoint', summary: `${subject}: it ${goes}.`, steps, endpoints };
}

function end(subject: string, because: string, steps: readonly Step[]) {
  return { summary: `${subject}: ${because}.`, steps, endpoints: [] };
}

function oneOf(count: number): string {
  return count === 1 ? 'its only endpoint' : `one of ${count} endpoints`;
}

/** Undefined: all clients may connect. */
function admissionOf(
  { client, engine }: Scene,
  { forwarding, frontend }: Holder,
): { readonly isIn: boolean; readonly text: string } | undefined {
  const allowed = allowedClients(forwarding, frontend);
  if (allowed === undefined) return undefined;
  const ranges = `loadBalancerSourceRanges (${forwarding.sourceRanges.map(formatCIDR).join(', ')})`;
  const address = addressIn(client, engine.context.nodeAddresses, forwarding);
  if (address === undefined) {
    return { isIn: true, text: `Only clients in ${ranges} are let in: this one is taken for one` };
  }
  const self = selfClient(forwarding, frontend);
  const isIn = rangesHold(allowed, address) || sameBytes(self ?? new Uint8Array(), address);
  const where = isIn ? 'is let in: it is in' : 'is dropped: it is in none of';
  return { isIn, text: `The client ${formatAddress(address)} ${where} ${ranges}` };
}

/** The address of the client, if it is known. */
function addressIn(
  { address, kind }: Scene['client'],
  nodeAddresses: Scene['engine']['context']['nodeAddresses'],
  { family }: Forwarding,
): Uint8Array | undefined {
  if (address !== undefined) return address.bytes;
  if (kind !== 'node') return undefined;
  return nodeAddresses.find((own) => own.family === family)?.bytes;
}

function refusalOf(scene: Scene, { forwarding, frontend }: Holder, { end }: Passage): string {
  const { namespace, name } = forwarding.servicePort;
  const key = objectKey(namespace, name);
  if (frontend.treatment === 'reject') return whyEmpty(scene.inside.state, key, forwarding);
  const policy = isInternal(frontend) ? 'internalTrafficPolicy' : 'externalTrafficPolicy';
  const where = 'no endpoint that it may use is on this node';
  return `${policy} is Local, and ${where}${end === 'rejected' ? ', so nothing listens' : ''}`;
}

function isInternal({ kind }: Frontend): boolean {
  return kind === 'clusterIP';
}

function towards({ forwarding }: Holder, way: Way, { client }: Scene): Step[] {
  const { affinityTimeoutSeconds: seconds, hairpin } = forwarding;
  const { because, isMasqueraded, places, pool } = way;
  const list = forwarding[pool];
  const named = list.texts().slice(0, namedMax).join(', ');
  const more = list.length > namedMax ? ` and ${counted(list.length - namedMax, 'other')}` : '';
  const whose = pool === 'local' ? ' of this node' : '';
  const steps: Step[] = [];
  if (seconds > 0) {
    const text = `Session affinity: a client that was here within ${seconds} s gets the endpoint that it had.`;
    steps.push({ text, object: places.affinity });
  }
  const goes = list.length === 1 ? 'Its only endpoint' : `One of ${list.length} endpoints`;
  steps.push({ text: `${goes}${whose} is taken: ${named}${more}.`, object: places.endpoints });
  const masqueraded = isMasqueraded ? 'It is masqueraded' : 'It is not masqueraded';
  const object = isMasqueraded ? (places.mark ?? places.masquerade) : undefined;
  steps.push({ text: `${masqueraded}: ${because}.`, object });
  if (isMasqueraded || hairpin.length === 0 || places.hairpin === undefined) return steps;
  if (!mayBeEndpoint(client, forwarding)) return steps;
  const text = 'If the endpoint is the client itself, it is masqueraded, so that it can answer.';
  return [...steps, { text, object: places.hairpin }];
}

/** Whether the client may be an endpoint of this node. */
function mayBeEndpoint({ address, kind }: Scene['client'], { hairpin }: Forwarding): boolean {
  if (address === undefined) return kind === 'pod';
  for (let i = 0; i < hairpin.length; i += 1) {
    if (sameBytes(hairpin.address(i), address.bytes)) return true;
  }
  return false;
}
