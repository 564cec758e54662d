/** The result of `fairlead service check`, for people. */
import type { ServiceCheck } from '../../ask/check.ts';
import { type Block, bad, type Cell, type Fact, tableIf } from '../../ask/view.ts';
import { counted } from '../../ask/words.ts';
import { formatPortName } from '../../net/protocol.ts';

type Tried = ServiceCheck['tried'][number];

const fine: readonly Tried['answer'][] = ['connected', 'answered', 'silent'];

/** Whether clients need it, and it does not answer. */
export function isFailure({ answer, used }: Tried): boolean {
  return used !== false && !fine.includes(answer);
}

export function viewOf(found: ServiceCheck): Block[] {
  const { leftOut, name, namespace, node, notes, problems, tried } = found;
  const facts: Fact[] = [
    ['Service', `${namespace}/${name}, as this node reaches it`],
    ...problems.map((problem): Fact => ['Problem', bad(problem)]),
    ...node.map((problem): Fact => ['Node', bad(problem)]),
    ...resultOf(found),
    ...notes.map((note): Fact => ['Note', note]),
    ...(leftOut > 0 ? [['Left out', `${counted(leftOut, 'target')}, not tried`] as Fact] : []),
  ];
  const shown = columns.filter(
    ({ always, cell }) => always || tried.some((one) => cell(one) !== undefined),
  );
  const table = {
    title: 'Answers',
    columns: shown.map(({ name }) => ({ name })),
    headAt: 1,
    rows: tried.map((one) => shown.map(({ cell }) => cell(one))),
  };
  return [{ facts }, ...tableIf(table)];
}

interface ShownColumn {
  readonly name: string;
  readonly cell: (one: Tried) => Cell;
  /** Also if no row has it. */
  readonly always?: boolean;
}

const columns: readonly ShownColumn[] = [
  { name: 'Port', always: true, cell: ({ port, protocol }) => formatPortName(port, protocol) },
  { name: 'To', always: true, cell: ({ to }) => to },
  { name: 'What', always: true, cell: ({ frontend, what }) => frontend ?? what },
  { name: 'Pod', cell: ({ pod }) => pod },
  { name: 'Node', cell: ({ node }) => node },
  {
    name: 'Used',
    always: true,
    cell: ({ used }) => (used === undefined ? undefined : used ? 'yes' : 'no'),
  },
  { name: 'Answer', always: true, cell: answerCell },
  { name: 'Took', always: true, cell: ({ tookMs }) => `${tookMs}ms` },
  { name: 'Speaks', cell: ({ speaks }) => speaks },
  { name: 'Means', always: true, cell: ({ means }) => means },
];

/** `no route` */
function answerCell({ answer }: Tried): Cell {
  return { text: answer.replaceAll('_', ' '), tone: fine.includes(answer) ? 'good' : 'bad' };
}

/** `1 of 3 endpoints in use failed` */
function resultOf({ tried }: ServiceCheck): Fact[] {
  if (tried.length === 0) {
    return [['Result', bad('nothing to try: it has no endpoint and no ClusterIP here')]];
  }
  const used = tried.filter(({ used, what }) => what === 'endpoint' && used);
  const through = tried.filter(({ what }) => what === 'service');
  return [
    ['Endpoints', failedOf(used, 'endpoint', 'in use')],
    ['Through it', failedOf(through, 'connection', 'through the Service')],
  ];
}

function failedOf(all: readonly Tried[], noun: string, which: string): Cell {
  const failed = all.filter(isFailure).length;
  const text = `${failed} of ${counted(all.length, noun)} ${which} failed`;
  return { text, tone: failed > 0 ? 'bad' : 'good' };
}
