import { expect, it } from 'vitest';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { nftablesMode } from '../../../../src/modes/nftables/mode.ts';
import { noPause } from '../../../../src/time/pacer.ts';

const keyLength = 20;

/** Elements of one key, 10.96.0.1:80/TCP and 10.0.0.1:8080, which have counted 9 connections. */
function entries(count: number): Uint8Array {
  const key = [10, 96, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0, 10, 0, 0, 1, 31, 144, 0, 0];
  const one = [...key, 9, 0, 0, 0, 0, 0, 0, 0];
  return Buffer.alloc(count * one.length, Uint8Array.from(one));
}

it.each([
  ['nine tenths full, but for one element', 58_982, true],
  ['nine tenths full', 58_983, false],
  ['full', 65_536, false],
])(
  'what becomes of connections is known unless the set of answers lacks some: it is %s',
  async (_, answers, isFollowed) => {
    const elements: Record<string, number> = {
      'endpoint-connections': 3,
      'endpoint-answers': answers,
      'endpoint-resets': 2,
    };
    const kernel = {
      dump: async ({ set }: { readonly set: string }) => {
        const record = { kind: 'elements', keyLength, entries: entries(elements[set] ?? 0) };
        return { records: [record] };
      },
    };
    const found = new Map<string, number>();
    const reader = kernel as unknown as Kernel;
    await nftablesMode.trafficCounts!(reader, 'IPv4', noPause, ({ count, of }) => {
      const { endpoint, isFollowed: is } = of as { endpoint: string; isFollowed: boolean };
      const what = `${of.kind} ${endpoint} ${is}`;
      found.set(what, (found.get(what) ?? 0) + count);
      return 'shop';
    });
    expect(Object.fromEntries(found)).toEqual({
      [`endpoint 10.0.0.1:8080 ${isFollowed}`]: 27,
      [`answers 10.0.0.1:8080 ${isFollowed}`]: 9 * answers,
      [`resets 10.0.0.1:8080 ${isFollowed}`]: 18,
    });
  },
);
