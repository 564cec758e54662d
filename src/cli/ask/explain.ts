/** `fairlead explain`: what becomes of a packet, and why. */
import type { Explained, Explanation } from '../../ask/explanation.ts';
import { joinHostPort } from '../../net/address.ts';
import { printable } from '../../serve/printable.ts';
import type { Given } from '../command.ts';
import { asking } from './command.ts';
import { readTarget } from './names.ts';
import { numbered, pairs } from './words.ts';

export const run = asking<'explain'>({
  question: 'explain',
  query: (given) => ({ to: readTarget(given.words[0]!, given), ...fromOf(given) }),
  isHealthy: (answer) => all(answer).every(({ outcome }) => outcome === 'endpoint'),
  print: (answer, { wide }) =>
    all(answer)
      .flatMap((one) => [pairs(summary(one)), ...steps(one, wide)])
      .join('\n'),
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

function summary({ from, outcome, summary, to, warnings }: Explained): [string, string][] {
  const client = clientWords[from.kind];
  return [
    ['Packet', `to ${joinHostPort(to.address, to.port)}/${to.protocol}`],
    ...warnings.map((warning): [string, string] => ['Warning', warning]),
    ['Outcome', `${outcome === 'nobody' ? 'no Service' : outcome}`],
    ['Because', summary],
    ['Client', `${client}, because ${from.because}`],
  ];
}

function steps({ endpoints, steps: all }: Explained, wide: boolean): string[] {
  const list = wide && endpoints.length > 0 ? [`${endpoints.map(printable).join('\n')}\n`] : [];
  return [numbered(all), ...list];
}
