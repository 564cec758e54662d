import { expect, it, onTestFinished } from 'vitest';
import type { Forwarding } from '../../../src/state/types.ts';
import type { FilterEvent } from '../../../src/sync/events.ts';
import { FilterRules } from '../../../src/sync/filter-rules.ts';
import { Ruleset } from '../../../src/sync/ruleset.ts';
import { resolveOne, service } from '../state/build.ts';
import { ToyClock, ToyKernel, ToyPlanner } from './double.ts';
import { testSettings } from './world.ts';

function forwarding(name: string, healthCheckNodePort: number, port = 80): Forwarding {
  const ports = [{ name: 'http', protocol: 'TCP', port, nodePort: 0 }] as const;
  return { ...resolveOne(service({ name, ports }), []), healthCheckNodePort };
}

it('rules of the table filter follow those of the mode, for health-check node ports', async () => {
  const [clock, kernel, events] = [new ToyClock(), new ToyKernel(), [] as FilterEvent[]];
  const planner = new ToyPlanner(kernel, { serviceCIDRs: [], nodePortAddresses: 'all' });
  Object.assign(planner, { describe: ({ key }: Forwarding) => [key] });
  const rules = new FilterRules({
    ...{ planner, kernel, clock, ruleset: new Ruleset(), settings: testSettings },
    observer: (event) => events.push(event),
  });
  const running = rules.run();
  onTestFinished(async () => {
    await rules.stop();
    await running;
  });
  const [a, b, plain] = [forwarding('a', 30_001), forwarding('b', 30_002), forwarding('c', 0)];
  const held = async (): Promise<string> => {
    await clock.pass(5000);
    const keys = [...kernel.objects.keys()].filter((key) => key.startsWith('f '));
    return keys.map((key) => key.replace('f ns/', '').replace(':http/TCP', '')).join();
  };
  for (const one of [a, plain]) rules.changed(undefined, one);
  expect(await held()).toBe('');
  expect(rules.upToDate).toBe(false);
  rules.listed();
  rules.listed();
  expect(await held()).toBe('a');
  expect(rules.upToDate).toBe(true);
  expect([a, plain].map((one) => rules.describe(one))).toEqual([[a.key], []]);
  rules.changed(undefined, b);
  expect(await held()).toBe('a,b');
  const { commits } = kernel;
  rules.changed(a, forwarding('a', 30_001, 81));
  expect(await held()).toBe('a,b');
  expect(kernel.commits).toBe(commits);
  rules.changed(a, forwarding('a', 0));
  rules.changed(b, forwarding('b', 30_003, 82));
  expect(await held()).toBe('b');
  expect(kernel.objects.get(`f ${b.key}`)).toContain(':82');
  rules.changed(b, undefined);
  expect(await held()).toBe('');
  expect(new Set(events.map(({ kind, family }) => `${kind} ${family}`))).toEqual(
    new Set(['filter-rules IPv4']),
  );
  const queued = events.map(({ of }) => of.kind).filter((kind) => kind === 'queued');
  expect(queued).toHaveLength(4);
});
