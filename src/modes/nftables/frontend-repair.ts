/** Compares what was found of frontends with what is wanted and writes the difference. */
import { VERDICT } from '../../kernel/nft/constants.ts';
import { printVerdict } from '../../kernel/nft/print-rule.ts';
import type { Family } from '../../net/address.ts';
import { EndpointList, endpointBytes } from '../../net/endpoint-list.ts';
import { forwardingKey, type ServicePortName } from '../../state/types.ts';
import type { Drift, Pause } from '../mode.ts';
import { firewallPrefix } from '../source-ranges.ts';
import { rejectChain } from './chains.ts';
import { type Deferred, poolMaps } from './deferred.ts';
import { FrontendWriter } from './frontend-writer.ts';
import {
  type FrontendElements,
  type Location,
  learnOf,
  locationOf,
  recallOf,
  verdictOf,
} from './frontends.ts';
import { type Lanes, verdictOfMap, writeRefusal } from './lanes.ts';
import type { SetName } from './layout.ts';
import type { NFTablesObservation, ObservedFrontend, ObservedPool } from './observation.ts';
import { learnElement } from './places.ts';

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
  repairVerdict(repair, 'verdict', frontend, held, verdictOf(frontend));
  repairVerdict(repair, 'sticky', frontend, held, recallOf(frontend));
  repairVerdict(repair, 'learn', frontend, held, learnOf(frontend));
  repairRefusal(repair, frontend, held.refusal);
  repairVerdict(repair, 'firewall', frontend, held, frontend.firewall?.chain);
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

/** The verdict that the frontend has of this kind, and the chain that it should lead to. */
function repairVerdict(
  repair: Repair,
  part: Exclude<VerdictPart, 'refusal'>,
  frontend: Location,
  held: ObservedFrontend,
  wanted: string | undefined,
): void {
  const has = held[part];
  if (has === undefined && wanted === undefined) return;
  const { set, key } = elementOf(frontend, part);
  const code = verdictOfMap(set);
  if (has === (wanted && printVerdict(code, wanted))) return;
  const { lanes, owner, drift } = repair;
  if (has !== undefined) lanes.to('delete', set, owner).key(key);
  if (wanted !== undefined) lanes.to('add', set, owner).verdict(key, code, wanted);
  count(drift, has, wanted);
}

function repairRefusal(
  repair: Repair,
  { place, key, refusal }: FrontendElements,
  has: string | undefined,
): void {
  const wanted = refusal === 'reject' ? printVerdict(VERDICT.goto, rejectChain) : refusal;
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
  sticky: /^jump recall-/,
  learn: /^goto learn-/,
  refusal: new RegExp(`^(drop|goto ${rejectChain})$`),
  firewall: new RegExp(`^goto ${firewallPrefix}`),
} as const;
type VerdictPart = keyof typeof usual;

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
    for (const part of ['verdict', 'sticky', 'learn', 'refusal', 'firewall'] as const) {
      if (held[part] === undefined || usual[part].test(held[part])) continue;
      const { set, key } = elementOf(locationOf(id), part);
      lanes.to('delete', set, '').key(key);
      held[part] = undefined;
      drift.unwanted += 1;
    }
  }
}

/** Where the frontend's verdict of this kind is. */
function elementOf(
  { place, key }: Location,
  part: VerdictPart,
): { readonly set: SetName; readonly key: Uint8Array } {
  switch (part) {
    case 'verdict':
      return { set: place.verdicts, key };
    case 'sticky':
      return { set: place.sticky, key };
    case 'learn':
      return learnElement(place, key);
    case 'refusal':
      return { set: place.noEndpoints, key };
    case 'firewall':
      return { set: 'firewall-ips', key };
  }
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
  const nothing = { affinity: undefined, refusal: undefined, firewall: undefined };
  return { chains: [], endpoints: none, local: none, ...nothing };
}
