/** `fairlead problems`: all problems on this node, of the proxy and of Services. */
import { reasonWords } from '../../ask/problem-reasons.ts';
import type { ProblemList } from '../../ask/problems.ts';
import { bad, type Fact, type Table, tableIf } from '../../ask/view.ts';
import { counted } from '../../ask/words.ts';
import { asking } from './command.ts';
import { namespaceOf } from './names.ts';

export const run = asking<'problems'>({
  question: 'problems',
  query: (given) => {
    const namespace = namespaceOf(given);
    return namespace ? { namespace } : {};
  },
  isHealthy: ({ items, proxy }) => items.length === 0 && proxy.length === 0,
  view: (answer) => [{ facts: head(answer) }, ...tableIf(problemsTable(answer))],
});

function problemsTable({ items }: ProblemList): Table {
  return {
    title: 'Problems',
    columns: ['Namespace', 'Name', 'Reason', 'Problem'].map((name) => ({ name })),
    headAt: 1,
    rows: items.flatMap(({ name, namespace, problems }) =>
      problems.map(({ reason, text }) => [namespace, name, bad(reasonWords(reason)), text]),
    ),
  };
}

function head({ proxy, reasons, remarks, services }: ProblemList): Fact[] {
  const { known, withProblems } = services;
  const list = reasons.map((one) => `${reasonWords(one.reason)} ${one.services}`).join(', ');
  const have = withProblems === 1 ? 'has problems' : 'have problems';
  const some = `${withProblems} of ${counted(known, 'Service')} ${have} (${list})`;
  return [
    ...(proxy.length === 0
      ? [['Proxy', { text: 'healthy', tone: 'good' }] satisfies Fact]
      : proxy.map((text): Fact => ['Proxy', bad(text)])),
    ...remarks.map((text): Fact => ['Remark', text]),
    ['Services', withProblems === 0 ? `none of ${known} has problems` : some],
  ];
}
