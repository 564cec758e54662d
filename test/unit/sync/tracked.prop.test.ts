import fc from 'fast-check';
import { expect, it } from 'vitest';
import { frontendKey } from '../../../src/state/frontend-key.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { type Forwarding, type Frontend, forwardingKey } from '../../../src/state/types.ts';
import { newestOf, type Tracked, TrackedForwardings } from '../../../src/sync/tracked.ts';
import { address, context, ready, resolveOne, service, slice } from '../state/build.ts';

const [some] = resolve(service({ name: 'web' }), [], context) as [Forwarding];
const [frontend] = some.frontends as [Frontend];
const addresses = [frontend.address, address('10.96.9.9')];
const names = ['a', 'b', 'c'];
const ports = [80, 81, 82, 83];

function forwarding(name: string, of: readonly number[]): Forwarding {
  const servicePort = { ...some.servicePort, name };
  // Ports 80 and 81, or 82 and 83, are one port at two addresses.
  const frontends = of.map((port) => ({
    ...frontend,
    address: addresses[port & 1]!,
    port: port >> 1,
  }));
  return { ...some, key: forwardingKey(servicePort), servicePort, frontends };
}

const name = fc.constantFrom(...names);
const step = fc.record({
  does: fc.constantFrom('desire', 'desire', 'plan', 'plan', 'put in force', 'take back', 'forget'),
  name,
  of: fc.option(fc.subarray(ports), { nil: undefined }),
});

/** Those of `forms` without the ports that another Forwarding has already. */
function free(forms: ReadonlyMap<string, readonly number[]>, of: string, wanted: number[]) {
  const others = [...forms].flatMap(([other, ports]) => (other === of ? [] : ports));
  return wanted.filter((port) => !others.includes(port));
}

it('a frontend that one Forwarding has or will have, and another is to have, has a holder', () => {
  const property = fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
    const tracked = new TrackedForwardings('IPv4', { now: () => 0 });
    const recordOf = (of: string): Tracked => tracked.at(forwarding(of, []).key);
    const desired = new Map<string, readonly number[]>();
    const planned = new Map<string, readonly number[]>();
    const inForce = new Map<string, readonly number[]>();
    let before = new Map<string, readonly number[]>();
    const setPlanned = (of: string, next: readonly number[] | undefined): void => {
      if (next === undefined) planned.delete(of);
      else planned.set(of, next);
    };
    for (const { does, name: of, of: wanted } of steps) {
      const record = recordOf(of);
      if (does === 'desire') {
        const next = wanted && free(desired, of, wanted);
        tracked.setDesired(record, next && forwarding(of, next));
        if (next === undefined) desired.delete(of);
        else desired.set(of, next);
      } else if (does === 'plan') {
        const next = wanted && free(new Map([...before, ...planned]), of, wanted);
        tracked.setPlanned(record, next && forwarding(of, next));
        setPlanned(of, next);
      } else if (does === 'put in force') {
        for (const one of names) {
          tracked.setInForce(recordOf(one), recordOf(one).planned);
          const ports = planned.get(one);
          if (ports === undefined) inForce.delete(one);
          else inForce.set(one, ports);
          before.delete(one);
        }
      } else if (does === 'take back') {
        for (const one of names) {
          tracked.takeBack(recordOf(one));
          setPlanned(one, inForce.get(one));
        }
      } else {
        tracked.beginRepair();
        before = new Map([...before, ...inForce]);
        planned.clear();
        inForce.clear();
      }
      for (const taker of names) {
        const own = desired.get(taker);
        if (own === undefined) continue;
        const holders = names.filter(
          (other) =>
            other !== taker &&
            (planned.get(other) ?? before.get(other))?.some((port) => own.includes(port)),
        );
        const found = tracked.holders(forwarding(taker, own)) ?? [];
        expect([...found].map((one) => newestOf(one)?.servicePort.name).sort()).toEqual(holders);
      }
      expect(tracked.desired.size).toBe(desired.size);
      expect(tracked.inForce.size).toBe(inForce.size);
      const keysIn = ([, { frontends }]: readonly [string, Forwarding]) =>
        frontends.map(frontendKey);
      expect([...tracked.inForce].flatMap(keysIn)).toHaveLength(
        [...inForce.values()].flat().length,
      );
    }
  });
  const moves = (
    [
      ['desire', 'a', 80],
      ['plan', 'a', 80],
      ['desire', 'a', 81],
      ['desire', 'b', 80],
    ] as const
  ).map(([does, name, port]) => ({ does, name, of: [port] }));
  fc.assert(property, { numRuns: 500, examples: [[moves]] });
});

it('a record is dropped only if it holds nothing', () => {
  const tracked = new TrackedForwardings('IPv4', { now: () => 0 });
  const web = forwarding('web', [80]);
  const record = tracked.at(web.key);
  tracked.setDesired(record, web);
  tracked.drop(record);
  expect(tracked.at(web.key)).toBe(record);
  tracked.setDesired(record, undefined);
  tracked.setPlanned(record, web);
  tracked.drop(record);
  expect(tracked.at(web.key)).toBe(record);
  tracked.setInForce(record, web);
  tracked.setPlanned(record, undefined);
  tracked.drop(record);
  expect(tracked.at(web.key)).toBe(record);
  tracked.setInForce(record, undefined);
  tracked.drop(record);
  expect(tracked.at(web.key)).not.toBe(record);
});

it('those are counted whose clients of a policy Local reach no endpoint', () => {
  const tracked = new TrackedForwardings('IPv4', { now: () => 0 });
  const record = tracked.at(some.key);
  const counts = (next: Forwarding | undefined) => {
    tracked.setDesired(record, next);
    return [...Object.values(tracked.unreached), tracked.desired.size];
  };
  const local = { internalTrafficPolicy: 'Local' } as const;
  const outside = { externalTrafficPolicy: 'Local' as const, externalIPs: ['203.0.113.1'] };
  const of = (fields: Parameters<typeof service>[0]) =>
    resolveOne(service({ name: 'web', ...fields }), [slice({ '10.0.0.1': ready })]);
  expect(counts(of(local))).toEqual([1, 0, 1]);
  expect(counts(of(outside))).toEqual([0, 1, 1]);
  expect(counts(of({ ...local, ...outside }))).toEqual([1, 1, 1]);
  expect(counts(of({}))).toEqual([0, 0, 1]);
  expect(counts(undefined)).toEqual([0, 0, 0]);
});
