/** Writes what takes the table of the fast path from what was observed to what is desired. */
import { bringKeys, without, writeTable, writeTableRules } from '../kernel/nft/own-table.ts';
import { interfaceBytes } from '../kernel/nft/rule.ts';
import { nftOps } from '../kernel/ops.ts';
import { RecordWriter } from '../kernel/records.ts';
import { binary } from '../modes/elements.ts';
import {
  content,
  deviceSet,
  type ExcludedSet,
  excludedSets,
  flowtable,
  flowtableName,
  inTable,
  setFields,
} from './layout.ts';
import type { Excluded, Observation } from './observation.ts';

export interface Desired {
  /** A connection is moved after this number of packets. */
  readonly packets: number;
  readonly devices: ReadonlySet<string>;
  readonly excluded: Excluded;
  /**
   * What becomes of connections in the flowtable: those of frontends that are newly excluded must
   * leave it, or all must, or none of them has to for this reason.
   */
  readonly clears: 'newly excluded' | 'all' | 'none';
}

interface Difference {
  /** One transaction; empty: nothing is to be done. */
  readonly ops: Uint8Array;
  /** The device that each op adds, by its index. */
  readonly added: ReadonlyMap<number, string>;
  /** The table existed and is replaced. */
  readonly isReplaced: boolean;
  /** The flowtable stays, and the connections in it. */
  readonly isKept: boolean;
  /** Some frontends are newly excluded. */
  readonly gains: boolean;
}

const setNames = Object.keys(excludedSets) as ExcludedSet[];

/**
 * Connections leave the flowtable when the table is replaced: all of them, and only those of
 * frontends that are not excluded return to it.
 */
export function difference(observed: Observation, desired: Desired): Difference {
  const writer = new RecordWriter(nftOps);
  const gains = setNames.some((set) => !isSubset(desired.excluded[set], observed.excluded[set]));
  const isThere = observed.table !== undefined;
  const { clears } = desired;
  const isCleared = clears === 'all' || (gains && clears === 'newly excluded');
  const isKept = observed.isIntact && !isCleared;
  const own = content(desired.packets);
  if (!isKept) {
    writeTable(writer, own, isThere);
    writer.write('flowtableAdd', { ...flowtable, devices: '' });
  }
  const held = isKept ? observed : nothing;
  for (const name of without(held.devices, desired.devices)) {
    const { priority } = flowtable;
    writer.write('flowtableDevicesDelete', {
      ...inTable,
      flowtable: flowtableName,
      priority,
      devices: name,
    });
  }
  const added = new Map<number, string>();
  for (const name of without(desired.devices, held.devices)) {
    added.set(writer.count, name);
    writer.write('flowtableAdd', { ...flowtable, devices: name });
  }
  const deviceKeys = new Set([...desired.devices].map((name) => binary(interfaceBytes(name))));
  bringKeys(writer, setFields(deviceSet), held.deviceKeys, deviceKeys);
  for (const set of setNames) {
    bringKeys(writer, setFields(excludedSets[set]), held.excluded[set], desired.excluded[set]);
  }
  if (!isKept) writeTableRules(writer, own);
  const isReplaced = isThere && !isKept;
  const ops = writer.count === 0 ? new Uint8Array(0) : writer.finish();
  return { ops, added, isReplaced, isKept, gains };
}

/** The content of a table that was just made. */
const nothing: Pick<Observation, 'devices' | 'deviceKeys' | 'excluded'> = {
  devices: new Set(),
  deviceKeys: new Set(),
  excluded: { IPv4: new Set(), IPv6: new Set(), nodePort: new Set() },
};

function isSubset(some: ReadonlySet<string>, all: ReadonlySet<string>): boolean {
  return [...some].every((one) => all.has(one));
}
