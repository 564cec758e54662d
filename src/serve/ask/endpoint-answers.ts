/** What is known of the answers of endpoints, for people. */
import type { ServiceAnswer } from '../../ask/service.ts';
import { counted, firstNames } from '../../ask/words.ts';
import type { Family } from '../../net/address.ts';
import { formatPortName } from '../../net/protocol.ts';
import type { DetectionView } from '../../state/detection.ts';
import type { Seen } from '../../state/resolve.ts';
import {
  type EndpointSlice,
  forwardingId,
  latin1At,
  type Service,
  serviceKey,
} from '../../state/types.ts';
import type { AgentState } from './agent-state.ts';
import type { Problem } from './problem.ts';

type Known = Pick<AgentState, 'failureDetection'>;
type Shown = ServiceAnswer['ports'][number]['endpoints'][number];

/** The most endpoints that a message names. */
const namedMax = 3;

/** The endpoints of a port, the first ones of its candidates, with what is known of them. */
export function withAnswers(
  { failureDetection: view }: Known,
  seen: Seen,
  shown: Shown[],
): Shown[] {
  if (view.state.kind === 'off') return shown;
  const { family, key } = seen.forwarding;
  const { endpoints } = seen.candidates;
  return shown.map((one, i) => {
    const known = view.answersOf(family, key, endpoints.key(i));
    if (known === undefined) return one;
    const { answers, attempts, isSilent, outMs, resets } = known;
    const out = outMs === undefined ? {} : { ejectedSeconds: Math.floor(outMs / 1000) };
    return { ...one, detection: { attempts, answers, resets, silent: isSilent, ...out } };
  });
}

/** What is followed of a port, and what is not. */
export function detectionRemarks(
  { failureDetection: view }: Known,
  service: Service,
  { forwarding }: Seen,
): string[] {
  const mode = view.modeOf(service);
  if (mode === 'off') {
    const isAsked = (service.detection?.mode ?? 'off') !== 'off';
    return isAsked ? ['The configuration forbids failure detection (failureDetection: off).'] : [];
  }
  const { family, key, servicePort } = forwarding;
  const { protocol } = servicePort;
  if (protocol === 'SCTP') return ['Failure detection does not follow SCTP.'];
  const { state } = view;
  const leftOut = view.leftOutOf(family, key);
  const exempt = exemptOf(view, forwarding);
  return [
    ...(protocol === 'UDP' && mode === 'eject'
      ? ['Endpoints of UDP are only observed: silence may be right.']
      : []),
    ...(protocol === 'TCP' && mode === 'eject'
      ? ['Endpoints that do not answer get no new connections.']
      : []),
    ...(state.kind === 'unavailable' ? [`Answers are not counted: ${state.because}.`] : []),
    ...(leftOut > 0 ? [`${counted(leftOut, 'endpoint')} not followed: there are too many.`] : []),
    ...exempt,
    ...(forwarding.affinityTimeoutSeconds > 0 && mode === 'eject'
      ? ['Clients with session affinity keep an endpoint that does not answer.']
      : []),
  ];
}

function exemptOf(
  view: DetectionView,
  { cluster, family, key, local, servicePort }: Seen['forwarding'],
): string[] {
  if (servicePort.protocol !== 'TCP') return [];
  const reasons = new Map<string, string[]>();
  for (const list of new Set([cluster, local])) {
    for (let i = 0; i < list.length; i += 1) {
      const reason = view.answersOf(family, key, list.key(i))?.exempt;
      if (reason === undefined) continue;
      const named = reasons.get(reason) ?? [];
      if (!named.includes(list.text(i))) named.push(list.text(i));
      reasons.set(reason, named);
    }
  }
  return Array.from(reasons, ([reason, named]) => {
    const verb = named.length === 1 ? 'gets' : 'get';
    return `${namesOf(named)} always ${verb} connections, without probes: ${reason}.`;
  });
}

function namesOf(all: readonly string[]): string {
  return firstNames(all.slice(0, namedMax), all.length);
}

/** Endpoints of a port that answer no connections, by failure detection or as the kernel counts. */
export function silentProblems(
  {
    failureDetection,
    state,
    unanswered,
  }: Pick<AgentState, 'failureDetection' | 'state' | 'unanswered'>,
  { forwarding, port }: Seen,
): Problem[] {
  const { family, key, servicePort } = forwarding;
  const id = forwardingId(family, key);
  const since = unanswered.of(id);
  const silent = new Set([...failureDetection.silentIn(family, key), ...since.keys()]);
  if (silent.size === 0) return [];
  const text = () => {
    const of = formatPortName(port.name, port.protocol);
    const whose = silent.size === 1 ? 'Endpoint' : 'Endpoints';
    const isRefused =
      since.size === silent.size && [...since.values()].every((one) => one.isRefused);
    const end = silent.size === 1 ? 's' : '';
    const what = isRefused
      ? `refuse${end} all connections from`
      : `answer${end} no connections from`;
    const [first] = Array.from(since.values(), (one) => one.since).sort();
    const when = first === undefined ? '' : `, seen since ${first}`;
    const where = commonNode(state.slices(serviceKey(servicePort)), forwarding, silent);
    return `${whose} ${namesOf([...silent])} of port ${of} ${what} this node${when}${where}.`;
  };
  return [{ reason: 'endpoint_silent', text }];
}

/** Says so if several do not answer, all of them are on one node, and others are elsewhere. */
function commonNode(
  slices: readonly EndpointSlice[],
  { cluster, family, local }: Seen['forwarding'],
  silent: ReadonlySet<string>,
): string {
  const nodes = nodesOf(slices, family);
  const [all, bad] = [new Set<string>(), new Set<string>()];
  for (const list of new Set([cluster, local])) {
    for (let i = 0; i < list.length; i += 1) {
      const node = nodes.get(Buffer.from(list.address(i)).toString('latin1')) ?? '';
      all.add(node);
      if (silent.has(list.text(i))) bad.add(node);
    }
  }
  const [node = ''] = bad;
  const isOne = silent.size > 1 && bad.size === 1 && all.size > 1 && node !== '';
  return isOne ? `: all of them are on node ${node}` : '';
}

/** The node of each endpoint, by address. */
function nodesOf(slices: readonly EndpointSlice[], family: Family): Map<string, string> {
  const nodes = new Map<string, string>();
  for (const slice of slices) {
    if (slice.family !== family) continue;
    for (let i = 0; i < slice.length; i += 1) {
      nodes.set(latin1At(slice, i), slice.places?.[i]?.node ?? '');
    }
  }
  return nodes;
}
