/** What happens to a packet, for people. */
import { joinHostPort } from '../../net/address.ts';
import type { Explained, Explanation } from '../explanation.ts';
import { type Block, bad, type Fact } from '../view.ts';

/** One of each protocol. */
export function explainedOf({ also = [], ...first }: Explanation): Explained[] {
  return [first, ...also];
}

/** `wide`: with the endpoints. */
export function explanationBlocks(answer: Explanation, wide: boolean): Block[] {
  return explainedOf(answer).flatMap((one) => viewOf(one, wide));
}

const clientWords = {
  pod: 'a pod',
  node: 'the node itself',
  outside: 'a client outside the cluster',
} as const;

function viewOf(explained: Explained, wide: boolean): Block[] {
  const { endpoints, from, outcome, steps, summary, to, warnings } = explained;
  const isHealthy = outcome === 'endpoint';
  const outcomeText = outcome === 'nobody' ? 'no Service' : outcome;
  const facts: Fact[] = [
    ['Packet', `to ${joinHostPort(to.address, to.port)}/${to.protocol}`],
    ...warnings.map((warning): Fact => ['Warning', bad(warning)]),
    ['Outcome', { text: outcomeText, tone: isHealthy ? 'good' : 'bad' }],
    ['Because', summary],
    ['Client', `${clientWords[from.kind]}, because ${from.because}`],
  ];
  return [{ facts }, { steps }, ...(wide && endpoints.length > 0 ? [{ list: endpoints }] : [])];
}
