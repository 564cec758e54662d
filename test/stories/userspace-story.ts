/** Adapts stories to mode userspace. */
import { actorAt, FAMILIES, type Family } from '../lab/addresses.ts';
import type { Protocol } from '../lab/outcome.ts';
import {
  type Expectation,
  refused,
  reset,
  type Server,
  type Step,
  type Story,
  type Target,
  unbound,
} from '../lab/story.ts';
import { NODE_PORT, unallocated, unprogrammed } from './common.ts';
import { refusesByReset, resetsConnections, seesTheNode, sharesNoPorts } from './differences.ts';
import { masqueradeStories } from './masquerade.ts';

/** What becomes of a connection that other modes drop. */
const resetInstead: Expectation = { ...refused };

/** Without a socket the kernel refuses a connection so. */
const resetByKernel: Expectation = { ...reset };

interface AdaptedStory {
  readonly story: Story;
  /** Undefined: what it says is what it is about. */
  readonly difference: string | undefined;
}

/** A port belongs to one process: no other can listen where a node port is. */
export function userspaceStory(story: Story): AdaptedStory {
  const { servers = [], steps, ...rest } = story;
  const isKept = ({ actor, at }: Server): boolean => actor !== 'node' || at.port !== NODE_PORT;
  const kept = servers.filter(isKept);
  const changed = withPauses(story, steps.filter(isNotSCTP)).map((step): Step => {
    if (!('expect' in step)) return step;
    if (!('to' in step)) return { ...step, expect: expectedOf(step.expect, 'TCP') };
    if (isDirect(step.to)) return step;
    const isMissed = kept.length < servers.length && step.to.port === NODE_PORT;
    if (isMissed && isAnsweredByNode(step.expect)) return { ...step, expect: refused };
    // What an endpoint that is silent does to a client is not changed.
    if (step.do === 'open' && step.expect.kind === 'silence') return step;
    return { ...step, expect: expectedOf(step.expect, step.to.protocol) };
  });
  const isAny = (expectation: Expectation): boolean =>
    changed.some((step) => 'expect' in step && step.expect === expectation);
  const isMasqueraded = masqueradeStories.includes(story) && changed.some(isSeenOtherwise);
  const differences: readonly (string | false)[] = [
    isAny(resetInstead) && resetsConnections,
    isAny(resetByKernel) && refusesByReset,
    isMasqueraded && seesTheNode,
    kept.length < servers.length && sharesNoPorts.userspace,
  ];
  const difference = differences.find((reason) => reason !== false);
  return { story: { ...rest, servers: kept, steps: changed }, difference };
}

/**
 * A Service's address stays, and refuses, until the connections that it carries have ended and
 * the server has checked, once a second. That of the step before may not have ended yet.
 */
function withPauses({ families }: Story, steps: readonly Step[]): Step[] {
  const isLost = (step: Step | undefined): boolean =>
    step !== undefined &&
    'expect' in step &&
    (step.expect === unallocated || step.expect === unprogrammed);
  const isAnswered = (step: Step): boolean => 'expect' in step && step.expect.kind === 'answered';
  return steps.flatMap((step, i) => {
    const mayLinger = isLost(step) && !isLost(steps[i - 1]) && steps.slice(0, i).some(isAnswered);
    if (!mayLinger) return [step];
    const opened = step.do === 'resume' ? steps.find((one) => opens(one, step.flow)) : step;
    return [unbound(...addressesOf(opened, families)), step];
  });
}

function opens(step: Step, flow: string): boolean {
  return step.do === 'open' && step.flow === flow;
}

/** Those that a step connects to, in the families of its story. */
function addressesOf(step: Step | undefined, families: readonly Family[] = FAMILIES): string[] {
  if (step === undefined || !('to' in step)) throw new Error('the step connects to nothing');
  const { addresses } = step.to;
  return (step.families ?? families).flatMap((family) => addresses[family] ?? []);
}

function isAnsweredByNode(expect: Expectation): boolean {
  return expect.kind === 'answered' && 'node' in expect.by;
}

function isSeenOtherwise(step: Step): boolean {
  if (!('to' in step) || step.expect.kind !== 'answered' || isDirect(step.to)) return false;
  return Object.values(step.expect.by).includes('any');
}

/** To a pod or another node: none of a proxy's business. */
function isDirect({ addresses }: Target): boolean {
  return Object.values(addresses).some((address) => {
    const actor = actorAt(address);
    return actor !== undefined && actor !== 'node';
  });
}

/** Whether the kernel refuses that without a socket, and how, depends on its modules. */
function isNotSCTP(step: Step): boolean {
  return !('to' in step) || step.to.protocol !== 'SCTP';
}

/**
 * Endpoints are reached from the node, so it is the node that they see. A connection can't be
 * dropped, only reset; the kernel refuses as it does by itself. And where no address is bound,
 * packets go where routes lead.
 */
function expectedOf(expect: Expectation, protocol: Protocol): Expectation {
  switch (expect.kind) {
    case 'silence':
      if (expect === unallocated) return unprogrammed;
      return protocol === 'TCP' ? resetInstead : expect;
    case 'unreachable':
      return protocol === 'TCP' && expect.icmp === 'port-unreachable' ? resetByKernel : expect;
    case 'answered': {
      const by = Object.entries(expect.by).map(([server, source]) => {
        return [server, source === 'own' ? 'any' : source] as const;
      });
      return { ...expect, by: Object.fromEntries(by) };
    }
    default:
      return expect;
  }
}
