/** Reads the table of the fast path from the kernel. */
import type { Kernel, ReplyOf } from '../kernel/kernel.ts';
import { findTable } from '../kernel/nft/find-table.ts';
import { hasContent, readTable } from '../kernel/nft/own-table.ts';
import type { SetDefinition } from '../kernel/nft/sets.ts';
import { binary } from '../modes/elements.ts';
import {
  content,
  deviceSet,
  type ExcludedSet,
  excludedSets,
  flowtable,
  inTable,
  ownTable,
  setFields,
} from './layout.ts';

/** Keys of each set, as `binary` has them. */
export type Excluded = Readonly<Record<ExcludedSet, ReadonlySet<string>>>;

export interface Observation {
  /** Undefined: there is no such table. `foreign`: another program made it. */
  readonly table: 'ours' | 'foreign' | undefined;
  /** Whether everything except devices and elements is as desired. */
  readonly isIntact: boolean;
  readonly devices: ReadonlySet<string>;
  /** Those in the set of devices, as `interfaceBytes` and `binary` have them. */
  readonly deviceKeys: ReadonlySet<string>;
  readonly excluded: Excluded;
}

/** Rejects with KernelError: EINTR if another program changes the ruleset in the meantime. */
export async function observe(kernel: Kernel, packets: number): Promise<Observation> {
  const none = { IPv4: new Set<string>(), IPv6: new Set<string>(), nodePort: new Set<string>() };
  const found = await findTable(kernel, inTable);
  if (found?.comment !== ownTable.comment) {
    const table = found === undefined ? undefined : 'foreign';
    const nothing = { devices: new Set<string>(), deviceKeys: new Set<string>() };
    return { table, isIntact: false, ...nothing, excluded: none };
  }
  const flowtables = await readTable(kernel, 'flowtable', { kind: 'flowtablesDump', ...inTable });
  const areRight =
    found.flags === 0 &&
    (await hasContent(kernel, content(packets))) &&
    isFlowtableRight(flowtables);
  if (areRight) {
    for (const set of Object.keys(excludedSets) as ExcludedSet[]) {
      none[set] = await keysOf(kernel, excludedSets[set]);
    }
  }
  const deviceKeys = areRight ? await keysOf(kernel, deviceSet) : new Set<string>();
  const names = flowtables[0]?.devices.split(' ').filter((name) => name !== '');
  return {
    table: 'ours',
    isIntact: areRight,
    devices: new Set(names),
    deviceKeys,
    excluded: none,
  };
}

function isFlowtableRight(held: readonly ReplyOf<'flowtable'>[]): boolean {
  const [one] = held;
  return (
    held.length === 1 &&
    one?.flowtable === flowtable.flowtable &&
    one.flags === flowtable.flags &&
    // Without devices the kernel may not report a priority.
    (one.devices === '' || one.priority === flowtable.priority)
  );
}

async function keysOf(kernel: Kernel, definition: SetDefinition): Promise<Set<string>> {
  const { keyLength, set: name } = setFields(definition);
  const shape = { shape: 0, keyLength, dataLength: 0 };
  const request = { kind: 'elementsDump', ...inTable, set: name, ...shape } as const;
  const keys = new Set<string>();
  for (const { entries } of await readTable(kernel, 'elements', request)) {
    for (let at = 0; at < entries.length; at += keyLength) {
      keys.add(binary(entries.subarray(at, at + keyLength)));
    }
  }
  return keys;
}
