import { setTimeout as sleep } from 'node:timers/promises';
import { type ActorName, actorAt, FAMILIES, type Family, familyOf, hostPort } from './addresses.ts';
import { describeExpectation, describeTally, judge, mergeTallies } from './expectation.ts';
import type { Lab } from './lab.ts';
import { BASELINE, type KubernetesObject, keyOf, settings as standard } from './objects.ts';
import { type Attempt, PROTOCOLS, type Protocol, type Tally } from './outcome.ts';
import { answerMs, hangsMs, paced } from './pace.ts';
import type { ProxySettings, ProxyUnderTest, RunningProxy } from './proxy.ts';
import { recordResult } from './report.ts';
import { type Expectation, type Step, type Story, targetAddress } from './story.ts';

/** How long to wait before an outcome counts as silence. */
const SILENCE_MS = paced(300);
/** How long a flow may be silent that is asked again and again. */
const RESUMED_MS = paced(3000);

/** How long what a proxy does may take until a connection shows it. */
const MOMENT_MS = paced(200);

/** Two equal servers: one of them stays unseen in 16 connections once in 32,768 runs … */
const CONNECTIONS_MIN = 16;
/** … and then more are made, up to this. */
const CONNECTIONS_MAX = 160;
const CONNECTIONS_REFUSED = 4;

/** Its message is the story up to the step that went wrong, and the node's ruleset. */
export class StoryFailure extends Error {
  override name = 'StoryFailure';
}

export interface RunOptions {
  /** The ruleset as text, for failure messages. Default: `nft list ruleset` in the node. */
  readonly dump?: () => Promise<string>;
  /** Why the story was changed for the mode. It is recorded as one in which the mode differs. */
  readonly difference?: string;
}

/**
 * Runs a story with a proxy. Rejects with a StoryFailure at the first step that fails. Afterwards
 * the lab is as before. Records the result for report.ts.
 */
export async function runStory(
  lab: Lab,
  proxy: ProxyUnderTest,
  story: Story,
  options: RunOptions = {},
): Promise<void> {
  const differs = Object.entries(story.differsIn ?? {}).find(([mode]) => mode === proxy.mode);
  if (differs !== undefined) {
    recordResult(story, proxy.mode, { result: 'differs', reason: differs[1] });
    return;
  }
  const run = new StoryRun(lab, proxy, story);
  try {
    await run.play();
    const { difference: reason } = options;
    const passed = reason === undefined ? passes : ({ result: 'differs', reason } as const);
    recordResult(story, proxy.mode, passed);
  } catch (error) {
    recordResult(story, proxy.mode, { result: 'fails' });
    const dump = options.dump ?? (() => lab.node.run(['nft', 'list', 'ruleset']));
    const ruleset = await dump().catch((failure: Error) => `(no ruleset: ${failure.message})`);
    throw new StoryFailure(run.failureMessage(error as Error, ruleset));
  } finally {
    await run.end();
  }
}

const passes = { result: 'passes' } as const;

interface OpenFlow {
  readonly actor: ActorName;
  readonly families: readonly Family[];
}

/** How often a flow is asked until it ends, with a pause between: half a minute at least. */
const [RESUMPTIONS_MAX, RESUMPTION_PAUSE_MS] = [300, 100];

class StoryRun {
  readonly #lab: Lab;
  readonly #proxy: ProxyUnderTest;
  readonly #story: Story;
  readonly #families: readonly Family[];
  readonly #objects = new Map<string, KubernetesObject>();
  readonly #flows = new Map<string, OpenFlow>();
  readonly #told: string[] = [];
  #running: RunningProxy | undefined;

  constructor(lab: Lab, proxy: ProxyUnderTest, story: Story) {
    this.#lab = lab;
    this.#proxy = proxy;
    this.#story = story;
    this.#families = story.families ?? FAMILIES;
  }

  async play(): Promise<void> {
    for (const object of BASELINE) this.#objects.set(keyOf(object), object);
    await this.#bind('add');
    for (const { actor, at } of this.#story.servers ?? []) {
      for (const family of this.#families) {
        const address = at.addresses[family];
        if (address !== undefined) {
          await this.#lab.actors[actor].listen(at.protocol, address, at.port);
        }
      }
    }
    await this.#start(this.#story.settings ?? standard);
    for (const step of this.#story.steps) {
      this.#told.push(describeStep(step));
      await this.#step(step);
    }
  }

  async end(): Promise<void> {
    await this.#running?.stop();
    await this.#proxy.cleanup(this.#lab.node);
    await this.#bind('del');
    await this.#lab.reset();
  }

  async #bind(command: 'add' | 'del'): Promise<void> {
    for (const { IPv4, IPv6 } of this.#story.nodeAddresses ?? []) {
      await this.#lab.node.run(['ip', 'addr', command, `${IPv4}/32`, 'dev', 'lo']);
      // Until the kernel has looked for duplicates, even there, no program may listen at it.
      await this.#lab.node.run(['ip', 'addr', command, `${IPv6}/128`, 'dev', 'lo', 'nodad']);
      if (command === 'add') await this.#hasLocalRoute(IPv6);
    }
  }

  /** A thread of the kernel adds it (addrconf_dad_work), perhaps a moment after the address. */
  async #hasLocalRoute(address: string): Promise<void> {
    const show = ['ip', '-6', 'route', 'show', 'table', 'local', address];
    const endMs = performance.now() + hangsMs;
    while ((await this.#lab.node.run(show)).trim() === '') {
      if (performance.now() > endMs) throw new Error(`no local route to ${address}`);
      await sleep(5);
    }
  }

  async #skip(timeMs: number): Promise<void> {
    if (this.#running?.skip === undefined) return sleep(timeMs);
    await this.#running.skip(timeMs);
    await sleep(MOMENT_MS);
  }

  async #areUnbound(addresses: readonly string[]): Promise<void> {
    const endMs = performance.now() + hangsMs;
    for (;;) {
      const links = JSON.parse(await this.#lab.node.run(['ip', '-json', 'addr'])) as readonly {
        readonly addr_info: readonly { readonly local: string }[];
      }[];
      const bound = links.flatMap(({ addr_info: all }) => all.map(({ local }) => local));
      const left = addresses.filter((address) => bound.includes(address));
      if (left.length === 0) return;
      if (performance.now() > endMs) throw new Error(`     the node still has ${left.join(', ')}`);
      await sleep(20);
    }
  }

  failureMessage(error: Error, ruleset: string): string {
    const { name, covers } = this.#story;
    const steps = this.#told.map((text, i) => `  ${i + 1}. ${text}`);
    return [
      `${name} (sections ${covers.join(', ')}; mode ${this.#proxy.mode})`,
      ...steps,
      error.message,
      '',
      'Ruleset of the node:',
      ruleset,
    ].join('\n');
  }

  async #start(settings: ProxySettings): Promise<void> {
    const objects = [...this.#objects.values()];
    this.#running = await this.#proxy.start(this.#lab.node, settings, objects);
  }

  async #step(step: Step): Promise<void> {
    switch (step.do) {
      case 'apply':
        for (const object of step.objects) this.#objects.set(keyOf(object), object);
        await this.#listenFor(step.objects);
        return this.#running?.apply([...this.#objects.values()]);
      case 'remove':
        for (const object of step.objects) this.#objects.delete(keyOf(object));
        return this.#running?.apply([...this.#objects.values()]);
      case 'connect':
        await this.#forFamilies(step, (attempt) => this.#connect(step, attempt));
        return;
      case 'open':
        return this.#open(step);
      case 'resume':
        return this.#resume(step);
      case 'wait':
        return sleep(step.ms);
      case 'skip':
        return this.#skip(step.ms);
      case 'unbound':
        return this.#areUnbound(step.addresses);
      case 'restart':
        await this.#running?.stop();
        return this.#start(step.settings ?? this.#story.settings ?? standard);
    }
  }

  /**
   * Listens on all addresses of all slices, so that a wrong endpoint answers and does not refuse.
   */
  async #listenFor(objects: readonly KubernetesObject[]): Promise<void> {
    const starting: Promise<void>[] = [];
    for (const object of objects.filter(({ kind }) => kind === 'EndpointSlice')) {
      for (const { address, protocol, port } of listeners(object)) {
        const actor = actorAt(address);
        if (actor !== undefined) {
          starting.push(this.#lab.actors[actor].listen(protocol, address, port));
        }
      }
    }
    await Promise.all(starting);
  }

  /**
   * Runs both families concurrently, because silence takes time. Returns the families of the step.
   */
  async #forFamilies(
    step: Extract<Step, { do: 'connect' | 'open' }>,
    act: (attempt: Attempt, family: Family) => Promise<void>,
  ): Promise<Family[]> {
    const families = (step.families ?? this.#families).filter(
      (family) => step.to.addresses[family] !== undefined,
    );
    if (families.length === 0) throw new Error('     no family of the story has this target');
    await Promise.all(families.map((family) => act(attemptOf(step, family), family)));
    return families;
  }

  async #connect(step: Extract<Step, { do: 'connect' }>, attempt: Attempt): Promise<void> {
    const round = step.connections ?? defaultConnections(step);
    let tally: Tally = [];
    let total = 0;
    do {
      for (const from of sourcesOf(step, attempt)) {
        const made = await this.#lab.actors[step.actor].connect({ ...attempt, from }, round);
        tally = mergeTallies(tally, made);
      }
      total += round;
      const { problems, missing } = judge(step.expect, tally);
      if (problems.length > 0) break;
      if (missing.length === 0) return;
    } while (total < CONNECTIONS_MAX);
    throw stepFailure(step.expect, tally, hostPort(attempt.to.address, attempt.to.port));
  }

  async #open(step: Extract<Step, { do: 'open' }>): Promise<void> {
    const actor = this.#lab.actors[step.actor];
    const families = await this.#forFamilies(step, async (attempt, family) => {
      const flow = `${step.flow} ${family}`;
      const outcome = await actor.open(flow, attempt, { download: step.download });
      const where = hostPort(attempt.to.address, attempt.to.port);
      assertOne(step.expect, [{ count: 1, outcome }], where);
    });
    this.#flows.set(step.flow, { actor: step.actor, families });
  }

  async #resume({ flow, expect, inTheEnd }: Extract<Step, { do: 'resume' }>): Promise<void> {
    const opened = this.#flows.get(flow);
    if (opened === undefined) throw new Error(`     no step has opened ${flow}`);
    const answeredMs = inTheEnd ? RESUMED_MS : answerMs;
    const timeoutMs = expect.kind === 'silence' ? SILENCE_MS : answeredMs;
    await Promise.all(
      opened.families.map(async (family) => {
        const actor = this.#lab.actors[opened.actor];
        const ask = () => actor.resume(`${flow} ${family}`, timeoutMs);
        let outcome = await ask();
        const isOpen = () => outcome.kind === 'answered' || outcome.kind === 'timeout';
        for (let i = 1; inTheEnd && isOpen() && i < RESUMPTIONS_MAX; i += 1) {
          await sleep(RESUMPTION_PAUSE_MS);
          outcome = await ask();
        }
        assertOne(expect, [{ count: 1, outcome }], family);
      }),
    );
  }
}

function attemptOf(step: Extract<Step, { do: 'connect' | 'open' }>, family: Family): Attempt {
  const to = targetAddress(step.to, family)!;
  const address = step.from?.addresses?.[family];
  const port = step.from?.port;
  const from = {
    ...(address === undefined ? {} : { address }),
    ...(port === undefined ? {} : { port }),
  };
  const timeoutMs = step.expect.kind === 'silence' ? SILENCE_MS : answerMs;
  return { protocol: step.to.protocol, to, from, timeoutMs };
}

/** The sources of the attempts of one step. */
function sourcesOf({ from }: Extract<Step, { do: 'connect' }>, attempt: Attempt) {
  if (from?.each === undefined) return [attempt.from ?? {}];
  const family = familyOf(attempt.to.address);
  return from.each.map((addresses) => ({ ...attempt.from, address: addresses[family]! }));
}

function defaultConnections({ from, expect }: Extract<Step, { do: 'connect' }>): number {
  // One source port makes one connection at a time.
  if (from?.port !== undefined) return 1;
  return expect.kind === 'answered' ? CONNECTIONS_MIN : CONNECTIONS_REFUSED;
}

/** One connection cannot show every server: `every` counts as `any`. */
function assertOne(expectation: Expectation, tally: Tally, where: string): void {
  if (judge(expectation, tally).problems.length > 0) throw stepFailure(expectation, tally, where);
}

function stepFailure(expectation: Expectation, tally: Tally, where: string): Error {
  const { problems, missing } = judge(expectation, tally);
  const why = [...problems, ...missing.map((server) => `${server} never answered`)];
  return new Error(
    [
      `     at       ${where}`,
      `     expected ${describeExpectation(expectation)}`,
      `     got      ${describeTally(tally)}`,
      `     because  ${[...new Set(why)].join('; ')}`,
    ].join('\n'),
  );
}

function describeStep(step: Step): string {
  switch (step.do) {
    case 'apply':
    case 'remove':
      return `${step.do} ${step.objects.map(keyOf).join(', ')}`;
    case 'connect':
    case 'open': {
      const { addresses, port, protocol } = step.to;
      const where = FAMILIES.flatMap((family) => addresses[family] ?? []);
      const what = step.do === 'open' ? `open ${step.flow}` : 'connect';
      const sources = step.from?.each ?? [step.from?.addresses ?? {}];
      const from = sources.flatMap((addresses) => Object.values(addresses)).join(' and ');
      const actor = from === '' ? step.actor : `${step.actor} (${from})`;
      const to = where.map((address) => hostPort(address, port)).join(' and ');
      return `${what} from ${actor} to ${to} ${protocol}: ${describeExpectation(step.expect)}`;
    }
    case 'resume':
      return `resume ${step.flow}: ${describeExpectation(step.expect)}`;
    case 'wait':
      return `wait ${step.ms} ms: ${step.why}`;
    case 'skip':
      return `skip ${step.ms} ms: ${step.why}`;
    case 'unbound':
      return `wait until the node does not have ${step.addresses.join(', ')}`;
    case 'restart':
      return 'restart the proxy';
  }
}

interface Listener {
  readonly address: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** The listeners of an EndpointSlice's endpoints. Parts that are invalid are left out. */
function listeners(object: KubernetesObject): Listener[] {
  const ports = listOf<{ port?: number | null; protocol?: string }>(object.ports);
  return listOf<{ addresses?: unknown }>(object.endpoints)
    .flatMap(({ addresses }) => listOf<string>(addresses, 'string'))
    .flatMap((address) =>
      ports.flatMap(({ port, protocol = 'TCP' }) => {
        const known = PROTOCOLS.find((each) => each === protocol);
        return known === undefined || typeof port !== 'number'
          ? []
          : [{ address, protocol: known, port }];
      }),
    );
}

/** The elements of the right kind, if the value is a list. */
function listOf<T>(value: unknown, kind: 'object' | 'string' = 'object'): T[] {
  if (!Array.isArray(value)) return [];
  return value.filter((element): element is T => typeof element === kind && element !== null);
}
