/** `fairlead explain`: what happens to a packet, and why. */
import type { Explained, Explanation } from '../../ask/explanation.ts';
import { type Block, bad, type Fact } from '../../ask/view.ts';
import { joinHostPort } from '../../net/address.ts';
import type { Given } from '../command.ts';
import { asking } from './command.ts';
import { readTarget } from './names.ts';

export const run = asking<'explain'>({
  question: 'explain',
  query: (given) => ({ to: readTarget(given.words[0]!, given), ...fromOf(given) }),
  isHealthy: (answer) =>
    all(answer).every(({ outcome, unreachable }) => {
      return outcome === 'endpoint' && unreachable.length === 0;
    }),
  view: (answer, { wide }) => all(answer).flatMap((one) => viewOf(one, wide)),
});

/** One of each protocol. */
function all({ also = [], ...first }: Explanation): Explained[] {
  return [first, ...also];
}

function fromOf({ values: { from } }: Given): { readonly from?: string } {
  return from === undefined ? {} : { from };
}

const clientWords = {
  pod: 'a pod',
  node: 'the node itself',
  outside: 'somebody outside the cluster',
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
