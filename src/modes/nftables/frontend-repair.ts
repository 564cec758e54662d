/** Compares what was found of frontends with what is wanted and writes the difference. */
import { VERDICT } from '../../kernel/nft/constants.ts';
import { printVerdict } from '../../kernel/nft/print-rule.ts';
import type { Family } from '../../state/address.ts';
import { EndpointList, endpointBytes } from '../../state/endpoint-list.ts';
import { forwardingKey, type ServicePortName } from '../../state/types.ts';
import type { Drift, Pause } from '../mode.ts';
import { firewallPrefix } from '../source-ranges.ts';
import { rejectChain } from './chains.ts';
import { type Deferred, poolMaps } from './deferred.ts';
import { FrontendWriter } from './frontend-writer.ts';
import { type FrontendElements, type Location, locationOf, verdictOf } from './frontends.ts';
import { type Lanes, writeRefusal } from './lanes.ts';
import type { SetName } from './layout.ts';
import type { NFTablesObservation, ObservedFrontend, ObservedPool } from './observation.ts';
import type { Place } from './places.ts';

/** A Drift in the making. */
export type Counts = { -readonly [K in keyof Drift]: Drift[K] };

/** The repair of one Forwarding, or of what is nobody's: where it writes and what it counts. */
export class Repair {
  readonly lanes: Lanes;
  readonly deferred: Deferred;
  readonly drift: Counts = { missing: 0, wrong: 0, unwanted: 0 };
  readonly #servicePort: ServicePortName | undefined;
  #owner: string | undefined;

  constructor(lanes: Lanes, deferred: Deferred, servicePort?: ServicePortName) {
    this.lanes = lanes;
    this.deferred = deferred;
    this.#servicePort = servicePort;
  }

  /** Whose failure it would be. Most Forwardings are as wanted, and nobody asks. */
  get owner(): string {
    this.#owner ??= this.#servicePort === undefined ? '' : forwardingKey(this.#servicePort);
    return this.#owner;
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
  const { firewall } = frontend;
  repairVerdict(repair, 'firewall-ips', frontend, held.firewall, firewall?.chain);
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

/** What verdicts of ours may be, in each kind of map. */
const usual = {
  verdict: /^goto (nodeport-)?(cluster|external)-/,
  learn: /^goto learn-/,
  refusal: new RegExp(`^(drop|goto ${rejectChain})$`),
  firewall: new RegExp(`^goto ${firewallPrefix}`),
} as const;

/**
 * Deletes verdicts that lead where ours never do. To be done before rules are put back: the kernel
 * refuses a rule that can be reached from a hook that it is not for.
 */
export async function deleteForeignVerdicts(
  { lanes, drift }: Pick<Repair, 'lanes' | 'drift'>,
  found: NFTablesObservation,
  pause: Pause,
): Promise<void> {
  for (const [id, held] of found.frontends) {
    const rest = pause();
    if (rest !== undefined) await rest;
    if (found.touched.has(id)) continue;
    for (const part of ['verdict', 'learn', 'refusal', 'firewall'] as const) {
      if (held[part] === undefined || usual[part].test(held[part])) continue;
      const { place, key } = locationOf(id);
      const map = mapOf(place, part);
      lanes.to('delete', map, '').key(key);
      held[part] = undefined;
      drift.unwanted += 1;
    }
  }
}

function mapOf(place: Place, part: keyof typeof usual): SetName {
  switch (part) {
    case 'verdict':
      return place.verdicts;
    case 'learn':
      return place.learn;
    case 'refusal':
      return place.noEndpoints;
    case 'firewall':
      return 'firewall-ips';
  }
}

function goTo(chain: string): string {
  return printVerdict(VERDICT.goto, chain);
}

function count(drift: Counts, held: string | undefined, wanted: string | undefined): void {
  if (held === undefined) drift.missing += 1;
  else if (wanted === undefined) drift.unwanted += 1;
  else drift.wrong += 1;
}

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
  const nothing = { learn: undefined, refusal: undefined, firewall: undefined };
  return { chains: [], endpoints: none, local: none, ...nothing };
}
