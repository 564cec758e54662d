/** Every story, in mode userspace, and what stories cannot tell. */
import { afterAll, beforeAll, test } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import type { Protocol } from '../lab/outcome.ts';
import { runStory } from '../lab/run-story.ts';
import { type Expectation, refused, type Server, type Step, type Story } from '../lab/story.ts';
import { NODE_PORT, unallocated, unprogrammed } from './common.ts';
import { fairleadInside } from './fairlead-inside.ts';
import { luck, withFewerEndpoints } from './fewer.ts';
import { chosenStories } from './index.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

/** For a story that fails: what listens, and what is bound. */
async function dump(): Promise<string> {
  const commands = ['ss -Htulnp', 'ip addr show fairlead0'];
  const outputs = commands.map((command) =>
    lab.node.run(command.split(' ')).catch((error: Error) => error.message),
  );
  return (await Promise.all(outputs)).join('\n');
}

for (const story of chosenStories()) {
  test(story.name, luck, () => runStory(lab, fairleadInside('userspace'), asTold(story), { dump }));
}

/** A port is one process's: nobody else can listen where a node port is. */
function asTold(story: Story): Story {
  const { servers = [], steps, ...rest } = withFewerEndpoints(story);
  const isKept = ({ actor, at }: Server): boolean => actor !== 'node' || at.port !== NODE_PORT;
  const kept = servers.filter(isKept);
  const isMissed = (step: Connecting): boolean =>
    kept.length < servers.length && step.to.port === NODE_PORT && isAnsweredByNode(step.expect);
  return {
    ...rest,
    servers: kept,
    steps: steps.filter(isNotSCTP).map((step) => {
      if (!('expect' in step)) return step;
      if (!('to' in step)) return { ...step, expect: expectedOf(step.expect, 'TCP') };
      if (isMissed(step)) return { ...step, expect: refused };
      // What an endpoint that is silent does to a client is not changed.
      const isKeptOpen = step.do === 'open' && step.expect.kind === 'silence';
      return isKeptOpen ? step : { ...step, expect: expectedOf(step.expect, step.to.protocol) };
    }),
  };
}

type Connecting = Extract<Step, { do: 'connect' | 'open' }>;

function isAnsweredByNode(expect: Expectation): boolean {
  return expect.kind === 'answered' && 'node' in expect.by;
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
      return protocol === 'TCP' ? refused : expect;
    case 'unreachable':
      return expect.icmp === 'port-unreachable' ? refused : expect;
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
