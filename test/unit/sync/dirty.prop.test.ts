import fc from 'fast-check';
import { expect, it } from 'vitest';
import { DirtyForwardings } from '../../../src/sync/dirty.ts';
import { Tracked } from '../../../src/sync/tracked.ts';

const services = ['ns/a', 'ns/b', 'ns/c', 'ns/d'];
const anyKey = fc.constantFrom(...services.flatMap((name) => [`${name}:x/TCP`, `${name}:y/TCP`]));

/** The same as a list of Services with their keys, the next one first. */
class Model {
  #waiting: { readonly service: string; readonly keys: readonly string[] }[] = [];

  get keys(): string[] {
    return this.#waiting.flatMap(({ keys }) => keys);
  }

  mark(key: string): void {
    if (this.keys.includes(key)) return;
    const service = key.slice(0, 4);
    const known = this.#waiting.find((one) => one.service === service);
    if (known === undefined) this.#waiting.push({ service, keys: [key] });
    else this.#replace(service, [...known.keys, key]);
  }

  delete(key: string): void {
    for (const { service, keys } of this.#waiting) {
      this.#replace(
        service,
        keys.filter((one) => one !== key),
      );
    }
  }

  takeNext(): void {
    const key = this.keys[0];
    if (key === undefined) return;
    this.delete(key);
    const isOfService = ({ service }: { readonly service: string }) => key.startsWith(service);
    const rest = this.#waiting.filter((one) => !isOfService(one));
    this.#waiting = [...rest, ...this.#waiting.filter(isOfService)];
  }

  clear(): void {
    this.#waiting = [];
  }

  #replace(service: string, keys: readonly string[]): void {
    this.#waiting = this.#waiting
      .map((one) => (one.service === service ? { service, keys } : one))
      .filter((one) => one.keys.length > 0);
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
        const record = records.get(key) ?? new Tracked(key);
        records.set(key, record);
        return record;
      };
      for (const { does, key } of all) {
        const next = dirty.next()?.key;
        for (const one of records.values())
          expect(dirty.has(one)).toBe(model.keys.includes(one.key));
        expect(next).toBe(model.keys[0]);
        expect(dirty.any).toBe(next !== undefined);
        if (does === 'mark') {
          dirty.mark(recordOf(key), undefined);
          model.mark(key);
        } else if (does === 'delete') {
          dirty.delete(recordOf(key));
          model.delete(key);
        } else if (does === 'take all') {
          expect(Array.from(dirty.takeAll().keys(), (one) => one.key)).toEqual(model.keys);
          model.clear();
        } else {
          dirty.take();
          model.takeNext();
        }
      }
    }),
    { numRuns: 1000 },
  );
});
