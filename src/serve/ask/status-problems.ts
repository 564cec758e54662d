/** The problems and remarks of a status, each a sentence. */
import type { Status } from '../../ask/status.ts';
import { age, counted } from '../../ask/words.ts';
import { disabledText } from '../../host/checks.ts';
import { type Finding, findingText } from '../../host/finding.ts';
import { isDrift } from '../../sync/events.ts';

/** A status before its problems and remarks are added. */
export type Facts = Omit<
  Status,
  'apiVersion' | 'kind' | 'healthy' | 'problems' | 'runbook' | 'remarks'
>;

interface ProxyProblem {
  readonly text: string;
  /** The section of docs/runbook.md about it. */
  readonly section: string;
}

/** The share of the limit from which on connection tracking counts as full. */
const conntrackShare = 0.9;

interface Known {
  readonly isKeepingUp: boolean;
  /** The number of Services that have a family which is not served. */
  readonly unserved: number;
  readonly configRefusal: string | undefined;
  readonly findings: readonly Finding[];
}

/** The problems. If there are none, the proxy is healthy. */
export function statusProblems(
  facts: Facts,
  { configRefusal, findings, isKeepingUp, unserved }: Known,
): ProxyProblem[] {
  const { conntrack, services } = facts;
  const isFull = conntrack !== undefined && conntrack.entries >= conntrackShare * conntrack.limit;
  return [
    ...problems('changes-come-late', isKeepingUp ? [] : [overdue]),
    ...problems('changes-come-late', facts.families.flatMap(refusing)),
    ...watchProblems(facts),
    ...problems('changes-come-late', starting(facts)),
    ...problems('the-node-and-its-node-object-differ', ofNode(findings, false)),
    ...problems('the-node-and-its-node-object-differ', notServed(unserved)),
    ...problems('connections-bypass-the-rules', stale(facts.connectTime)),
    ...problems('the-kernel-refuses-a-service', refused(services)),
    ...problems('high-memory', withoutMemory(services)),
    ...problems('connection-tracking-is-full', isFull ? [full(conntrack)] : []),
    ...problems('after-an-upgrade', oldConfig(configRefusal)),
  ];
}

function problems(section: string, texts: readonly string[]): ProxyProblem[] {
  return texts.map((text) => ({ text, section }));
}

function ofNode(findings: readonly Finding[], areRemarks: boolean): string[] {
  return findings
    .filter(({ level }) => (level === 'warning') === areRemarks)
    .map((one) => `This node: ${findingText(one)}.`);
}

function notServed(unserved: number): string[] {
  if (unserved === 0) return [];
  const have = unserved === 1 ? 'has' : 'have';
  const what = `a ClusterIP of a family that is not served: ${disabledText}`;
  return [`${counted(unserved, 'Service')} ${have} ${what}.`];
}

const overdue = 'A sync was asked for long ago and is not done.';

function oldConfig(refusal: string | undefined): string[] {
  if (refusal === undefined) return [];
  return [`The configuration file has changed and is not in force: ${refusal}.`];
}

function refused({ overLimit, setAside }: Facts['services']): string[] {
  return [
    ...(setAside > 0 ? [`The kernel refuses ${counted(setAside, 'Service port')}.`] : []),
    ...(overLimit > 0
      ? [`${counted(overLimit, 'Service')} asked for too much, and got a part.`]
      : []),
  ];
}

function withoutMemory({ leftOut, leftOutOf }: Facts['services']): string[] {
  if (leftOut === 0) return [];
  const objects = counted(leftOut, 'object');
  return [`There is no memory for ${objects}, most of them of ${leftOutOf.join(', ')}.`];
}

function full({ entries, limit }: NonNullable<Facts['conntrack']>): string {
  return `Connection tracking holds ${entries} of ${limit} connections.`;
}

function refusing(one: Facts['families'][number]): string[] {
  const { behindSeconds, family, lastFailure, lastSync } = one;
  if (behindSeconds === undefined || lastSync?.ok !== false || !lastFailure) return [];
  return [`The kernel refuses what is written for ${family}: ${lastFailure.error}.`];
}

/** One problem if all watches are silent because the server does not answer. */
function watchProblems({ source, watches }: Facts): ProxyProblem[] {
  const used = watches.filter(({ state }) => state !== 'unused');
  const lost = used.filter(({ failure, state }) => state === 'silent' && failure !== undefined);
  const [first] = lost;
  if (first === undefined || lost.length < used.length) return watches.flatMap(watchProblem);
  const longest = Math.max(...lost.map(({ silenceSeconds = 0 }) => silenceSeconds));
  const text =
    `The API server (${source.server}) has not answered for ${age(longest)}: ${first.failure}. ` +
    'Rules stay in force, and later changes are missing.';
  return problems('the-api-server-is-gone', [text]);
}

function watchProblem(watch: Facts['watches'][number]): ProxyProblem[] {
  const because = watch.failure === undefined ? '' : `: ${watch.failure}`;
  const { missingSeconds, resource, silenceSeconds, state } = watch;
  if (state === 'missing') {
    const text = `The first list of ${resource} is missing for ${missingSeconds} s${because}.`;
    return problems('the-api-server-is-gone', [text]);
  }
  if (state === 'silent') {
    const text = `Nothing was heard of ${resource} for ${silenceSeconds} s${because}.`;
    return problems('a-watch-is-silent', [text]);
  }
  return [];
}

/** Stale programs run before all rules, and lead to endpoints that may have gone. */
function stale({ state, stale: { attached, failure } }: Facts['connectTime']): string[] {
  if (state !== 'stale') return [];
  const programs = attached > 0 ? counted(attached, 'program') : 'programs';
  return [
    `Connect-time ${programs} of an earlier process translate connections and could not be removed: ${failure}.`,
  ];
}

function starting({ families }: Facts): string[] {
  if (families.length === 0) return ['It is starting: nothing is programmed yet.'];
  return families
    .filter(({ phase }) => phase !== 'live')
    .map(
      ({ family, phase }) => `${family} is starting (${phase}): the previous rules are in force.`,
    );
}

function behind({ family, waiting, behindSeconds }: Facts['families'][number]): string[] {
  if (behindSeconds === undefined) return [];
  if (waiting === 0) {
    const wait = `have waited for their repair for ${behindSeconds} s`;
    return [`${family} is behind: rules that another program changed ${wait}.`];
  }
  const next = `the next one for ${behindSeconds} s`;
  return [`${family} is behind: ${counted(waiting, 'Service')} waiting to be written, ${next}.`];
}

/** `obstructed`: the Services whose connections meet a rule of another program. */
export function statusRemarks(
  { connectTime, families, mode }: Facts,
  findings: readonly Finding[],
  obstructed: number,
): string[] {
  return [
    ...(obstructed > 0 ? [inTheWay(obstructed)] : []),
    ...ofNode(findings, true),
    ...mode.fallbacks.map(({ from, to, reason }) => `Mode ${from} ${reason}; mode ${to} is next.`),
    ...families.flatMap(behind),
    ...connectTime.maps.flatMap(({ family, withoutRoom }) => {
      if (withoutRoom === 0) return [];
      const services = counted(withoutRoom, 'Service');
      return [`${family}: ${services} without a place in connect-time maps; rules do it all.`];
    }),
    ...unexcluded(connectTime),
    ...unidentified(connectTime),
    ...families.flatMap(({ family, lastDrift: drift }) => {
      if (drift === undefined || !isDrift(drift)) return [];
      const { missing, unwanted, wrong } = drift;
      const what = `${missing} objects missing, ${wrong} wrong, ${unwanted} unwanted`;
      return [`${family}: ${driftCause(drift)}, and were repaired: ${what}.`];
    }),
  ];
}

function driftCause({ program, writers }: NonNullable<Facts['families'][number]['lastDrift']>) {
  if (program !== undefined) return `rules were changed by ${program}`;
  return {
    others: 'rules were changed by another program',
    'only us': 'rules differed although no other program changed them',
    unknown: 'rules differed for an unknown cause',
  }[writers];
}

function inTheWay(obstructed: number): string {
  const services = counted(obstructed, 'Service');
  return `Rules of other programs are in the way of ${services}: fairlead problems names them.`;
}

function unidentified({ stale }: Facts['connectTime']): string[] {
  if (stale.unidentified === undefined) return [];
  const programs = counted(stale.unidentified, 'attached program');
  return [`Possibly connect-time programs of an earlier process: ${programs}.`];
}

function unexcluded({ excludedPods }: Facts['connectTime']): string[] {
  const { excluded = 0, failure, pods = 0 } = excludedPods ?? {};
  const without = pods - excluded;
  return [
    ...(failure ? [`Pods to exclude from connect time are not known: ${failure}.`] : []),
    ...(without > 0 ? [`Pods to exclude from connect time without a cgroup: ${without}.`] : []),
  ];
}
