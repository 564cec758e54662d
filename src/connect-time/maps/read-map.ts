/** Reads pinned maps. */
import type { KernelReader } from '../../kernel/kernel.ts';
import { inTurns, type Pause } from '../../time/pacer.ts';

interface MapToRead {
  readonly directory: string;
  readonly map: string;
  readonly keyBytes: number;
  readonly valueBytes: number;
}

/** Pauses between elements. `take` receives copies. A missing map has no elements. */
export async function readMap(
  kernel: KernelReader,
  { directory, map, keyBytes, valueBytes }: MapToRead,
  pause: Pause,
  take: (key: Uint8Array, value: Uint8Array) => void,
): Promise<void> {
  const { records } = await kernel.dump({ kind: 'bpfElementsDump', directory, map });
  for (const record of records) {
    if (record.kind !== 'bpfElements') continue;
    const indexes = Array(record.keys.length / keyBytes).keys();
    await inTurns(indexes, pause, (i) => {
      take(
        record.keys.slice(i * keyBytes, (i + 1) * keyBytes),
        record.values.slice(i * valueBytes, (i + 1) * valueBytes),
      );
    });
  }
}

/** Counts by reading all elements in the kernel. A missing map has none. */
export async function countElements(
  kernel: KernelReader,
  { directory, map }: Pick<MapToRead, 'directory' | 'map'>,
): Promise<number> {
  const { records } = await kernel.dump({ kind: 'bpfElementsCount', directory, map });
  const count = records.find((one) => one.kind === 'bpfCount');
  return count?.elements ?? 0;
}
