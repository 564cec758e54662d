/** The answers of a node to the questions of `kubectl fairlead`. */
import type { Diff } from '../../../ask/difference.ts';
import type { Answer, EndpointName } from '../../../ask/endpoints.ts';
import type { Explanation } from '../../../ask/explanation.ts';
import type { ProblemList } from '../../../ask/problems.ts';
import type { ServiceAnswer } from '../../../ask/service.ts';
import type { Status } from '../../../ask/status.ts';
import { differenceWords } from '../../../ask/views/difference.ts';
import { explainedOf, explanationBlocks, isDelivered } from '../../../ask/views/explanation.ts';
import { joinHostPort } from '../../../net/address.ts';
import { anyMark, blocksText } from '../../text.ts';
import { Refusal } from '../refusal.ts';
import { type Line, reportText } from './lines.ts';

type Ask = <Name extends EndpointName>(name: Name) => Answer<Name> | Promise<Answer<Name>>;

/** The questions that have reports. They reject as `ask` does. */
export const reports = {
  status: async (ask: Ask) => statusLines(await ask('status'), Date.now()),
  service: async (ask: Ask) => serviceLines(await ask('service')),
  problems: async (ask: Ask) => {
    const problems = problemLines(await ask('problems'));
    return [...problems, ...natureLines(await ask('status'))];
  },
  diff: async (ask: Ask) => diffLines(await ask('diff')),
  explain: async (ask: Ask) => explanationLines(await ask('explain')),
} as const;

/** The text of a report, also if the question is refused. */
export async function reportOf(name: keyof typeof reports, ask: Ask): Promise<string> {
  try {
    return reportText(await reports[name](ask));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return reportText([['refused', error.message]]);
  }
}

const isQuiet = ({ state }: Status['watches'][number]): boolean =>
  state === 'silent' || state === 'missing';

/** What most nodes have in common. */
function natureLines({ configHash, mode, version }: Status): Line[] {
  return [
    ['mode', mode.name],
    ['version', version],
    ['config', configHash],
  ];
}

/** `nowMs`: milliseconds since the epoch, by the clock of this node, which wrote the times. */
function statusLines(status: Status, nowMs: number): Line[] {
  const { conntrack, families, services, watches } = status;
  const syncs = families.map(({ lastSync }) => lastSync);
  const ages = syncs.map((sync) => (sync ? nowMs - Date.parse(sync.time) : Number.NaN));
  // A family without changes may have had no sync for long.
  const newest = Math.min(...ages.filter((age) => !Number.isNaN(age))) / 1000;
  return [
    ['node', status.node],
    ['healthy', status.healthy ? 'yes' : 'no'],
    ...natureLines(status),
    ...(Number.isFinite(newest)
      ? [
          [
            'last-sync',
            Math.max(0, Math.round(newest)),
            syncs.every((sync) => sync?.ok) ? 'ok' : 'failed',
          ],
        ]
      : []),
    [
      'silent',
      watches
        .filter(isQuiet)
        .map(({ resource }) => resource)
        .join(','),
    ],
    ...(conntrack === undefined ? [] : [['conntrack', conntrack.entries, conntrack.limit]]),
    ['services', services.known, services.waiting, services.setAside],
    ...status.problems.map((text) => ['problem', text]),
    ...status.remarks.map((text) => ['remark', text]),
  ];
}

/** The most endpoints of a report; the plugin shows fewer. */
const endpointsMax = 1000;

function serviceLines(service: ServiceAnswer): Line[] {
  const { observed, ports } = service;
  const used = ports.flatMap(({ endpoints }) =>
    endpoints
      .filter(({ usedBy }) => usedBy.length > 0)
      .map(({ address, port }) => joinHostPort(address, port)),
  );
  const names = [...new Set(used)].sort();
  return [
    ['state', service.state],
    ['observed', observed.service ?? ''],
    ...observed.slices.map(({ name, revision = '' }) => ['slice', name, revision]),
    ['used', names.length],
    ...names.slice(0, endpointsMax).map((name) => ['endpoint', name]),
    ...service.problems.map((text) => ['problem', text]),
  ];
}

function problemLines({ continue: next, items, node, proxy, remarks }: ProblemList): Line[] {
  return [
    ['node', node],
    ...proxy.map((text) => ['problem', 'node', text]),
    ...remarks.map((text) => ['remark', text]),
    ...items.flatMap(({ name, namespace, problems }) =>
      problems.map(({ text }) => ['problem', `${namespace}/${name}`, text]),
    ),
    ...(next === undefined ? [] : [['more', items.length]]),
  ];
}

function diffLines({ families, healthy, setAside, stale }: Diff): Line[] {
  return [
    ['same', healthy ? 'yes' : 'no'],
    ...families.flatMap(({ compared, differenceCount, differences, family, waiting }) => [
      ['family', family, compared, differenceCount, waiting],
      ...differences
        .slice(0, differencesMax)
        .map((one) => ['difference', family, differenceWords(one)]),
    ]),
    ...(setAside > 0 ? [['difference', 'all', `${setAside} Service ports refused`]] : []),
    ...stale.map((name) => ['difference', 'all', `stale connect-time program ${name}`]),
  ];
}

const differencesMax = 100;

/** What `fairlead explain` prints. */
function explanationLines(answer: Explanation): Line[] {
  const parts = blocksText(explanationBlocks(answer, false)).split(anyMark);
  // Every second part is the letter of a mark.
  const text = parts.filter((_, i) => i % 2 === 0).join('');
  const isHealthy = explainedOf(answer).every(isDelivered);
  return [
    ['healthy', isHealthy ? 'yes' : 'no'],
    ...text
      .trimEnd()
      .split('\n')
      .map((line) => ['text', line]),
  ];
}
