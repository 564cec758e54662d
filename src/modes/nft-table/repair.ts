/** Compares a table with what it should hold besides frontends, and writes the difference. */
import type { ChainDefinition } from '../../kernel/nft/chain.ts';
import { NFT_SET_ELEM_INTERVAL_END } from '../../kernel/nft/constants.ts';
import type { ElementBuffers } from '../../kernel/nft/element-buffer.ts';
import { addressBytes, type CIDR } from '../../net/address.ts';
import { type Interval, mergeCIDRs, successor } from '../../net/interval.ts';
import type { Counts } from '../backend.ts';
import { binary, bytesOf } from '../elements.ts';
import { inTurns, type Pause } from '../mode.ts';
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
 * Whether the table can be kept: what can't be changed in place is right in the sets of the layout,
 * these chains and the shared objects.
 */
export async function isUsable(
  content: TableContent,
  chains: Iterable<ChainDefinition>,
  shared: Iterable<{ readonly object: SharedObject & { readonly object?: NamedObject } }>,
  pause: Pause,
): Promise<boolean> {
  let areUsable = content.isIntact;
  for (const chain of chains) areUsable &&= content.isUsable(chain);
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

export function repairChains<Name extends string>(
  { content, writer, drift }: TableRepair<Name>,
  chains: Iterable<ChainDefinition>,
): void {
  for (const chain of chains) {
    const fault = content.faultOf(chain);
    if (fault === undefined) continue;
    writer.putChain(chain);
    drift[fault] += 1;
  }
}

/** Makes the set of intervals hold these ranges and nothing else. */
export function repairRanges<Name extends string>(
  { content, drift }: Pick<TableRepair<Name>, 'content' | 'drift'>,
  buffers: ElementBuffers<Name>,
  set: Name,
  cidrs: readonly CIDR[],
): void {
  const ranges = mergeCIDRs(cidrs);
  const edges = new Set<string>();
  for (const { first, last } of ranges) {
    edges.add(edgeText(first, 0));
    const end = successor(last);
    if (end !== undefined) edges.add(edgeText(end, NFT_SET_ELEM_INTERVAL_END));
  }
  const held = content.elements(set);
  if (held.size === edges.size && [...edges].every((edge) => held.has(edge))) return;
  const length = addressBytes[content.layout.family];
  // In order, so that the text of the batch can pair them.
  for (const edge of [...held].sort()) {
    buffers.to('delete', set, '').edge(bytesOf(edge.slice(0, length)), edge.charCodeAt(length));
  }
  for (const range of ranges) buffers.to('add', set, '').range(range);
  drift[held.size === 0 ? 'missing' : 'wrong'] += 1;
}

/** A key and its flags (u32 in host order) as `TableContent.elements` has them. */
function edgeText(key: Uint8Array, flags: number): string {
  return `${binary(key)}${String.fromCharCode(flags, 0, 0, 0)}`;
}

/** Replaces ranges. Both may overlap, so it must be one transaction. */
export function replaceRanges<Name extends string>(
  buffers: ElementBuffers<Name>,
  set: Name,
  before: readonly CIDR[],
  after: readonly CIDR[],
): void {
  const [old, desired] = [mergeCIDRs(before), mergeCIDRs(after)];
  if (sameRanges(old, desired)) return;
  for (const range of old) buffers.to('delete', set, '').range(range);
  for (const range of desired) buffers.to('add', set, '').range(range);
}

function sameRanges(a: readonly Interval[], b: readonly Interval[]): boolean {
  return (
    a.length === b.length &&
    a.every(({ first, last }, i) => {
      const other = b[i]!;
      return Buffer.compare(first, other.first) === 0 && Buffer.compare(last, other.last) === 0;
    })
  );
}
