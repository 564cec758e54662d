import { expect, it } from 'vitest';
import { finish } from '../../../src/state/steps.ts';
import { Departures } from '../../../src/sync/departures.ts';
import { ready, resolveOne, service, slice } from '../state/build.ts';
import { ToyClock } from './double.ts';

it('a Service is resolved once for each that left, when it is no longer waited for, unless it is back', async () => {
  const clock = new ToyClock();
  const resolvedAtMs: number[] = [];
  const departures = new Departures({
    clock,
    state: { touch: () => resolvedAtMs.push(clock.now()) },
  });
  const of = service({ endings: { endAfterMs: 60_000 } });
  const note = (...hosts: number[]): string[] => {
    const endpoints = Object.fromEntries(hosts.map((host) => [`10.0.0.${host}`, ready]));
    const [one] = finish(departures.note(of, [resolveOne(of, [slice(endpoints)])]));
    return one!.endings!.kept!.texts().map((text) => text.replace(/^10\.0\.0\.|:\d+$/g, ''));
  };
  expect(note(1, 2, 3)).toEqual(['1', '2', '3']);
  for (const [hosts, kept] of [
    [
      [2, 3],
      ['2', '3', '1'],
    ],
    [[3], ['3', '1', '2']],
    [
      [2, 3],
      ['2', '3', '1'],
    ],
    [[3], ['3', '1', '2']],
  ] as const) {
    await clock.pass(1000);
    expect(note(...hosts)).toEqual(kept);
  }
  await clock.pass(57_000);
  expect(note(3)).toEqual(['3', '2']);
  await clock.pass(60_000);
  expect(note(3)).toEqual(['3']);
  await clock.pass(1e9);
  expect(resolvedAtMs).toEqual([61_000, 64_000]);
});
