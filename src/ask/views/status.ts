/** The health of a node's proxy, for people. */
import { formatServicePort } from '../../net/protocol.ts';
import type { Status } from '../status.ts';
import { bad, type Cell, type Fact, type Table } from '../view.ts';
import { age, counted, grouped } from '../words.ts';

/** Whether the proxy is healthy, and the most important facts. */
export function verdictFacts({ healthy, node, problems, remarks }: Status): Fact[] {
  return [
    ['Status', { text: healthy ? 'healthy' : 'unhealthy', tone: healthy ? 'good' : 'bad' }],
    ...problems.map((problem): Fact => ['Problem', bad(problem)]),
    ...remarks.map((remark): Fact => ['Remark', remark]),
    ['Node', node],
  ];
}

export function statusFacts(status: Status): Fact[] {
  const { connectTime, conntrack, mode, services, source, started, uptimeSeconds } = status;
  const server = [source.server ?? 'not known yet', source.serverVersion].filter(Boolean);
  const waiting = services.waiting > 0 ? `, ${services.waiting} not looked at yet` : '';
  const { withProblems } = services;
  const unhealthy = withProblems > 0 ? `, ${withProblems} with problems` : '';
  const isOff = connectTime.state === 'off' && connectTime.stale.unknown === undefined;
  const { failureDetection: detection, fastPath } = status;
  return [
    ['Version', `${status.version}, like kube-proxy ${status.kubernetesVersion}`],
    ['Uptime', [`${age(uptimeSeconds)}, since`, { time: started }]],
    ['Mode', `${mode.name}: ${mode.because}`],
    ...(isOff ? [] : [['Connect time', connectTimeText(status)] satisfies Fact]),
    ...(fastPath === undefined ? [] : [['Fast path', fastPathText(fastPath)] satisfies Fact]),
    ...(detection === undefined ? [] : [['Detection', detectionText(detection)] satisfies Fact]),
    [
      'Source',
      source.kind === 'manifests' ? `manifests in ${source.directory}` : server.join(', '),
    ],
    ['Services', `${services.known}${waiting}${unhealthy}`],
    ...(conntrack === undefined ? [] : [['Conntrack', conntrackText(conntrack)] satisfies Fact]),
  ];
}

function conntrackText({ entries, limit }: NonNullable<Status['conntrack']>): string {
  return `${grouped(entries)} of ${grouped(limit)} (${Math.round((100 * entries) / limit)} %)`;
}

function fastPathText(fastPath: NonNullable<Status['fastPath']>): string {
  const { because, devices, packets, state } = fastPath;
  if (because !== undefined) return `${state}: ${because}`;
  return `${state} after ${counted(packets ?? 0, 'packet')}, on ${counted(devices ?? 0, 'device')}`;
}

function detectionText(detection: NonNullable<Status['failureDetection']>): string {
  const { because, ejected, endpoints, leftOut, notTried = 0, silent, state } = detection;
  return [
    `${counted(endpoints, 'endpoint')} followed, ${ejected} ejected, ${silent} silent`,
    ...(leftOut > 0 ? [`${leftOut} not followed`] : []),
    ...(notTried > 0 ? [`this node could not try ${counted(notTried, 'probe')}`] : []),
    ...(because === undefined ? [] : [`${state}: ${because}`]),
  ].join('; ');
}

function connectTimeText({ connectTime: { excludedPods, maps, stale, state } }: Status): string {
  const texts = maps.map(
    ({ family, frontends, endpoints }) =>
      `${family} ${frontends} frontends, ${endpoints} endpoints`,
  );
  return [state, ...texts, ...excludedText(excludedPods), ...staleText(stale)].join('; ');
}

function staleText({ unknown }: Status['connectTime']['stale']): string[] {
  if (unknown === undefined) return [];
  return [`not known whether an earlier process left programs: ${unknown}`];
}

function excludedText(of: Status['connectTime']['excludedPods']): string[] {
  if (of === undefined) return [];
  if (of.pods === undefined) return ['excluded pods are not known'];
  const missing = of.pods - of.excluded;
  const without = missing > 0 ? `, ${missing} without a cgroup` : '';
  return [`${counted(of.excluded, 'pod')} excluded${without}`];
}

export function familiesTable({ families }: Status): Table {
  return {
    title: 'Families',
    columns: [
      { name: 'Family' },
      { name: 'Phase' },
      { name: 'In force', kind: 'number' },
      { name: 'Waiting', kind: 'number' },
      { name: 'Last sync' },
      { name: 'Took', kind: 'number' },
      { name: 'Repairs', kind: 'number' },
    ],
    rows: families.map(({ family, inForce, lastSync, phase, repairs, waiting }) => [
      family,
      phase,
      inForce,
      waiting,
      lastSync === undefined
        ? 'never'
        : [{ time: lastSync.time }, lastSync.ok ? 'succeeded' : bad('failed')],
      lastSync && `${lastSync.durationMs} ms`,
      repairs,
    ]),
  };
}

export function watchesTable({ watches }: Status): Table {
  return {
    title: 'Watches',
    columns: [{ name: 'Watch' }, { name: 'State' }, { name: 'Last message' }, { name: 'Failure' }],
    rows: watches.map(({ failure, resource, silenceSeconds, state }) => [
      resource,
      state === 'missing' || state === 'silent' ? bad(state) : state,
      silenceSeconds === undefined ? undefined : `${age(silenceSeconds)} ago`,
      failure,
    ]),
  };
}

export function setAsideTable({ setAside }: Status): Table {
  return {
    title: 'Refused by the kernel',
    columns: [
      { name: 'Set aside' },
      { name: 'Family' },
      { name: 'Tries' },
      { name: 'Next in' },
      { name: 'Before' },
      { name: 'Error' },
    ],
    rows: setAside.map((aside): Cell[] => {
      const { attempts, earlierInForce, error, family, retrySeconds } = aside;
      return [
        setAsideName(aside),
        family,
        attempts,
        retrySeconds === undefined ? 'a change' : age(retrySeconds),
        earlierInForce ? 'in force' : 'none',
        bad(error),
      ];
    }),
  };
}

export function setAsideName({ namespace, port, service }: Status['setAside'][number]): string {
  return formatServicePort(`${namespace}/${service}`, port);
}
