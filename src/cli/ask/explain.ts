/** `fairlead explain`: what becomes of a packet, and why. */
import type { Explanation } from '../../ask/explanation.ts';
import { explainOptions } from '../../config/commands.ts';
import type { AskCommand } from './command.ts';
import { type AskOptions, UsageError } from './options.ts';
import { pairs } from './words.ts';

export const explainCommand: AskCommand<'explain'> = {
  question: 'explain',
  options: explainOptions,
  query: (given) => ({ to: onlyWord(given), ...fromOf(given) }),
  isWell: ({ outcome }) => outcome === 'endpoint',
  print: (explanation, wide) =>
    [pairs(summary(explanation)), ...steps(explanation, wide)].join('\n'),
};

function onlyWord({ words }: AskOptions): string {
  const [word, extra] = words;
  if (word === undefined) throw new UsageError('an ADDRESS:PORT or NAMESPACE/NAME:PORT is missing');
  if (extra !== undefined) throw new UsageError(`unknown argument "${extra}"`);
  return word;
}

function fromOf({ values: { from } }: AskOptions): { readonly from?: string } {
  return from === undefined ? {} : { from };
}

function summary({ from, outcome, summary, warnings }: Explanation): [string, string][] {
  const client = from.address === undefined ? from.kind : `${from.address} (${from.kind})`;
  return [
    ...warnings.map((warning): [string, string] => ['Warning', warning]),
    ['Outcome', `${outcome === 'nobody' ? 'no Service' : outcome}`],
    ['Because', summary],
    ['Client', `${client}: ${from.because}`],
  ];
}

function steps({ endpoints, steps: all }: Explanation, wide: boolean): string[] {
  const lines = all.flatMap(({ object, text }, i) => {
    const number = `${i + 1}.`.padEnd(4);
    return [`${number}${text}`, ...(object === undefined ? [] : [`    ${object}`])];
  });
  const list = wide && endpoints.length > 0 ? [`${endpoints.join('\n')}\n`] : [];
  return [`${lines.join('\n')}\n`, ...list];
}
