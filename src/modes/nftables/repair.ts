/**
 * Compares what was found in the kernel with what is wanted and writes the difference: fixed
 * objects, and elements that several frontends may need.
 */
import type { ChainDefinition } from '../../kernel/nft/chain.ts';
import { NFT_SET_ELEM_INTERVAL_END } from '../../kernel/nft/constants.ts';
import { isSetAsWanted, type SetDefinition } from '../../kernel/nft/sets.ts';
import { unknownIndex } from '../../kernel/ops.ts';
import { addressBytes } from '../../net/address.ts';
import { mergeCIDRs, successor } from '../../net/interval.ts';
import type { Counter } from '../counter.ts';
import { binary, bytesOf } from '../elements.ts';
import type { Drift, Environment, ModeConfig, Pause } from '../mode.ts';
import { faultOf, isUsable as isUsableObject, type NamedObjects, setId } from '../named-objects.ts';
import { areFlagsUsable, type TableOwnership } from '../ownership.ts';
import { fixedChains } from './chains.ts';
import type { Deferred } from './deferred.ts';
import { type Counts, deleteForeignVerdicts } from './frontend-repair.ts';
import type { Lanes } from './lanes.ts';
import { type SetDefinitions, setFields, setNames, tableName } from './layout.ts';
import type { NFTablesObservation } from './observation.ts';
import { type SharedSet, sharedSets } from './shared.ts';
import { environmentChains, nodePortKeys, type TableWriter } from './table-writer.ts';

/** What a planner holds to be right beyond single frontends. */
export interface Wanted {
  readonly config: ModeConfig;
  readonly environment: Environment;
  readonly sets: SetDefinitions;
  readonly ownership: TableOwnership;
  readonly objects: NamedObjects;
  readonly shared: Readonly<Record<SharedSet, Counter<Uint8Array>>>;
  readonly deferred: Deferred;
  /** No packet is to meet the table: base chains are not wanted yet. */
  readonly isConcealed: boolean;
}

/** Stands for the environment among the ids that batches have written (`touched`). */
export const environmentId = 'environment';

/** Whether table and sets have the form that the layout wants. */
export function isIntact(found: NFTablesObservation, sets: SetDefinitions): boolean {
  return (
    found.table &&
    !found.strange &&
    areFlagsUsable(found.tableFlags) &&
    setNames.every((name) => isSetIntact(found, sets[name]))
  );
}

/** Whether packets meet anything of the table. */
export function isHooked({ chains }: NFTablesObservation): boolean {
  return [...chains.values()].some(({ hook }) => hook !== unknownIndex);
}

function isSetIntact(found: NFTablesObservation, definition: SetDefinition): boolean {
  const has = found.sets.get(definition.name);
  if (has === undefined) return false;
  return isSetAsWanted(has, setFields(found.family, definition));
}

/** Whether a repair can keep the table. If not, it has to be deleted and made anew. */
export function isUsable(found: NFTablesObservation, wanted: Wanted): boolean {
  return (
    found.intact &&
    wantedChains(wanted).every((chain) => isUsableObject(found, tableName, chain)) &&
    wanted.objects.isUsable(found, tableName)
  );
}

/** The chains of the layout, a jump's target before the jump. */
function wantedChains({ config, environment, isConcealed }: Wanted): ChainDefinition[] {
  return fixedChains(config, environment).filter(({ base }) => !isConcealed || !base);
}

export async function repairFixed(
  table: TableWriter,
  wanted: Wanted,
  found: NFTablesObservation,
  pause: Pause,
): Promise<Drift> {
  const drift: Counts = { missing: 0, wrong: 0, unwanted: 0 };
  if (!found.table) {
    table.addTable(wanted.ownership);
    for (const name of setNames) table.addSet(wanted.sets[name]);
    drift.missing += 1 + setNames.length;
  }
  const environmentDone = found.touched.has(environmentId);
  for (const chain of wantedChains(wanted)) {
    const { name } = chain;
    if (found.touched.has(name)) continue;
    if (environmentDone && environmentChains.has(name)) continue;
    const fault = faultOf(found, chain);
    if (fault === undefined) continue;
    table.putChain(chain);
    drift[fault] += 1;
  }
  await wanted.objects.findFaults(found, drift, pause);
  if (drift.missing + drift.wrong > 0) {
    await deleteForeignVerdicts({ lanes: table.lanes, drift }, found, pause);
  }
  if (!environmentDone) {
    repairServiceCIDRs(table.lanes, wanted, found, drift);
    repairNodePortAddresses(table.lanes, wanted, found, drift);
  }
  for (const set of sharedSets) {
    const held = found.elements.get(set);
    const counter = wanted.shared[set];
    let present = 0;
    for (const [id, { value }] of counter.entries()) {
      const rest = pause();
      if (rest !== undefined) await rest;
      if (held?.has(id) === true) present += 1;
      else if (!found.touched.has(id) && !counter.changes(id)) {
        table.lanes.to('add', set, '').key(value);
        drift.missing += 1;
      }
    }
    // All that is there is wanted: nothing of it is left to prune.
    if (present === held?.size) found.elements.delete(set);
  }
  return drift;
}

function repairServiceCIDRs(
  lanes: Lanes,
  { environment }: Wanted,
  found: NFTablesObservation,
  drift: Counts,
): void {
  const ranges = mergeCIDRs(environment.serviceCIDRs);
  const edges = new Set<string>();
  for (const { first, last } of ranges) {
    edges.add(edgeText(first, 0));
    const end = successor(last);
    if (end !== undefined) edges.add(edgeText(end, NFT_SET_ELEM_INTERVAL_END));
  }
  const held = found.elements.get('service-cidrs') ?? new Set();
  if (held.size === edges.size && [...edges].every((edge) => held.has(edge))) return;
  // In order, so that the text of the batch can pair them.
  for (const edge of [...held].sort()) {
    const length = addressBytes[found.family];
    const flags = edge.charCodeAt(length);
    lanes.to('delete', 'service-cidrs', '').edge(bytesOf(edge.slice(0, length)), flags);
  }
  for (const range of ranges) lanes.to('add', 'service-cidrs', '').range(range);
  drift[held.size === 0 ? 'missing' : 'wrong'] += 1;
}

/** A key and its flags (u32 in host order) as an `elementId`. */
function edgeText(key: Uint8Array, flags: number): string {
  return `${binary(key)}${String.fromCharCode(flags, 0, 0, 0)}`;
}

function repairNodePortAddresses(
  lanes: Lanes,
  { environment }: Wanted,
  found: NFTablesObservation,
  drift: Counts,
): void {
  const wanted = nodePortKeys(environment);
  const held = found.elements.get('nodeport-ips') ?? new Set();
  for (const [id, key] of wanted) {
    if (held.has(id)) continue;
    lanes.to('add', 'nodeport-ips', '').key(key);
    drift.missing += 1;
  }
  for (const id of held) {
    if (wanted.has(id)) continue;
    lanes.to('delete', 'nodeport-ips', '').key(bytesOf(id));
    drift.unwanted += 1;
  }
}

/** Deletes shared elements, chains and sets that nobody wants. */
export async function pruneShared(
  wanted: Wanted,
  lanes: Lanes,
  found: NFTablesObservation,
  drift: Counts,
  pause: Pause,
): Promise<void> {
  for (const set of sharedSets) {
    const counter = wanted.shared[set];
    for (const id of found.elements.get(set) ?? []) {
      const rest = pause();
      if (rest !== undefined) await rest;
      if (counter.has(id) || counter.changes(id) || found.touched.has(id)) continue;
      lanes.to('delete', set, '').key(bytesOf(id));
      drift.unwanted += 1;
    }
  }
  // What somebody else has deleted would make every later deletion fail.
  wanted.deferred.keep((id) => found.touched.has(id) || found.frontends.has(id));
  const chains = wantedChains(wanted).map(({ name }) => name);
  wanted.objects.prune(found, new Set([...chains, ...setNames.map(setId)]), drift);
}
