/** Stories with connect-time translation of all connections, together with a mode. */
import { existsSync } from 'node:fs';
import { afterAll, test as anyTest, beforeAll, expect } from 'vitest';
import type { ModeName } from '../../src/config/config.ts';
import { removeConnectTime } from '../../src/connect-time/maps/choice.ts';
import type { ActorName } from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { type ConnectTimePlace, canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import type { ProxyUnderTest } from '../lab/proxy.ts';
import { runStory } from '../lab/run-story.ts';
import type { Expectation, Step, Story } from '../lab/story.ts';
import { fairleadInside } from './fairlead-inside.ts';
import { fairlead } from './fairlead-proxy.ts';
import { areAllAsked, firstStories, stories } from './index.ts';
import { iptablesStory } from './iptables-story.ts';
import { portOfAnother } from './node-port.ts';
import { userspaceStory } from './userspace-story.ts';

const test = anyTest.skipIf(!canTranslate());

/** Whose connections may be translated: those of the node and of its pods. */
const inside: readonly ActorName[] = ['node', 'pod-a', 'pod-b'];

/** `FAIRLEAD_STORIES=all` runs every story, which takes minutes. */
const selected = areAllAsked ? stories : firstStories;

function translating(mode: ModeName, connectTime: ConnectTimePlace): ProxyUnderTest {
  // The sockets of mode userspace are to be the node's.
  const made = mode === 'userspace' ? fairleadInside : fairlead;
  const proxy = made(mode, { connectTime });
  return {
    mode: `${mode}, connect time`,
    start: async (node, settings, objects) => {
      const running = await proxy.start(node, { ...settings, connectTime: 'all' }, objects);
      // Rules alone would pass, too.
      expect(existsSync(connectTime.directory)).toBe(true);
      return running;
    },
    cleanup: async (node) => {
      await proxy.cleanup(node);
      await askKernel(node, (kernel) => removeConnectTime(kernel, connectTime.directory));
    },
  };
}

/** Nothing masquerades a connection that is made to the endpoint itself. */
function unmasqueraded(story: Story): Story {
  return { ...story, steps: story.steps.map(unmasqueradedStep) };
}

function unmasqueradedStep(step: Step): Step {
  if (step.do !== 'connect' && step.do !== 'open') return step;
  const isInside = inside.includes(step.actor) && step.to.protocol === 'TCP';
  return isInside ? { ...step, expect: fromAnySource(step.expect) } : step;
}

function fromAnySource(expectation: Expectation): Expectation {
  if (expectation.kind !== 'answered') return expectation;
  const by = Object.keys(expectation.by).map((server) => [server, 'any'] as const);
  return { ...expectation, by: Object.fromEntries(by) };
}

/**
 * The input of the mode; undefined: none. Ports of others are not ignored here:
 * `connect-time-lives.kernel.test.ts` shows it.
 */
function adaptedTo(mode: ModeName, story: Story): Story | undefined {
  if (story.name === portOfAnother || story.differsIn?.[mode] !== undefined) return undefined;
  return unmasqueraded(ways[mode](story));
}

const ways: Readonly<Record<ModeName, (story: Story) => Story>> = {
  nftables: (story) => story,
  iptables: iptablesStory,
  ipvs: (story) => story,
  userspace: (story) => userspaceStory(story).story,
};

/** Runs stories in a mode. */
export function connectTimeStories(mode: ModeName, chosen = selected): void {
  let lab: Lab;
  let place: ConnectTimePlace;
  beforeAll(async () => {
    lab = await createLab();
    place = makeConnectTimePlace();
    for (const actor of inside) place.include(lab.actors[actor].pid);
  });
  afterAll(async () => {
    await lab?.close();
    place?.close();
  });

  for (const one of chosen) {
    const story = adaptedTo(mode, one);
    if (story === undefined) continue;
    test(story.name, () => runStory(lab, translating(mode, place), story));
  }
}
