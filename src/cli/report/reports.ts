/** The answers of a node to the questions of `kubectl fairlead`. */
import type { Diff } from '../../ask/difference.ts';
import type { ProblemList } from '../../ask/problems.ts';
import type { ServiceAnswer } from '../../ask/service.ts';
import type { Status } from '../../ask/status.ts';
import { differenceWords } from '../../ask/views/difference.ts';
import { joinHostPort } from '../../net/address.ts';
import type { Line } from './lines.ts';

const isQuiet = ({ state }: Status['watches'][number]): boolean =>
  state === 'silent' || state === 'missing';

/** What most nodes have in common. */
export function natureLines({ configHash, mode, version }: Status): Line[] {
  return [
    ['mode', mode.name],
    ['version', version],
    ['config', configHash],
  ];
}

/** `nowMs`: milliseconds since the epoch, by the clock of this node, which wrote the times. */
export function statusLines(status: Status, nowMs: number): Line[] {
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

export function serviceLines(service: ServiceAnswer): Line[] {
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

export function problemLines({ continue: next, items, node, proxy }: ProblemList): Line[] {
  return [
    ['node', node],
    ...proxy.map((text) => ['problem', 'node', text]),
    ...items.flatMap(({ name, namespace, problems }) =>
      problems.map(({ text }) => ['problem', `${namespace}/${name}`, text]),
    ),
    ...(next === undefined ? [] : [['more', items.length]]),
  ];
}

export function diffLines({ families, healthy, setAside, stale }: Diff): Line[] {
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
