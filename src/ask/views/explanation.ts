/** What happens to a packet, for people. */
import { joinHostPort } from '../../net/address.ts';
import type { Explained, Explanation } from '../explanation.ts';
import { type Block, bad, type Cell, type Fact } from '../view.ts';

/** One of each protocol. */
export function explainedOf({ also = [], ...first }: Explanation): Explained[] {
  return [first, ...also];
}

/** `wide`: with the endpoints. */
export function explanationBlocks(answer: Explanation, wide: boolean): Block[] {
  return explainedOf(answer).flatMap((one) => viewOf(one, wide));
}

/** Whether the packet goes to an endpoint, and can reach it. */
export function isDelivered({ outcome, unreachable }: Explained): boolean {
  return outcome === 'endpoint' && unreachable.length === 0;
}

/** Warnings about what may still happen make it neither good nor bad. */
function outcomeCell(explained: Explained): Cell {
  const { endpoints, outcome, unreachable, warnings } = explained;
  if (outcome !== 'endpoint') return bad(outcome === 'nobody' ? 'no Service' : outcome);
  if (isDelivered(explained))
    return warnings.length > 0 ? outcome : { text: outcome, tone: 'good' };
  const starts = unreachable.map((address) => joinHostPort(address, 0).slice(0, -1));
  const isReached = (endpoint: string) => !starts.some((start) => endpoint.startsWith(start));
  const which = endpoints.some(isReached) ? `all: not ${unreachable.join(', ')}` : 'it';
  return bad(`endpoint, but packets cannot reach ${which}`);
}

const clientWords = {
  pod: 'a pod',
  node: 'the node itself',
  outside: 'a client outside the cluster',
} as const;

function viewOf(explained: Explained, wide: boolean): Block[] {
  const { endpoints, from, steps, summary, to, warnings } = explained;
  const facts: Fact[] = [
    ['Packet', `to ${joinHostPort(to.address, to.port)}/${to.protocol}`],
    ...warnings.map((warning): Fact => ['Warning', bad(warning)]),
    ['Outcome', outcomeCell(explained)],
    ['Because', summary],
    ['Client', `${clientWords[from.kind]}, because ${from.because}`],
  ];
  const all = { title: 'Endpoints', code: endpoints };
  return [{ facts }, { steps }, ...(wide && endpoints.length > 0 ? [all] : [])];
}
