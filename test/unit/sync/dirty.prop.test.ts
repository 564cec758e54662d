import fc from 'fast-check';
import { expect, it } from 'vitest';
import { DirtyForwardings } from '../../../src/sync/dirty.ts';
import { Tracked } from '../../../src/sync/tracked.ts';
import { forwarding, pool } from '../modes/nftables/forwardings.ts';

const services = ['ns/a', 'ns/b', 'ns/c', 'ns/d'];
const anyKey = fc.constantFrom(...services.flatMap((name) => [`${name}:x/TCP`, `${name}:y/TCP`]));

/** The keys of each Service that has any, the next one first. */
class Model {
  readonly #waiting = new Map<string, Set<string>>();

  get keys(): string[] {
    return [...this.#waiting.values()].flatMap((keys) => [...keys]);
  }

  /** The next one of each Service. */
  get firsts(): string[] {
    return [...this.#waiting.values()].map(([first]) => first!);
  }

  mark(key: string): void {
    const service = key.slice(0, 4);
    this.#waiting.set(service, (this.#waiting.get(service) ?? new Set()).add(key));
  }

  delete(key: string): void {
    const service = key.slice(0, 4);
    const keys = this.#waiting.get(service);
    keys?.delete(key);
    if (keys?.size === 0) this.#waiting.delete(service);
  }

  clear(): void {
    this.#waiting.clear();
  }
}

const step = fc.oneof(
  fc.record({ does: fc.constantFrom('mark', 'delete'), key: anyKey }),
  fc.record({ does: fc.constantFrom('take next', 'take all'), key: fc.constant('') }),
);

it('each dirty Service is processed, whatever is marked, deleted and taken in the meantime', () => {
  const steps = fc.array(step, { maxLength: 60 });
  fc.assert(
    fc.property(steps, (all) => {
      const [dirty, model] = [new DirtyForwardings(), new Model()];
      const records = new Map<string, Tracked>();
      const recordOf = (key: string): Tracked => {
        const record = records.get(key) ?? new Tracked('IPv4', key);
        records.set(key, record);
        return record;
      };
      for (const { does, key } of all) {
        const next = dirty.next?.key;
        for (const one of records.values()) expect(one.isDirty).toBe(model.keys.includes(one.key));
        if (next === undefined) expect(model.keys).toEqual([]);
        else expect(model.firsts).toContain(next);
        expect(dirty.any).toBe(next !== undefined);
        expect(dirty.services).toBe(model.firsts.length);
        if (does === 'mark') {
          dirty.mark(recordOf(key), undefined);
          model.mark(key);
        } else if (does === 'delete') {
          dirty.delete(recordOf(key));
          model.delete(key);
        } else if (does === 'take all') {
          const taken = Array.from(dirty.takeAll(), (one) => one.key);
          expect(taken.sort()).toEqual(model.keys.sort());
          model.clear();
        } else {
          dirty.take();
          if (next !== undefined) model.delete(next);
        }
      }
    }),
    { numRuns: 1000 },
  );
});

const one = pool(1);

// One more than the elements of each: those of its frontend, and of an endpoint in each pool.
it.each([
  [{}, 341],
  [{ local: one }, 341],
  [{ local: pool(1) }, 255],
  [{ frontends: [] }, 1023],
])('a Service of small Forwardings like %j is large when it has more than %i', (fields, most) => {
  const [dirty, desired] = [new DirtyForwardings(), forwarding('web', one, fields)];
  const marks = Array.from({ length: most + 1 }, (_, i) => {
    return dirty.mark(
      Object.assign(new Tracked('IPv4', `ns/web:${i}/TCP`), { desired }),
      undefined,
    );
  });
  expect(marks.lastIndexOf(true)).toBe(most - 1);
});
