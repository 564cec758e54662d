/** `fairlead problems`: all that is wrong on this node, with the proxy and with Services. */
import { reasonWords } from '../../ask/problem-reasons.ts';
import type { ProblemList } from '../../ask/problems.ts';
import { counted } from '../../ask/words.ts';
import { columns } from '../output.ts';
import { asking } from './command.ts';
import { namespaceOf } from './names.ts';
import { pairs } from './words.ts';

export const run = asking<'problems'>({
  question: 'problems',
  query: (given) => {
    const namespace = namespaceOf(given);
    return namespace ? { namespace } : {};
  },
  pages: {
    next: ({ continue: last }) => (last === undefined ? undefined : { continue: last }),
    join: ([first, ...more]) => {
      const { continue: _, ...rest } = first!;
      return { ...rest, items: [first!, ...more].flatMap(({ items }) => items) };
    },
  },
  isHealthy: ({ items, proxy }) => items.length === 0 && proxy.length === 0,
  print: (answer, { headings }) => {
    const { items } = answer;
    const rows = items.flatMap(({ name, namespace, problems }) =>
      problems.map(({ reason, text }) => [namespace, name, reasonWords(reason), text]),
    );
    const heads = headings ? [['NAMESPACE', 'NAME', 'REASON', 'PROBLEM']] : [];
    const table = columns([...heads, ...rows]);
    return rows.length === 0 ? pairs(head(answer)) : `${pairs(head(answer))}\n${table}`;
  },
});

function head({ proxy, reasons, services }: ProblemList): [string, string][] {
  const { known, withProblems } = services;
  const list = reasons.map((one) => `${reasonWords(one.reason)} ${one.services}`).join(', ');
  const have = withProblems === 1 ? 'has problems' : 'have problems';
  const some = `${withProblems} of ${counted(known, 'Service')} ${have} (${list})`;
  return [
    ...(proxy.length === 0
      ? [['Proxy', 'healthy'] as [string, string]]
      : proxy.map((text): [string, string] => ['Proxy', text])),
    ['Services', withProblems === 0 ? `none of ${known} has problems` : some],
  ];
}
