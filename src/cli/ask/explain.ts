/** `fairlead explain`: what becomes of a packet, and why. */
import type { Explanation } from '../../ask/explanation.ts';
import { explainOptions } from '../../config/commands.ts';
import { printable } from '../../serve/printable.ts';
import type { AskCommand } from './command.ts';
import { type AskOptions, onlyWord } from './options.ts';
import { numbered, pairs } from './words.ts';

export const explainCommand: AskCommand<'explain'> = {
  question: 'explain',
  options: explainOptions,
  query: (given) => ({ to: onlyWord(given), ...fromOf(given) }),
  isHealthy: ({ outcome }) => outcome === 'endpoint',
  print: (explanation, wide) =>
    [pairs(summary(explanation)), ...steps(explanation, wide)].join('\n'),
};

function fromOf({ values: { from } }: AskOptions): { readonly from?: string } {
  return from === undefined ? {} : { from };
}

const clientWords = {
  pod: 'a pod',
  node: 'the node itself',
  outside: 'somebody outside the cluster',
} as const;

function summary({ from, outcome, summary, warnings }: Explanation): [string, string][] {
  const client = clientWords[from.kind];
  return [
    ...warnings.map((warning): [string, string] => ['Warning', warning]),
    ['Outcome', `${outcome === 'nobody' ? 'no Service' : outcome}`],
    ['Because', summary],
    ['Client', `${client}, because ${from.because}`],
  ];
}

function steps({ endpoints, steps: all }: Explanation, wide: boolean): string[] {
  const list = wide && endpoints.length > 0 ? [`${endpoints.map(printable).join('\n')}\n`] : [];
  return [numbered(all), ...list];
}
