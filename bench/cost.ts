/**
 * What does one byte of a Service and its EndpointSlices cost, where they ask for most: the kernel's
 * memory, live heap, and time of the event loop? docs/limits.md has the bounds. Run it alone.
 */

import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { serviceLimitDefaults } from '../src/config/settings/traffic.ts';
import { modeTable } from '../src/modes/mode-table.ts';
import { decodeChange, decodeContext } from '../src/source/decode.ts';
import type { Change } from '../src/state/change.ts';
import {
  costliest,
  costlyObjects,
  least,
  nodeName,
  type Shape,
} from '../test/fake/costly-objects.ts';
import { usedBytes } from '../test/used-memory.ts';
import { inNamespace } from './lib/namespace.ts';
import { withRig } from './lib/rig.ts';
import { number, ratio, table } from './lib/stats.ts';

const { namespaceFactor: factor, ...ofService } = serviceLimitDefaults;
const limits = { ...ofService, frontendEndpoints: modeTable.nftables.frontendEndpoints };
/** Each is in a namespace of its own, so that only the limits of one Service count. */
const services = 30;
/** What a namespace held is freed some time after it. */
const restMs = 8000;
const decoding = decodeContext(nodeName);

export async function cost(): Promise<string> {
  const rows: string[][] = [];
  for (const [name, shape] of [['nothing', {}], ...Object.entries(costliest)] as const) {
    const { bytes, changes } = decoded({ ...least, ...shape, families: ['IPv4'] });
    const [kernel, heap, turn] = await inNamespace('cost', (namespace) =>
      withRig(
        namespace,
        async (rig) => {
          await sleep(restMs);
          const before = {
            kernel: kernelBytes(),
            heap: usedBytes(),
            loop: performance.eventLoopUtilization(),
          };
          for (const change of changes()) rig.state.apply(change);
          await rig.load([]);
          const { active } = performance.eventLoopUtilization(before.loop);
          await sleep(restMs);
          return [kernelBytes() - before.kernel, usedBytes() - before.heap, 1000 * active];
        },
        ...[undefined, undefined, undefined, { limits, factor }],
      ),
    );
    rows.push([
      name,
      number(bytes / services),
      ...[kernel!, heap!, turn!].map((one) => ratio(one, bytes)),
    ]);
  }
  return [
    'What one byte of objects costs in mode nftables: bytes of memory, and microseconds of the event loop',
    table(['objects', 'bytes of one', 'kernel', 'heap', 'turn'], rows),
  ].join('\n\n');
}

function decoded(shape: Shape) {
  let bytes = 0;
  const all = Array.from({ length: services }, (_, i) => costlyObjects(shape, i + 1));
  for (const one of all) bytes += one.bytes;
  function* changes(): Generator<Change> {
    for (const { service, slices } of all) {
      yield decodeChange('services', service, decoding).change!;
      for (const slice of slices) yield decodeChange('endpointslices', slice, decoding).change!;
    }
  }
  return { bytes, changes };
}

function kernelBytes(): number {
  const text = readFileSync('/proc/meminfo', 'utf8');
  const kib = (name: string): number => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(text)![1]);
  return 1024 * (kib('SUnreclaim') + kib('Percpu') + kib('VmallocUsed'));
}
