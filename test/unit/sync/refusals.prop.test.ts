/**
 * A kernel that refuses (no memory, no buffers, no permission, busy) any operation, any number of
 * times: others are served in that time, attempts are bounded, health reports it, and when it is
 * over, everything is in force.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KernelError } from '../../../src/kernel/errors.ts';
import type { ApplyResult, DumpResult, Kernel } from '../../../src/kernel/kernel.ts';
import { iptablesMode } from '../../../src/modes/iptables/mode.ts';
import { ipvsMode } from '../../../src/modes/ipvs/mode.ts';
import type { ModeConfig } from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../../../src/modes/proxy-mode.ts';
import { ProxyHealth } from '../../../src/serve/health.ts';
import type { SyncSettings } from '../../../src/sync/settings.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { config } from '../modes/nftables/forwardings.ts';
import { healthyInput } from '../serve/healthy-input.ts';
import { quiet } from './double.ts';
import { World } from './world.ts';

const modes = [nftablesMode, ipvsMode, iptablesMode()];
const codes = ['ENOBUFS', 'ENOMEM', 'EPERM', 'EBUSY'] as const;
const services = 8;
/** After this much delay probes fail. */
const lateMs = 60_000;
/** A recovery is tried every 2 s at most, and looks for who is to blame by smaller batches. */
const attemptsPerSecondMax = 2;

/** Refuses reads and whole submissions, too, and counts what it is asked. */
class RefusingKernel extends FakeKernel {
  /** How many more dumps, questions for the generation, or submissions fail. */
  readonly refused = { dump: 0, generation: 0, submit: 0 };
  code: string = 'ENOBUFS';
  /** Batches with these bytes find no memory. */
  unfit: Buffer | undefined;
  applies = 0;

  override async apply(ops: Uint8Array): Promise<ApplyResult> {
    this.applies += 1;
    this.#perhaps('submit');
    if (this.unfit && Buffer.from(ops).includes(this.unfit)) {
      const failure = { op: undefined, entry: undefined, code: 'ENOMEM', message: 'no memory' };
      return { kind: 'failed', failures: [failure], partly: false };
    }
    return super.apply(ops);
  }

  override async dump(...args: Parameters<Kernel['dump']>): Promise<DumpResult> {
    this.#perhaps('dump');
    return super.dump(...args);
  }

  override async generation(): Promise<number> {
    this.#perhaps('generation');
    return super.generation();
  }

  override heal(): void {
    super.heal();
    Object.assign(this.refused, { dump: 0, generation: 0, submit: 0 });
  }

  #perhaps(what: keyof RefusingKernel['refused']): void {
    if (this.refused[what] <= 0) return;
    this.refused[what] -= 1;
    const { code } = this;
    throw new KernelError({ operation: what, subject: 'all', code, words: 'refused' });
  }
}

/** Like the engine's: no notification of changes of IPVS, so it is read periodically. */
function settingsOf(mode: ProxyMode): Partial<SyncSettings> {
  const fullMs = mode === ipvsMode ? 30_000 : 3_600_000;
  return { batchBytesMax: 2000, audit: { checkMs: 5000, fullMs, restFactor: 20 } };
}

function worldOf(mode: ProxyMode, kernel: RefusingKernel): World<RefusingKernel> {
  return new World(settingsOf(mode), kernel, (environment) =>
    mode.planner(config satisfies ModeConfig, environment),
  );
}

/** Health as the program has it. */
function healthOf(world: World<RefusingKernel>): () => number {
  const clock = world.clock;
  const health = new ProxyHealth({ ...healthyInput, timeoutMs: lateMs, clock });
  world.observers.push((event) => {
    if (event.kind === 'queued') health.queued(event.family);
    if (event.kind === 'done' && event.healthy) health.updated(event.family);
  });
  return () => health.answer('/livez').status;
}

type Step =
  | { readonly kind: 'op'; readonly op: number; readonly times: number }
  | { readonly kind: 'dump' | 'generation' | 'submit'; readonly times: number }
  | { readonly kind: 'lost-answer' }
  | { readonly kind: 'change'; readonly service: number; readonly hosts: readonly number[] }
  | { readonly kind: 'remove'; readonly service: number }
  | { readonly kind: 'wait'; readonly ms: number };

const times = fc.constantFrom(1, 2, 5, Number.POSITIVE_INFINITY);
const service = fc.nat(services - 1);
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('op' as const), op: fc.nat(60), times }),
  },
  fc.record({ kind: fc.constantFrom('dump' as const, 'generation' as const), times }),
  fc.record({ kind: fc.constant('submit' as const), times }),
  fc.record({ kind: fc.constant('lost-answer' as const) }),
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('change' as const),
      service,
      hosts: fc.uniqueArray(fc.nat(9), { maxLength: 5 }),
    }),
  },
  fc.record({ kind: fc.constant('remove' as const), service }),
  fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(0, 300, 5000, 70_000) }),
);

async function take(step: Step, world: World<RefusingKernel>, code: string): Promise<void> {
  const { kernel } = world;
  kernel.code = code;
  switch (step.kind) {
    case 'op':
      kernel.failNext({ code, op: step.op, times: step.times });
      return;
    case 'dump':
    case 'generation':
    case 'submit':
      kernel.refused[step.kind] = step.times;
      return;
    case 'lost-answer':
      kernel.unknownOutcome();
      return;
    case 'change':
      world.addServices(step.service, step.service + 1);
      world.setEndpoints(`web-${step.service}`, ...step.hosts.map((host) => `10.244.0.${host}`));
      return;
    case 'remove':
      world.removeService(`web-${step.service}`);
      return;
    case 'wait':
      await world.clock.pass(step.ms);
      return;
  }
}

/** A process after the given one, with the same input; `change` changes that. */
async function nextProcess(
  mode: ProxyMode,
  world: World<RefusingKernel>,
  change = (_next: World<RefusingKernel>): void => {},
) {
  const next = worldOf(mode, world.kernel);
  for (const key of world.state.serviceKeys()) {
    next.setService(world.state.service(key)!);
    for (const slice of world.state.slices(key)) next.state.apply({ kind: 'slice', slice });
  }
  change(next);
  await next.start();
  await next.clock.pass(5000);
  return next;
}

describe.each(modes)('refusals of the kernel, in mode $name', (mode) => {
  it('refusals of any operation in any order are followed by the desired state', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(anyStep, fc.constantFrom(...codes)), { maxLength: 15 }),
        async (steps) => {
          const world = worldOf(mode, new RefusingKernel());
          const status = healthOf(world);
          world.addServices(0, services);
          await world.start();
          for (const [step, code] of steps) {
            await take(step, world, code);
            await quiet();
          }
          world.kernel.heal();
          await world.clock.pass(120_000);
          expect([...world.sync.quarantined]).toEqual([]);
          expect(status()).toBe(200);
          // A chain that the kernel did not delete was emptied, and goes with the next audit.
          world.sync.audit.verify();
          await world.clock.pass(5000);
          await world.stop();

          const { writes } = world.kernel;
          const next = await nextProcess(mode, world);
          expect(world.kernel.writes).toBe(writes);
          await next.stop();
        },
      ),
      { numRuns: 40 },
    );
  });

  it('answers that are lost, one after the other, set no Service aside', async () => {
    const world = worldOf(mode, new RefusingKernel());
    world.addServices(0, services);
    await world.start();
    for (let i = 0; i < services; i += 1) {
      world.kernel.unknownOutcome();
      world.setEndpoints(`web-${i}`, `10.244.7.${i}`);
      await world.clock.pass(50);
      expect([...world.sync.quarantined]).toEqual([]);
      await world.clock.pass(300);
    }
    await world.clock.pass(10_000);
    await world.stop();
    const { writes } = world.kernel;
    await (await nextProcess(mode, world)).stop();
    expect(world.kernel.writes).toBe(writes);
  });

  it.each(codes)(
    'of everything (%s): attempts are bounded, and health reports it',
    async (code) => {
      const world = worldOf(mode, new RefusingKernel());
      const status = healthOf(world);
      world.addServices(0, services);
      await world.start();
      expect(status()).toBe(200);
      world.kernel.failNext({ code, times: Number.POSITIVE_INFINITY });
      for (let i = 0; i < services; i += 1) world.setEndpoints(`web-${i}`, `10.244.7.${i}`);
      await world.clock.pass(lateMs + 1000);
      expect(status()).toBe(503);
      const before = world.kernel.applies;
      await world.clock.pass(600_000);
      expect((world.kernel.applies - before) / 600).toBeLessThan(attemptsPerSecondMax);
      world.kernel.heal();
      await world.clock.pass(60_000);
      expect(status()).toBe(200);
      expect([...world.sync.quarantined]).toEqual([]);
      await world.stop();
    },
  );
});

describe.each([nftablesMode, ipvsMode])('a refusal of one Service, in mode $name', (mode) => {
  // EPERM is about the process, not about a Service: all of it waits then, in the test above.
  it.each(codes.filter((code) => code !== 'EPERM'))(
    '(%s) does not affect the others or the health of the process',
    async (code) => {
      const world = worldOf(mode, new RefusingKernel());
      const status = healthOf(world);
      world.addServices(0, services);
      await world.start();
      const victim = mode === ipvsMode ? 'TCP 10.96.0.3:80 -> 10.244.7.3' : '10.96.0.3 . tcp . 80';
      world.kernel.failNext({ code, forKey: victim, times: Number.POSITIVE_INFINITY });
      for (let i = 0; i < services; i += 1) world.setEndpoints(`web-${i}`, `10.244.7.${i}`);
      await world.clock.pass(1000);
      const text = (): string => `${world.kernel.ruleset()}${world.kernel.ipvs.text()}`;
      for (let i = 0; i < services; i += 1) {
        if (i !== 3) expect(text()).toContain(`10.244.7.${i}`);
      }
      expect(text()).not.toMatch(/10\.244\.7\.3\b/);
      await world.clock.pass(300_000);
      expect(status()).toBe(200);
      expect([...world.sync.quarantined].map(({ key }) => key)).toEqual(['default/web-3:http/TCP']);
      world.kernel.heal();
      await world.clock.pass(60_000);
      expect(text()).toMatch(/10\.244\.7\.3\b/);
      expect([...world.sync.quarantined]).toEqual([]);
      await world.stop();
    },
  );
});

describe.each(modes)('a start that the kernel refuses for one Service, in mode $name', (mode) => {
  it('leaves what there is of it, and brings the others into force', async () => {
    const world = worldOf(mode, new RefusingKernel());
    const { kernel } = world;
    world.addServices(0, services);
    await world.start();
    await world.stop();
    const text = (): string => `${kernel.ruleset()}${kernel.ipvs.text()}`;
    const host = (net: number, i: number): RegExp => new RegExp(`10\\.244\\.${net}\\.${i}\\b`);
    kernel.unfit = Buffer.of(10, 244, 7, 3);
    const next = await nextProcess(mode, world, (changed) => {
      for (let i = 0; i < services; i += 1) changed.setEndpoints(`web-${i}`, `10.244.7.${i}`);
    });
    next.setEndpoints('web-5', '10.244.7.99');
    await next.clock.pass(100_000);
    await next.clock.pass(100_000);
    for (let i = 0; i < services; i += 1) {
      const now = i === 5 ? 99 : i;
      expect(text()).toMatch(i === 3 ? host(0, 3) : host(7, now));
      if (i !== 3) expect(text()).not.toMatch(host(0, i));
    }
    expect([...next.sync.quarantined]).toMatchObject([{ key: 'default/web-3:http/TCP' }]);
    kernel.unfit = undefined;
    await next.clock.pass(60_000);
    expect(text()).toMatch(host(7, 3));
    expect(text()).not.toMatch(host(0, 3));
    expect([...next.sync.quarantined]).toEqual([]);
    await next.stop();
  });
});
