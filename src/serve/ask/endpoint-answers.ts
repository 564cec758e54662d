/** What failure detection knows of endpoints, for people. */
import type { ServiceAnswer } from '../../ask/service.ts';
import { counted, firstNames } from '../../ask/words.ts';
import { formatPortName } from '../../net/protocol.ts';
import type { DetectionView } from '../../state/detection.ts';
import type { Seen } from '../../state/resolve.ts';
import type { Service } from '../../state/types.ts';
import type { AgentState } from './agent-state.ts';
import type { Problem } from './problem.ts';

type Known = Pick<AgentState, 'failureDetection'>;
type Shown = ServiceAnswer['ports'][number]['endpoints'][number];

/** The most endpoints that a message names. */
const namedMax = 3;

/** The endpoints of a port, the first ones of its candidates, with what is known of them. */
export function withAnswers({ failureDetection }: Known, seen: Seen, shown: Shown[]): Shown[] {
  const view = failureDetection();
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
  { failureDetection }: Known,
  service: Service,
  { forwarding }: Seen,
): string[] {
  const view = failureDetection();
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

/** Endpoints of a port that answer no connections. */
export function silentProblems({ failureDetection }: Known, { forwarding, port }: Seen): Problem[] {
  const silent = failureDetection().silentIn(forwarding.family, forwarding.key);
  if (silent.length === 0) return [];
  const text = () => {
    const of = formatPortName(port.name, port.protocol);
    const whose = silent.length === 1 ? 'Endpoint' : 'Endpoints';
    const verb = silent.length === 1 ? 'answers' : 'answer';
    return `${whose} ${namesOf(silent)} of port ${of} ${verb} no connections from this node.`;
  };
  return [{ reason: 'endpoint_silent', text }];
}
