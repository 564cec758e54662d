/** Which part of its share each endpoint has, against a table of the steps at which they came. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { finish } from '../../../src/state/steps.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { SlowStarts } from '../../../src/sync/slow-starts.ts';
import { ready, readyLocal, resolveOne, service, slice } from '../state/build.ts';
import { ToyClock } from './double.ts';

const hosts = ['10.244.0.1', '10.244.0.2', '10.244.0.3', '10.244.0.4'];
const life = fc.array(
  fc.record({
    /** Those with an odd last byte are in the local pool, too. */
    endpoints: fc.subarray(hosts, { minLength: 1 }),
    slowStartMs: fc.constantFrom(9000, 9000, 18_000, undefined),
    passMs: fc.constantFrom(0, 500, 1000, 1500, 4000, 9000),
  }),
  { minLength: 3, maxLength: 12 },
);

it('grows by a tenth in each step, of all endpoints of a Service together', () => {
  return fc.assert(
    fc.asyncProperty(life, async (moments) => {
      const clock = new ToyClock();
      let [last, stepMs, touchedMs] = [undefined as Forwarding | undefined, 0, [] as number[]];
      let note = (): boolean => false;
      const touch = (): void => {
        touchedMs.push(clock.now());
        note();
      };
      const starts = new SlowStarts({ clock, state: { touch } });
      let since = new Map<string, number>();
      const stepNow = () => Math.floor(clock.now() / stepMs);
      for (const { endpoints, slowStartMs, passMs } of moments) {
        const balancing =
          slowStartMs === undefined ? undefined : { balance: undefined, slowStartMs };
        const of = service({ externalTrafficPolicy: 'Local', type: 'NodePort', balancing });
        const each = endpoints.map((at) => [at, /[13]$/.test(at) ? readyLocal : ready] as const);
        const next = resolveOne(of, [slice(Object.fromEntries(each))]);
        const hostOf = (text: string): string => text.replace(/:.*/, '');
        const before = last?.cluster.texts().map(hostOf) ?? endpoints;
        const come = endpoints.filter((host) => !before.includes(host));
        if ((slowStartMs ?? 0) / 9 !== stepMs) since = new Map();
        stepMs = (slowStartMs ?? 0) / 9;
        const grows = ([host, step]: readonly [string, number]): boolean =>
          endpoints.includes(host) && stepNow() - step < 9;
        const added = come.map((host) => [host, stepNow()] as const);
        since = new Map(stepMs === 0 ? [] : [...[...since].filter(grows), ...added]);
        note = () => finish(starts.note(of, [next], () => last));
        expect(starts.concerns(of) && note()).toBe(stepMs > 0 && come.length > 0);
        last = next;
        const check = (): void => {
          const parts = starts.starting('IPv4', next.key);
          const found = next.cluster.texts().map((text, i) => {
            return [hostOf(text), parts?.get(next.cluster.key(i))] as const;
          });
          const expected = [...since].filter(grows);
          expect(new Map(found.filter(([, part]) => part !== undefined))).toEqual(
            new Map(expected.map(([host, step]) => [host, (1 + stepNow() - step) / 10])),
          );
        };
        check();
        touchedMs = [];
        const [first, end] = [
          stepNow() + 1,
          Math.max(...since.values(), Number.NEGATIVE_INFINITY) + 9,
        ];
        await clock.pass(passMs);
        check();
        const steps = Array.from({
          length: Math.max(0, Math.min(stepNow(), end) - first + 1) || 0,
        });
        expect(touchedMs).toEqual(steps.map((_, i) => Math.ceil((first + i) * stepMs)));
      }
      starts.stop();
      await clock.pass(20_000);
      expect(starts.starting('IPv4', last!.key)).toBeUndefined();
    }),
  );
});
