/** Compares a table's fixed part with the desired one, and writes the difference. */
import { inTurns, type Pause } from '../../time/pacer.ts';
import type { Counts } from '../backend.ts';
import type { SharedObject } from '../shared-objects.ts';
import type { TableContent } from './content.ts';
import type { NamedObject } from './objects.ts';
import type { TableOwnership } from './ownership.ts';
import type { TableWriter } from './writer.ts';

interface TableRepair<Name extends string> {
  readonly content: TableContent<Name>;
  readonly writer: TableWriter<Name>;
  readonly drift: Counts;
}

/**
 * Whether the table can be kept: what can't be changed in place is right in the sets of the layout
 * and in the shared objects.
 */
export async function isUsable(
  content: TableContent,
  shared: Iterable<{ readonly object: SharedObject & { readonly object?: NamedObject } }>,
  pause: Pause,
): Promise<boolean> {
  let areUsable = content.isIntact;
  if (!areUsable) return false;
  await inTurns(shared, pause, ({ object: { object } }) => {
    if (object !== undefined) areUsable &&= content.isUsable(object);
  });
  return areUsable;
}

/** Recreates the table, and forgets what was found in it. */
export function recreateTable<Name extends string>(
  { content, writer, drift }: TableRepair<Name>,
  ownership: TableOwnership,
): void {
  writer.startTable(ownership, content.exists);
  content.clear();
  drift.missing += 1 + Object.keys(content.layout.sets).length;
}

/** Adds sets that came with a setting. */
export function addMissingSets<Name extends string>({
  content,
  writer,
  drift,
}: TableRepair<Name>): void {
  for (const definition of content.missingSets) {
    writer.addSet(definition);
    drift.missing += 1;
  }
}
