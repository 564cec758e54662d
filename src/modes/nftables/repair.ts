/** Compares what was found in the kernel with what is wanted and writes the difference. */
import {
  type ChainDefinition,
  isFilledAsWanted,
  isHookedAsWanted,
} from '../../kernel/nft/chain.ts';
import {
  NFT_SET_ELEM_INTERVAL_END,
  NFT_TABLE_F_DORMANT,
  VERDICT,
} from '../../kernel/nft/constants.ts';
import { printVerdict } from '../../kernel/nft/print-rule.ts';
import { isSetAsWanted, type SetDefinition } from '../../kernel/nft/sets.ts';
import { addressBytes, type Family } from '../../state/address.ts';
import { EndpointList, endpointBytes } from '../../state/endpoint-list.ts';
import { type Interval, mergeCIDRs, successor } from '../../state/interval.ts';
import { forwardingKey, type ServicePortName } from '../../state/types.ts';
import type { Counter } from '../counter.ts';
import { binary, bytesOf, rangeId } from '../elements.ts';
import type { Drift, Environment, ModeConfig, Pause } from '../mode.ts';
import { fixedChains, rejectChain } from './chains.ts';
import { type Deferred, poolMaps } from './deferred.ts';
import { FrontendWriter } from './frontend-writer.ts';
import { type FrontendElements, type Location, locationOf, verdictOf } from './frontends.ts';
import { type Lanes, writeRefusal } from './lanes.ts';
import { type SetDefinitions, type SetName, setFields, setNames } from './layout.ts';
import type { NFTablesObservation, ObservedFrontend, ObservedPool } from './observation.ts';
import { type SharedSet, sharedSets } from './shared.ts';
import { environmentChains, nodePortKeys, type TableWriter } from './table-writer.ts';

/** What a planner holds to be right beyond single frontends. */
export interface Wanted {
  readonly config: ModeConfig;
  readonly environment: Environment;
  readonly sets: SetDefinitions;
  readonly chains: Counter<ChainDefinition>;
  readonly shared: Readonly<Record<SharedSet, Counter<Uint8Array>>>;
  readonly deferred: Deferred;
  readonly table: 'awake' | 'dormant';
}

type Counts = { -readonly [K in keyof Drift]: Drift[K] };

/** Stands for the environment among the ids that batches have written (`touched`). */
export const environmentId = 'environment';

/** Whether table, sets and hooks are as the layout wants them. */
export function isIntact(found: NFTablesObservation, sets: SetDefinitions): boolean {
  // Another flag would make the table that of a process that owns it.
  return (
    found.table &&
    (found.tableFlags === 0 || isDormant(found)) &&
    setNames.every((name) => isSetIntact(found, sets[name]))
  );
}

export function isDormant({ table, tableFlags }: NFTablesObservation): boolean {
  return table && tableFlags === NFT_TABLE_F_DORMANT;
}

function isSetIntact(found: NFTablesObservation, definition: SetDefinition): boolean {
  const has = found.sets.get(definition.name);
  if (has === undefined) return false;
  return isSetAsWanted(has, setFields(found.family, definition));
}

/** Whether a repair can keep the table. If not, it has to be deleted and made anew. */
export function isUsable(found: NFTablesObservation, wanted: Wanted): boolean {
  return found.intact && wantedChains(wanted).every((chain) => isHookIntact(found, chain));
}

function isHookIntact(found: NFTablesObservation, chain: ChainDefinition): boolean {
  const has = found.chains.get(chain.name);
  return has === undefined || isHookedAsWanted(has, chain);
}

/** All chains, a jump's target before the jump. */
function wantedChains({ config, environment, chains }: Wanted): ChainDefinition[] {
  const treatments = [...chains.entries()].map(([, { value }]) => value);
  return [...fixedChains(config, environment), ...treatments];
}

export async function repairFixed(
  table: TableWriter,
  wanted: Wanted,
  found: NFTablesObservation,
  pause: Pause,
): Promise<Drift> {
  const drift: Counts = { missing: 0, wrong: 0, unwanted: 0 };
  if (!found.table) {
    table.addTable(wanted.table);
    for (const name of setNames) table.addSet(wanted.sets[name]);
    drift.missing += 1 + setNames.length;
  } else if (isDormant(found) && wanted.table === 'awake') {
    table.wakeTable();
    drift.wrong += 1;
  }
  const { chains, deferred } = wanted;
  const environmentDone = found.touched.has(environmentId);
  for (const chain of wantedChains(wanted)) {
    const { name } = chain;
    if (found.touched.has(name) || chains.changes(name)) continue;
    if (environmentDone && environmentChains.has(name)) continue;
    deferred.reviveChain(name);
    repairChain(table, found, chain, drift);
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

function repairChain(
  table: TableWriter,
  found: NFTablesObservation,
  chain: ChainDefinition,
  drift: Counts,
): void {
  const has = found.chains.get(chain.name);
  if (has === undefined) {
    table.putChain(chain);
    drift.missing += 1;
    return;
  }
  const rules = found.rules.get(chain.name) ?? [];
  if (isFilledAsWanted(has, rules, chain)) return;
  table.putChain(chain);
  drift.wrong += 1;
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

/** The repair of one Forwarding, or of what is nobody's: where it writes and what it counts. */
export class Repair {
  readonly lanes: Lanes;
  readonly deferred: Deferred;
  readonly drift: Counts = { missing: 0, wrong: 0, unwanted: 0 };
  readonly #servicePort: ServicePortName | undefined;

  constructor(lanes: Lanes, deferred: Deferred, servicePort?: ServicePortName) {
    this.lanes = lanes;
    this.deferred = deferred;
    this.#servicePort = servicePort;
  }

  /** Whose failure it would be. Most Forwardings are as wanted, and nobody asks. */
  get owner(): string {
    return this.#servicePort === undefined ? '' : forwardingKey(this.#servicePort);
  }
}

export function repairFrontend(
  repair: Repair,
  found: NFTablesObservation,
  frontend: FrontendElements,
): void {
  const { id, place, key } = frontend;
  if (found.touched.has(id)) return;
  const held = found.frontends.get(id);
  if (held === undefined) {
    const { lanes, deferred, owner, drift } = repair;
    for (const { set } of poolMaps(place)) deferred.found(set, id, key, 0, 0);
    const writer = new FrontendWriter(found.family, lanes, deferred);
    writer.write({ owner, before: undefined, after: frontend });
    drift.missing += 1;
    return;
  }
  held.repaired = true;
  repairHeld(repair, frontend, held);
}

function repairHeld(repair: Repair, frontend: FrontendElements, held: ObservedFrontend): void {
  for (const { set, pool } of poolMaps(frontend.place)) {
    repairPool(repair, set, frontend, frontend[pool], held[pool]);
  }
  const { verdicts, learn } = frontend.place;
  repairVerdict(repair, verdicts, frontend, held.verdict, verdictOf(frontend));
  repairVerdict(repair, learn, frontend, held.learn, frontend.learn?.name);
  repairRefusal(repair, frontend, held.refusal);
  repairClients(repair, frontend, held);
}

function repairPool(
  repair: Repair,
  set: SetName,
  frontend: Location,
  wanted: EndpointList,
  held: ObservedPool,
): void {
  const { lanes, drift } = repair;
  const { key } = frontend;
  const stride = endpointBytes[wanted.family];
  for (let i = 0; i < wanted.length; i += 1) {
    const present = held.has(i);
    if (present && held.agrees(i, wanted)) continue;
    if (present) lanes.to('delete', set, repair.owner).keyIndex(key, i);
    lanes.to('add', set, repair.owner).endpoints(key, i, i + 1, wanted, stride);
    drift[present ? 'wrong' : 'missing'] += 1;
  }
  for (const index of held.stray) lanes.to('delete', set, repair.owner).keyIndex(key, index);
  drift.unwanted += held.stray.length;
  repairTail(repair, set, frontend, wanted.length, held);
}

/** What the kernel holds beyond the end of a pool: retired already, or retired now. */
function repairTail(
  repair: Repair,
  set: SetName,
  { id, key }: Location,
  from: number,
  held: ObservedPool,
): void {
  const { lanes, deferred, drift } = repair;
  let complete = true;
  for (let i = from; i < held.end; i += 1) {
    complete &&= held.has(i);
    if (held.has(i) && !deferred.isRetired(set, id, i)) drift.unwanted += 1;
  }
  if (complete) {
    deferred.found(set, id, key, from, held.end);
    return;
  }
  // With gaps something else has been here: the range can't be deleted as a whole later.
  for (let i = from; i < held.end; i += 1) {
    if (held.has(i)) lanes.to('delete', set, repair.owner).keyIndex(key, i);
  }
  deferred.found(set, id, key, 0, 0);
}

/** Of the map `map`: the verdict that it has, and the chain that it should go to. */
function repairVerdict(
  repair: Repair,
  map: SetName,
  { key }: Location,
  has: string | undefined,
  wanted: string | undefined,
): void {
  if (has === (wanted && goTo(wanted))) return;
  const { lanes, owner, drift } = repair;
  if (has !== undefined) lanes.to('delete', map, owner).key(key);
  if (wanted !== undefined) lanes.to('add', map, owner).verdict(key, VERDICT.goto, wanted);
  count(drift, has, wanted);
}

function repairRefusal(
  repair: Repair,
  { place, key, refusal }: FrontendElements,
  has: string | undefined,
): void {
  const wanted = refusal === 'reject' ? goTo(rejectChain) : refusal;
  if (has === wanted) return;
  const { lanes, owner, drift } = repair;
  if (has !== undefined) lanes.to('delete', place.noEndpoints, owner).key(key);
  if (refusal !== undefined) {
    writeRefusal(lanes.to('add', place.noEndpoints, owner), key, refusal);
  }
  count(drift, has, wanted);
}

function goTo(chain: string): string {
  return printVerdict(VERDICT.goto, chain);
}

function count(drift: Counts, held: string | undefined, wanted: string | undefined): void {
  if (held === undefined) drift.missing += 1;
  else if (wanted === undefined) drift.unwanted += 1;
  else drift.wrong += 1;
}

function repairClients(
  repair: Repair,
  { key, clients = noClients }: FrontendElements,
  held: ObservedFrontend,
): void {
  const { lanes, drift } = repair;
  if (held.firewalled !== clients.length > 0) {
    lanes.to(held.firewalled ? 'delete' : 'add', 'firewall-ips', repair.owner).key(key);
    drift[held.firewalled ? 'unwanted' : 'missing'] += 1;
  }
  if (clients.length === 0 && held.clients === undefined) return;
  const wanted = new Map(clients.map((range) => [rangeId(range), range]));
  for (const [text, range] of wanted) {
    if (held.clients?.has(text)) continue;
    lanes.to('add', 'source-ranges', repair.owner).concatRange(key, range);
    drift.missing += 1;
  }
  for (const [text, range] of held.clients ?? []) {
    if (wanted.has(text)) continue;
    lanes.to('delete', 'source-ranges', repair.owner).concatRange(key, range);
    drift.unwanted += 1;
  }
}

const noClients: readonly Interval[] = [];

/** Deletes the elements of frontends that nobody wants and no change is pending for. */
export async function pruneFrontends(
  found: NFTablesObservation,
  repair: Repair,
  pending: (id: string) => boolean,
  pause: Pause,
): Promise<void> {
  for (const [id, held] of found.frontends) {
    // Usually all are, and it takes longer to ask whether to rest than to go on.
    if (held.repaired) continue;
    const rest = pause();
    if (rest !== undefined) await rest;
    if (found.touched.has(id) || pending(id)) continue;
    repairHeld(repair, { ...locationOf(id), ...noElements(found.family) }, held);
  }
}

function noElements(family: Family): Omit<FrontendElements, keyof Location> {
  const none = EndpointList.empty[family];
  const nothing = { learn: undefined, refusal: undefined, clients: undefined };
  return { chains: [], endpoints: none, local: none, ...nothing };
}

/** Deletes shared elements and chains that nobody wants. */
export async function pruneShared(
  wanted: Wanted,
  lanes: Lanes,
  found: NFTablesObservation,
  drift: Counts,
  pause: Pause,
): Promise<void> {
  const { chains, deferred } = wanted;
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
  deferred.keep((id) => found.touched.has(id) || found.frontends.has(id) || found.chains.has(id));
  const known = new Set(wantedChains(wanted).map(({ name }) => name));
  for (const name of found.chains.keys()) {
    if (known.has(name) || chains.changes(name) || found.touched.has(name)) continue;
    if (deferred.isRetiredChain(name)) continue;
    deferred.retireChain(name);
    drift.unwanted += 1;
  }
}
