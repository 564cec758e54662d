/** Claims against a table of who would hold what if all Services were looked at together. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Claims, formatFrontend } from '../../../src/state/claims.ts';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding, Service } from '../../../src/state/types.ts';
import { http, service } from './build.ts';

const addresses = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
const anyService: fc.Arbitrary<Service> = fc
  .record({
    name: fc.constantFrom('a', 'b', 'c', 'd'),
    createdMs: fc.nat(2),
    clusterIPs: fc.constantFrom(...addresses).map((ip) => [ip]),
    externalIPs: fc.subarray(addresses),
    nodePort: fc.constantFrom(0, 30000),
  })
  .map(({ nodePort, ...fields }) => service({ ...fields, ports: [{ ...http, nodePort }] }));

type Step = Service | { readonly gone: string };
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: anyService },
  { weight: 1, arbitrary: fc.record({ gone: fc.constantFrom('a', 'b', 'c', 'd') }) },
);

function resolved(of: Service): Forwarding[] {
  return resolve(of, [], { zone: '', nodeAddresses: [], externalIPsEnabled: true });
}

function texts(forwardings: readonly Forwarding[]): Map<string, string> {
  return new Map(
    forwardings.flatMap((forwarding) =>
      forwarding.frontends.map((frontend) => [formatFrontend('TCP', frontend), frontend.kind]),
    ),
  );
}

/**
 * Takes steps and does what the claims ask for; remembers what each Service was last given. Several
 * Services are worked off side by side, as a sync does it.
 */
class Sync {
  readonly claims = new Claims();
  readonly services = new Map<string, Service>();
  readonly written = new Map<string, Map<string, string>>();
  readonly queue = new Set<string>();
  readonly begun = new Map<string, Generator<undefined, readonly string[]>>();

  /** Takes a step in, and works nothing off yet. */
  note(next: Step): void {
    if ('gone' in next) this.services.delete(next.gone);
    else this.services.set(next.name, next);
    this.queue.add('gone' in next ? next.gone : next.name);
  }

  /** Works off at most `limit` steps, of Services in the order in which they were named. */
  drain(limit: number): void {
    for (let steps = 0; steps < limit; steps += 1) {
      expect(steps, 'claims settle').toBeLessThan(2000);
      const name = [...this.queue].find((one) => !this.begun.has(one));
      const begins = name !== undefined && (this.begun.size < 2 || steps % 3 === 0);
      if (begins) {
        this.queue.delete(name);
        this.begun.set(name, this.refresh(name));
      }
      const [job] = this.begun;
      if (job === undefined) return;
      const { done, value } = job[1].next();
      this.begun.delete(job[0]);
      if (!done) this.begun.set(...job);
      else for (const other of value) this.queue.add(other.slice('ns/'.length));
    }
  }

  *refresh(name: string): Generator<undefined, readonly string[]> {
    const of = this.services.get(name);
    if (of === undefined) {
      this.written.delete(name);
      return yield* this.claims.release(`ns/${name}`);
    }
    const { forwardings, concede } = yield* this.claims.claim(of, resolved(of));
    this.written.set(name, texts(forwardings));
    this.expectNobodyShares();
    return yield* concede();
  }

  expectNobodyShares(): void {
    const all = [...this.written.values()].flatMap((frontends) => [...frontends.keys()]);
    expect(new Set(all).size).toBe(all.length);
  }
}

/** Holder of each frontend, by looking at all Services at once. */
function bestHolders(services: Iterable<Service>): Map<string, string> {
  const best = new Map<string, { of: Service; kind: string }>();
  for (const of of services) {
    for (const [text, kind] of texts(resolved(of))) {
      const other = best.get(text);
      if (other === undefined || isBetter({ of, kind }, other)) best.set(text, { of, kind });
    }
  }
  return new Map([...best].map(([text, { of }]) => [text, of.name]));
}

function isBetter(
  one: { of: Service; kind: string },
  other: { of: Service; kind: string },
): boolean {
  const rank = ({ of, kind }: typeof one): string =>
    `${kind === 'clusterIP' ? 0 : 1} ${of.createdMs} ${of.name}`;
  return rank(one) < rank(other);
}

function holders(sync: Sync): Map<string, string> {
  return new Map(
    [...sync.written].flatMap(([name, held]) => [...held.keys()].map((text) => [text, name])),
  );
}

describe('claims', () => {
  it('come to the same holders after any history, however late it is worked off', () => {
    const history = fc.array(fc.record({ next: step, limit: fc.nat(12) }), { maxLength: 25 });
    fc.assert(
      fc.property(history, (steps) => {
        const sync = new Sync();
        for (const { next, limit } of steps) {
          sync.note(next);
          sync.drain(limit);
        }
        sync.drain(Number.POSITIVE_INFINITY);
        expect(holders(sync)).toEqual(bestHolders(sync.services.values()));
      }),
      { numRuns: 1000 },
    );
  });

  it('come to the same holders in whatever order the same Services arrive', () => {
    const set = fc.uniqueArray(anyService, { selector: ({ name }) => name });
    fc.assert(
      fc.property(
        set.chain((all) => fc.tuple(fc.constant(all), shuffled(all))),
        ([one, other]) => {
          const ends = [one, other].map((services) => {
            const sync = new Sync();
            for (const next of services) {
              sync.note(next);
              sync.drain(Number.POSITIVE_INFINITY);
            }
            return [...holders(sync)].sort();
          });
          expect(ends[1]).toEqual(ends[0]);
        },
      ),
    );
  });

  it('keep nothing of Services that went: whoever comes next holds all that it claims', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 15 }), anyService, (steps, last) => {
        const sync = new Sync();
        for (const next of steps) sync.note(next);
        sync.drain(Number.POSITIVE_INFINITY);
        for (const gone of [...sync.services.keys()]) sync.note({ gone });
        sync.note(last);
        sync.drain(Number.POSITIVE_INFINITY);
        expect(sync.written.get(last.name)).toEqual(texts(resolved(last)));
      }),
    );
  });
});

function shuffled<T>(items: readonly T[]): fc.Arbitrary<T[]> {
  return fc.shuffledSubarray([...items], { minLength: items.length });
}
