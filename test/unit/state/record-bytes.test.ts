/** The heap that objects take as they were read, compared with etcd and with the estimate. */
import { describe, expect, it } from 'vitest';
import { largeObjects } from '../../../bench/lib/records.ts';
import { decodeChange, decodeContext, kindOf } from '../../../src/source/decode.ts';
import type { Change } from '../../../src/state/change.ts';
import { bytesOfService, bytesOfSlice } from '../../../src/state/heap-guard.ts';
import { encodeObject } from '../../fake/protobuf.ts';
import { usedMiB } from '../../used-memory.ts';

/** Names of nodes are as many as nodes, and shared: only those that no node has take more. */
const ratios: Readonly<Record<string, number>> = {
  'the same, each with a node and zone of its own': 4,
};

describe('The record of', () => {
  it.each(largeObjects)('$name takes at most its bytes in etcd, and as estimated', (one) => {
    const { make, name, resource } = one;
    const count = Math.ceil(one.count / 5);
    const context = decodeContext('node');
    const decode = (n: number): Change => decodeChange(resource, make(n), context).change!;
    const kept = [decode(0)];
    const before = usedMiB();
    for (let n = 1; n <= count; n += 1) kept.push(decode(n));
    const bytes = ((usedMiB() - before) * 2 ** 20) / count;
    expect(kept).toHaveLength(count + 1);
    const etcd = encodeObject(kindOf[resource], make(count)).length;
    expect(bytes / etcd).toBeLessThan(ratios[name] ?? 1);
    const last = kept.at(-1)!;
    const estimated =
      last.kind === 'service'
        ? bytesOfService(last.service)
        : last.kind === 'slice'
          ? bytesOfSlice(last.slice)
          : 0;
    expect(estimated).toBeGreaterThan(0.6 * bytes);
  });
});
