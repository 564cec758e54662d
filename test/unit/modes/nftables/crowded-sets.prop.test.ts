/** Sets that packets fill keep room for the pairs of all namespaces. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { nftOps } from '../../../../src/kernel/ops.ts';
import { readRecords } from '../../../../src/kernel/records.ts';
import { byName } from '../../../../src/modes/nft-table/layout.ts';
import { countingSet } from '../../../../src/modes/nft-table/refusals.ts';
import { type Counting, readCountings } from '../../../../src/modes/nft-table/traffic.ts';
import { noPause } from '../../../../src/time/pacer.ts';

type Name = 'endpoint-connections' | 'endpoint-answers';
const parts = ['address', 'protocol', 'port'] as const;
const countings: readonly Counting<Name>[] = [
  { set: 'endpoint-connections', parts, of: 'endpoint' },
  { set: 'endpoint-answers', parts, of: 'answers' },
];
const key = ['ipv4_addr', 'inet_proto', 'inet_service', 'ipv4_addr', 'inet_service'] as const;
const keyLength = 20;

/** The key of a pair, whose namespace is its second byte. */
function pairOf(namespace: number, n: number): string {
  const frontend = Buffer.of(10, namespace, n >> 8, n & 255, 6, 0, 0, 0, 0, 80, 0, 0);
  return `${frontend.toString('latin1')}\x0a\0\0\x01\x1f\x90\0\0`;
}

const namespaceOf = (pair: string): number => pair.charCodeAt(1);

/** Two sets of one size. */
class Counters {
  readonly sets: Readonly<Record<Name, Set<string>>>;
  readonly #size: number;
  /** Expire after they are read. */
  expiring: readonly string[] = [];

  constructor(size: number, connections: readonly string[], answers: readonly string[] = []) {
    this.#size = size;
    const [sent, answered] = [new Set(connections), new Set(answers)];
    this.sets = { 'endpoint-connections': sent, 'endpoint-answers': answered };
  }

  async read(): Promise<void> {
    const of = (name: Name) => countingSet(name, key, '', this.#size);
    const sets = byName(of('endpoint-connections'), of('endpoint-answers'));
    const layout = { family: 'IPv4', table: 'fairlead', comment: '', sets } as const;
    const kernel = { dump: this.#dump, apply: this.#apply } as unknown as Kernel;
    await readCountings(kernel, layout, countings, noPause, ({ destination }) => {
      return `namespace ${destination.address!.bytes[1]}`;
    });
  }

  readonly #dump = async ({ set }: { readonly set: Name }) => {
    const counter = '\x01\0\0\0\0\0\0\0';
    const text = [...this.sets[set]].map((pair) => pair + counter).join('');
    return { records: [{ kind: 'elements', keyLength, entries: Buffer.from(text, 'latin1') }] };
  };

  /** Refuses a commit that deletes what is not there, as the kernel does. */
  readonly #apply = async (ops: Uint8Array) => {
    for (const pair of this.expiring) for (const set of Object.values(this.sets)) set.delete(pair);
    const deleted: [Set<string>, string][] = [];
    for (const op of readRecords(nftOps, ops)) {
      if (op.kind !== 'elementsDelete') throw new Error(op.kind);
      const text = Buffer.from(op.entries).toString('latin1');
      for (let at = 0; at < text.length; at += keyLength) {
        deleted.push([this.sets[op.set as Name], text.slice(at, at + keyLength)]);
      }
    }
    if (!deleted.every(([set, pair]) => set.has(pair))) {
      return { kind: 'failed', failures: [{ code: 'ENOENT' }] };
    }
    for (const [set, pair] of deleted) set.delete(pair);
    return { kind: 'applied' };
  };
}

/** By namespace. */
function sizesOf(pairs: Iterable<string>): Map<number, number> {
  const sizes = new Map<number, number>();
  for (const pair of pairs) sizes.set(namespaceOf(pair), (sizes.get(namespaceOf(pair)) ?? 0) + 1);
  return sizes;
}

const numbered = (namespace: number, count: number): string[] =>
  Array.from({ length: count }, (_, n) => pairOf(namespace, n));

/** The pairs of up to six namespaces, which fill at least three quarters of 64. */
const crowds = fc
  .array(fc.nat(64), { minLength: 1, maxLength: 6 })
  .map((sizes) => sizes.flatMap((size, namespace) => numbered(namespace, size)).slice(0, 64))
  .filter((pairs) => pairs.length >= 48)
  .chain((pairs) => fc.shuffledSubarray(pairs, { minLength: pairs.length }));

it('a full set is emptied to its half, and no namespace keeps less than another unless it had', async () => {
  await fc.assert(
    fc.asyncProperty(crowds, fc.nat(47), async (pairs, answered) => {
      const counters = new Counters(64, pairs, pairs.slice(0, answered));
      await counters.read();
      const { 'endpoint-answers': answers, 'endpoint-connections': kept } = counters.sets;
      const [all, left] = [sizesOf(pairs), sizesOf(kept)];
      expect(kept.size).toBe(32);
      for (const [namespace, size] of all) {
        const own = left.get(namespace) ?? 0;
        if (own < size) expect(own).toBeGreaterThanOrEqual(Math.max(...left.values()) - 1);
      }
      // What is sent and what is answered stay comparable.
      expect([...answers]).toEqual(pairs.slice(0, answered).filter((pair) => kept.has(pair)));
    }),
  );
});

it('below three quarters, a set keeps all', async () => {
  const counters = new Counters(64, numbered(1, 47));
  await counters.read();
  expect(counters.sets['endpoint-connections'].size).toBe(47);
  counters.sets['endpoint-connections'].add(pairOf(2, 0));
  await counters.read();
  expect(sizesOf(counters.sets['endpoint-connections'])).toEqual(
    new Map([
      [1, 31],
      [2, 1],
    ]),
  );
});

it('what expires in the meantime keeps 1,023 others until the next reading', async () => {
  const counters = new Counters(8192, numbered(1, 8192));
  const pairs = counters.sets['endpoint-connections'];
  counters.expiring = [pairOf(1, 5000)];
  await counters.read();
  expect(pairs.size).toBe(4096 + 1023);
});
