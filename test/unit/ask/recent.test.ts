import { describe, expect, it } from 'vitest';
import { RecentChanges } from '../../../src/serve/ask/recent.ts';
import { loggerTo } from '../../../src/serve/log.ts';
import { type Endpoint, ready, resolveOne, service, slice } from '../state/build.ts';

interface Line {
  readonly msg: string;
  readonly [key: string]: unknown;
}

function remembering(verbosity = 0) {
  const lines: Line[] = [];
  const log = loggerTo({ write: (line) => lines.push(JSON.parse(line)) }, verbosity);
  let now = 0;
  const clock = { now: () => now, wallMs: () => 1000 + now };
  const recent = new RecentChanges({ clock, log });
  const pass = (ms: number): void => {
    now += ms;
  };
  return { recent, lines, pass };
}

function of(...addresses: string[]) {
  const endpoints = addresses.map((address): [string, Endpoint] => [address, ready]);
  return resolveOne(service(), [slice(Object.fromEntries(endpoints))]);
}

const cause = { receivedMs: 0, resolvedMs: 1, triggerTimesMs: [] };

describe('recent changes', () => {
  it('report added, changed and deleted ports, the latest first', () => {
    const { recent, pass } = remembering();
    const [one, two] = [of('10.244.0.1', '10.244.0.2'), of('10.244.0.3', '10.244.0.2')];
    recent.changed(undefined, one, cause);
    pass(7);
    recent.changed(one, two, cause);
    recent.changed(two, undefined, undefined);
    pass(5);
    const named = Array.from(recent.lastFirst(), (change) => {
      const { added, after, before, latencyMs, removed, time, what } = change;
      return { ms: Date.parse(time), what, before, after, added, removed, latencyMs };
    });
    const unnamed = { added: [], removed: [] };
    expect(named).toEqual([
      { ms: 1007, what: 'went', before: 2, after: 0, ...unnamed, latencyMs: undefined },
      {
        ...{ ms: 1007, what: 'changed', before: 2, after: 2, latencyMs: 7 },
        ...{ added: ['10.244.0.3:8080'], removed: ['10.244.0.1:8080'] },
      },
      { ms: 1000, what: 'came', before: 0, after: 2, ...unnamed, latencyMs: 0 },
    ]);
  });

  it('do not report an endpoint that moved within its pool as added or removed', () => {
    const { recent } = remembering();
    const three = of('10.244.0.1', '10.244.0.2', '10.244.0.3');
    const swapped = { ...three, cluster: of('10.244.0.3', '10.244.0.2').cluster };
    recent.changed(three, swapped, cause);
    const [change] = recent.lastFirst();
    expect(change).toMatchObject({ added: [], removed: ['10.244.0.1:8080'] });
  });

  it('omit unchanged fields, and name other changed ones', () => {
    const { recent } = remembering();
    const one = of('10.244.0.1');
    recent.changed(one, of('10.244.0.1'), undefined);
    expect([...recent.lastFirst()]).toEqual([]);
    recent.changed(one, { ...one, frontends: [], affinityTimeoutSeconds: 9 }, cause);
    const [change] = recent.lastFirst();
    expect(change!.also).toEqual(['frontends', 'session affinity']);
  });

  it('are limited to a thousand', () => {
    const { recent, pass } = remembering();
    const one = of('10.244.0.1');
    for (let i = 0; i < 1500; i += 1) {
      recent.changed(undefined, one, undefined);
      pass(1);
    }
    const times = Array.from(recent.lastFirst(), ({ time }) => Date.parse(time));
    expect([times.length, times[0], times.at(-1)]).toEqual([1000, 2499, 1500]);
  });

  it('are logged at -v=4, and not below', () => {
    for (const verbosity of [3, 4]) {
      const { recent, lines } = remembering(verbosity);
      recent.changed(of('10.244.0.1'), of('10.244.0.2'), cause);
      const expected = {
        service: 'ns/web',
        port: 'http/TCP',
        family: 'IPv4',
        what: 'changed',
        added: ['10.244.0.2:8080'],
        removed: ['10.244.0.1:8080'],
        msg: 'Service port changed in the kernel',
      };
      expect(lines).toMatchObject(verbosity === 4 ? [expected] : []);
    }
  });
});
