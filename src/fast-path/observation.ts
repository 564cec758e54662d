/** Reads the table of the fast path from the kernel. */
import type { Kernel, ReplyOf } from '../kernel/kernel.ts';
import { contentOfRule, hasDesiredHook, hasDesiredRules } from '../kernel/nft/chain.ts';
import { findTable } from '../kernel/nft/find-table.ts';
import { isDesiredSet } from '../kernel/nft/sets.ts';
import type { Reply, Request } from '../kernel/ops.ts';
import { binary } from '../modes/elements.ts';
import {
  chains,
  type ExcludedSet,
  excludedSets,
  flowtable,
  inTable,
  ownTable,
  setFields,
  tableName,
} from './layout.ts';

/** Keys of each set, as `binary` has them. */
export type Excluded = Readonly<Record<ExcludedSet, ReadonlySet<string>>>;

export interface Observation {
  /** Undefined: there is no such table. `foreign`: another program made it. */
  readonly table: 'ours' | 'foreign' | undefined;
  /** Whether everything except devices and elements is as desired. */
  readonly isIntact: boolean;
  readonly devices: ReadonlySet<string>;
  readonly excluded: Excluded;
}

/** Another process changed the ruleset during the dump: read again. */
export class Unsteady extends Error {}

/** @throws Unsteady, KernelError */
export async function observe(kernel: Kernel, packets: number): Promise<Observation> {
  const none = { IPv4: new Set<string>(), IPv6: new Set<string>(), nodePort: new Set<string>() };
  const found = await findTable(kernel, inTable);
  if (found?.comment !== ownTable.comment) {
    const table = found === undefined ? undefined : 'foreign';
    return { table, isIntact: false, devices: new Set(), excluded: none };
  }
  const flowtables = await read(kernel, 'flowtable', { kind: 'flowtablesDump', ...inTable });
  const sets = await read(kernel, 'set', { kind: 'setsDump', ...inTable });
  const areRight =
    found.flags === 0 &&
    (await areChainsRight(kernel, packets)) &&
    areSetsRight(sets) &&
    isFlowtableRight(flowtables);
  if (areRight) {
    for (const set of Object.keys(excludedSets) as ExcludedSet[]) {
      none[set] = await keysOf(kernel, set);
    }
  }
  const names = flowtables[0]?.devices.split(' ').filter((name) => name !== '');
  return { table: 'ours', isIntact: areRight, devices: new Set(names), excluded: none };
}

async function read<Kind extends Reply['kind']>(
  kernel: Kernel,
  kind: Kind,
  request: Request,
): Promise<ReplyOf<Kind>[]> {
  const { consistent, records } = await kernel.dump(request);
  if (!consistent) throw new Unsteady();
  return records.filter(
    (one): one is ReplyOf<Kind> =>
      one.kind === kind && (!('table' in one) || one.table === tableName),
  );
}

async function areChainsRight(kernel: Kernel, packets: number): Promise<boolean> {
  const held = await read(kernel, 'chain', { kind: 'chainsDump', ...inTable });
  const rules = await read(kernel, 'rule', { kind: 'rulesDump', ...inTable, chain: '' });
  const desired = chains(packets);
  return (
    held.length === desired.length &&
    desired.every((chain) => {
      const has = held.find((one) => one.chain === chain.name);
      const own = rules.filter((one) => one.chain === chain.name).map(contentOfRule);
      return has !== undefined && hasDesiredHook(has, chain) && hasDesiredRules(has, own, chain);
    })
  );
}

function areSetsRight(held: readonly ReplyOf<'set'>[]): boolean {
  const desired = Object.values(excludedSets);
  return (
    held.length === desired.length &&
    desired.every((one) => {
      const has = held.find(({ set }) => set === one.name);
      return has !== undefined && isDesiredSet(has, setFields(one));
    })
  );
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

async function keysOf(kernel: Kernel, set: ExcludedSet): Promise<Set<string>> {
  const { keyLength, set: name } = setFields(excludedSets[set]);
  const shape = { shape: 0, keyLength, dataLength: 0 };
  const request = { kind: 'elementsDump', ...inTable, set: name, ...shape } as const;
  const keys = new Set<string>();
  for (const { entries } of await read(kernel, 'elements', request)) {
    for (let at = 0; at < entries.length; at += keyLength) {
      keys.add(binary(entries.subarray(at, at + keyLength)));
    }
  }
  return keys;
}
