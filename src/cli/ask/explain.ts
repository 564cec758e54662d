/** `fairlead explain`: what happens to a packet, and why. */
import { explainedOf, explanationBlocks, isDelivered } from '../../ask/views/explanation.ts';
import type { Given } from '../command.ts';
import { asking } from './command.ts';
import { readTarget } from './names.ts';

export const run = asking<'explain'>({
  question: 'explain',
  query: (given) => ({ to: readTarget(given.words[0]!, given), ...fromOf(given) }),
  isHealthy: (answer) => explainedOf(answer).every(isDelivered),
  view: (answer, { wide }) => explanationBlocks(answer, wide),
});

function fromOf({ values: { from } }: Given): { readonly from?: string } {
  return from === undefined ? {} : { from };
}
