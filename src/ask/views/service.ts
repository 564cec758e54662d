/** Services, for people: a list, one of them, and their changes. */
import { joinHostPort } from '../../net/address.ts';
import { formatPorts } from '../../net/host-port.ts';
import { formatPortName } from '../../net/protocol.ts';
import type { ChangeList, ServiceAnswer, ServiceList } from '../service.ts';
import {
  conditionsOf,
  endpointsChanged,
  goesTo,
  portTitle,
  stateWords,
  whatChanged,
} from '../service-words.ts';
import {
  andMore,
  type Block,
  bad,
  type Cell,
  type Column,
  type Fact,
  none,
  type Table,
  tableIf,
} from '../view.ts';

type Port = ServiceAnswer['ports'][number];
type Change = ServiceAnswer['changes'][number];

const portsShown = 4;

export function servicesTable({ items }: ServiceList): Table {
  return {
    title: 'Services',
    columns: [
      { name: 'Namespace' },
      { name: 'Name' },
      { name: 'Type' },
      { name: 'Cluster-IP' },
      { name: 'Ports' },
      { name: 'Used', kind: 'number' },
      { name: 'State' },
      { name: 'External-IP', kind: 'wide' },
      { name: 'Policies', kind: 'wide' },
      { name: 'Affinity', kind: 'wide' },
      { name: 'Created', kind: 'terminal' },
    ],
    headAt: 1,
    rows: items.map(serviceCells),
  };
}

type Listed = ServiceList['items'][number];

function serviceCells(item: Listed): Cell[] {
  const { clusterIPs, endpoints, externalIPs, name, namespace, reasons, type, used } = item;
  const { affinitySeconds: affinity, created } = item;
  const local = [
    ...(item.internalTrafficPolicy === 'Local' ? ['internal'] : []),
    ...(item.externalTrafficPolicy === 'Local' ? ['external'] : []),
  ];
  const state = stateWords(item);
  return [
    { text: namespace, names: { namespace } },
    { text: name, names: { namespace, service: name } },
    type,
    clusterIPs.join(','),
    portsText(item),
    `${used}/${endpoints}`,
    reasons.length > 0 ? bad(state) : state,
    externalIPs.length === 0 ? none : externalIPs.join(','),
    local.length === 0 ? none : `Local ${local.join(',')}`,
    affinity === undefined ? none : `${affinity}s`,
    created === undefined ? none : { time: created },
  ];
}

function portsText({ ports }: Listed): string {
  const texts = ports.slice(0, portsShown).map(({ nodePort, port, protocol }) => {
    return `${port}${nodePort === undefined ? '' : `:${nodePort}`}/${protocol}`;
  });
  return [...texts, ...(ports.length > portsShown ? ['…'] : [])].join(',');
}

/** Its type, addresses and policies. */
export function serviceFacts(service: ServiceAnswer): Fact[] {
  const { affinitySeconds, created, healthCheckNodePort, sourceRanges, type } = service;
  const { externalTrafficPolicy: external, internalTrafficPolicy: internal } = service;
  return [
    ['Type', created === undefined ? type : [`${type}, made`, { time: created }]],
    ['ClusterIPs', service.clusterIPs.join(', ')],
    ['Policies', `internal ${internal}, external ${external}`],
    ...factIf('Affinity', affinitySeconds && `ClientIP, ${affinitySeconds} s`),
    ...factIf('Clients', sourceRanges.length > 0 && sourceRanges.join(', ')),
    ...factIf('Health', healthCheckNodePort && `on node port ${healthCheckNodePort}`),
    ...factIf('Pods', service.podsUnknown && `not known: ${service.podsUnknown}`),
  ];
}

function factIf(name: string, text: string | number | false | undefined): Fact[] {
  return text ? [[name, String(text)]] : [];
}

/** Its ports, and its last changes. */
export function serviceBlocks({ changes, portCount, ports }: ServiceAnswer): Block[] {
  const rest = andMore(portCount - ports.length, ' ports');
  return [
    ...ports.map(portBlock),
    ...(rest === undefined ? [] : [{ text: rest }]),
    ...tableIf(changesTable(changes)),
  ];
}

function portBlock(port: Port): Block {
  const { cluster, endpointCount, family, kernel, local, remarks, since, state } = port;
  const stated = state === 'in force' ? state : `${state} since ${since}`;
  return {
    title: `Port ${portTitle(port)} in ${family}`,
    text: `${stated}, ${Math.max(cluster, local)} of ${endpointCount} endpoints used`,
    blocks: [
      ...(remarks.length > 0 ? [{ list: remarks }] : []),
      { table: frontendsTable(port) },
      ...tableIf(endpointsTable(port)),
      ...(kernel.length > 0 ? [{ title: 'In the kernel', code: kernel }] : []),
    ],
  };
}

function frontendsTable(port: Port): Table {
  const { frontendCount, frontends } = port;
  return {
    title: `Frontends of ${portTitle(port)}, ${port.family}`,
    columns: [{ name: 'Frontend' }, { name: 'At' }, { name: 'Goes to' }],
    rows: frontends.map((one) => {
      const goes = goesTo(port, one);
      const at = joinHostPort(one.address ?? '*', formatPorts(one));
      return [one.kind, at, isLost(one) ? bad(goes) : goes];
    }),
    rest: andMore(frontendCount - frontends.length),
  };
}

/** Whether some connections to the frontend reach no endpoint. */
function isLost({ heldBy, paths }: Port['frontends'][number]): boolean {
  const isRefused = Object.values(paths).some(({ to }) => to === 'reject' || to === 'drop');
  return heldBy !== undefined || isRefused;
}

function endpointsTable(port: Port): Table {
  const { endpointCount, endpoints } = port;
  const isCounted = endpoints.some(({ outcomes }) => outcomes !== undefined);
  const hasShares = endpoints.some(({ shares }) => shares !== undefined);
  const isFollowed = endpoints.some(({ detection }) => detection !== undefined);
  const hasPods = endpoints.some(({ pod }) => pod !== undefined);
  return {
    title: `Endpoints of ${portTitle(port)}, ${port.family}`,
    columns: [
      { name: 'Endpoint' },
      ...(hasPods ? [{ name: 'Pod' }] : []),
      { name: 'Conditions' },
      { name: 'Node' },
      { name: 'Zone' },
      { name: 'Used by' },
      ...(hasShares ? [{ name: 'Share' }] : []),
      ...(isCounted ? [{ name: 'Answered' }] : []),
      ...(isFollowed ? [{ name: 'Detection' }] : []),
      { name: 'Why not' },
      { name: 'Hints', kind: 'wide' },
    ],
    rows: endpoints.map((one) => [
      joinHostPort(one.address, one.port),
      ...(hasPods ? [one.pod] : []),
      conditionsOf(one),
      `${one.node ?? '?'}${one.local ? ' (this)' : ''}`,
      one.zone ?? '?',
      one.usedBy.length === 0 ? 'none' : one.usedBy.join(','),
      ...(hasShares ? [one.shares?.map(percentage).join(',')] : []),
      ...(isCounted ? [outcomesCell(one.outcomes)] : []),
      ...(isFollowed ? [detectionCell(one.detection)] : []),
      one.because,
      [one.nodeHints, ...(one.zoneHints ?? [])].filter(Boolean).join(','),
    ]),
    rest: andMore(endpointCount - endpoints.length),
  };
}

/** `33 %`, `0.4 %` */
function percentage(share: number): string {
  const percent = 100 * share;
  return `${percent >= 10 ? Math.round(percent) : Math.round(10 * percent) / 10} %`;
}

/** Fewer say nothing: a client may have given up. */
const triedLeast = 5;

/** `54 of 60, 3 reset, 3 unanswered` */
function outcomesCell(outcomes: Port['endpoints'][number]['outcomes']): Cell {
  if (outcomes === undefined) return undefined;
  const { answered, reset, tried, unanswered } = outcomes;
  const rest = [
    ...(reset > 0 ? [`${reset} reset`] : []),
    ...(unanswered > 0 ? [`${unanswered} unanswered`] : []),
  ];
  const words = [`${answered} of ${tried}`, ...rest].join(', ');
  return answered === 0 && tried >= triedLeast ? bad(words) : words;
}

/** `12 of 20`, `ejected for 34s, 12 of 20` */
function detectionCell(detection: Port['endpoints'][number]['detection']): Cell {
  if (detection === undefined) return undefined;
  const { answers, attempts, ejectedSeconds, resets, silent } = detection;
  const counts = `${answers} of ${attempts}${resets > 0 ? `, ${resets} reset` : ''}`;
  if (ejectedSeconds !== undefined) return bad(`ejected for ${ejectedSeconds}s, ${counts}`);
  return silent ? bad(`silent, ${counts}`) : counts;
}

const changeColumns: readonly Column[] = [
  { name: 'Changed' },
  { name: 'Port' },
  { name: 'Family' },
  { name: 'What' },
  { name: 'Endpoints' },
  { name: 'Took', kind: 'number' },
];

/** The changes of one Service. */
function changesTable(changes: readonly Change[]): Table {
  return { title: 'Recent changes', columns: changeColumns, rows: changes.map(changeCells) };
}

/** The changes of all Services. */
export function allChangesTable({ items }: ChangeList): Table {
  return {
    title: 'Recent changes',
    columns: [{ name: 'Service' }, ...changeColumns],
    rows: items.map((change) => {
      const { namespace, service } = change;
      const text = `${namespace}/${service}`;
      return [{ text, names: { namespace, service } }, ...changeCells(change)];
    }),
  };
}

function changeCells(change: Change): Cell[] {
  const { family, latencyMs, port, protocol, time } = change;
  return [
    { time, isAge: true },
    formatPortName(port, protocol),
    family,
    whatChanged(change),
    endpointsChanged(change),
    latencyMs === undefined ? undefined : `${latencyMs} ms`,
  ];
}
