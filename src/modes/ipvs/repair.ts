/** Compares what was found in the kernel with what is wanted and writes the difference. */
import { NFT_SET_ELEM_INTERVAL_END, VERDICT } from '../../kernel/nft/constants.ts';
import { printVerdict } from '../../kernel/nft/print-rule.ts';
import { fieldsOfSet, isSetAsWanted } from '../../kernel/nft/sets.ts';
import { mergeCIDRs, successor } from '../../net/interval.ts';
import type { Counter } from '../counter.ts';
import { binary, elementId } from '../elements.ts';
import type { Drift, Environment, IPVSSettings, ModeConfig, Pause } from '../mode.ts';
import { faultOf, isUsable as isUsableObject, type NamedObjects, setId } from '../named-objects.ts';
import { areFlagsUsable, type TableOwnership } from '../ownership.ts';
import { firewallPrefix } from '../source-ranges.ts';
import type { BatchWriter } from './batch-writer.ts';
import { chains } from './chains.ts';
import type { Draining } from './draining.ts';
import { type IPVSFrontend, type SharedElement, sharedId } from './frontends.ts';
import { type SetDefinitions, type SetName, setNames, tableName } from './layout.ts';
import { environmentId, type IPVSObservation, type ObservedService } from './observation.ts';
import {
  fullWeight,
  type ServiceWriter,
  serverSettings,
  serversOf,
  settingsOf,
} from './service-writer.ts';
import type { TableObservation } from './table-observation.ts';

/** What a planner holds to be right, and where a repair goes. */
export interface Wanted {
  readonly config: ModeConfig;
  readonly ipvs: IPVSSettings;
  readonly environment: Environment;
  readonly sets: SetDefinitions;
  readonly ownership: TableOwnership;
  readonly shared: Counter<{ readonly owner: string; readonly value: SharedElement }>;
  readonly objects: NamedObjects;
  readonly draining: Draining;
  readonly services: ServiceWriter;
  readonly batch: BatchWriter;
}

type Counts = { -readonly [K in keyof Drift]: Drift[K] };

/** Elements of these belong to single frontends. */
const frontendSets = [
  'internal',
  'external',
  'rejected',
  'dropped',
  'dropped-outside',
  // What says that a virtual service is ours goes last.
  'services',
] as const satisfies readonly SetName[];

const sharedSets = [
  'vips',
  'hairpin',
  'health-check-ports',
  'self-clients',
] as const satisfies readonly SetName[];

/** Whether a repair can keep the table. If not, it has to be deleted and made anew. */
export function isUsable({ table }: IPVSObservation, { config, objects, sets }: Wanted): boolean {
  if (!table.exists || table.strange || !areFlagsUsable(table.flags)) return false;
  const setsUsable = setNames.every((name) => {
    const has = table.sets.get(name);
    return (
      has !== undefined && isSetAsWanted(has, fieldsOfSet(table.family, tableName, sets[name]))
    );
  });
  return (
    setsUsable &&
    chains(config).every((chain) => isUsableObject(table, tableName, chain)) &&
    objects.isUsable(table, tableName)
  );
}

export async function repairFixed(
  wanted: Wanted,
  found: IPVSObservation,
  pause: Pause,
): Promise<Drift> {
  const drift: Counts = { missing: 0, wrong: 0, unwanted: 0 };
  const { batch, config, ownership, sets, shared } = wanted;
  const { table } = found;
  if (!isUsable(found, wanted)) {
    if (table.exists) batch.deleteTable();
    table.clear();
    batch.addTable(ownership);
    for (const name of setNames) batch.addSet(sets[name]);
    drift.missing += 1 + setNames.length;
  }
  for (const chain of chains(config)) {
    const fault = faultOf(table, chain);
    if (fault === undefined) continue;
    batch.putChain(chain);
    drift[fault] += 1;
  }
  await wanted.objects.findFaults(table, drift, pause);
  deleteForeignVerdicts(batch, table, drift);
  if (!found.touched.has(environmentId)) repairServiceCIDRs(wanted, table, drift);
  repairTimeouts(wanted, found, drift);
  if (!found.link) {
    batch.addLink();
    drift.missing += 1;
  }
  for (const [id, { value }] of shared.entries()) {
    await pause();
    const { owner, value: element } = value;
    if (found.touched.has(id) || shared.changes(id) || table.has(element.set, element.key))
      continue;
    batch.first.to('add', element.set, owner).key(element.key);
    drift.missing += 1;
  }
  return drift;
}

/**
 * Verdicts that lead where ours never do go with the first transaction, which puts rules back: the
 * kernel refuses a rule that can be reached from a hook that it is not for.
 */
function deleteForeignVerdicts(batch: BatchWriter, table: TableObservation, drift: Counts): void {
  for (const [id, { key, verdict }] of table.firewalls) {
    if (verdict.startsWith(`goto ${firewallPrefix}`) || table.touched.has(id)) continue;
    batch.first.to('delete', 'firewall-ips', '').key(key);
    table.firewalls.delete(id);
    drift.unwanted += 1;
  }
}

function repairTimeouts({ batch, ipvs }: Wanted, found: IPVSObservation, drift: Counts): void {
  const fields = {
    tcpSeconds: ipvs.tcpTimeoutSeconds,
    tcpFinSeconds: ipvs.tcpFinTimeoutSeconds,
    udpSeconds: ipvs.udpTimeoutSeconds,
  };
  const names = Object.keys(fields) as (keyof typeof fields)[];
  if (names.every((name) => fields[name] === 0 || fields[name] === found.timeouts[name])) return;
  batch.additions.push({ owner: '', write: (out) => out.write('ipvsTimeoutsSet', fields) });
  drift.wrong += 1;
}

function repairServiceCIDRs(
  { batch, environment }: Wanted,
  table: TableObservation,
  drift: Counts,
): void {
  const ranges = mergeCIDRs(environment.serviceCIDRs);
  const edges = new Set<string>();
  for (const { first, last } of ranges) {
    edges.add(elementId(first, flagBytes(0)));
    const end = successor(last);
    if (end !== undefined) edges.add(elementId(end, flagBytes(NFT_SET_ELEM_INTERVAL_END)));
  }
  const held = table.elements('service-cidrs');
  if (held.size === edges.size && [...edges].every((edge) => held.has(edge))) return;
  for (const { key, extra } of held.values()) {
    batch.first.to('delete', 'service-cidrs', '').edge(key, extra[0]!);
  }
  for (const range of ranges) batch.first.to('add', 'service-cidrs', '').range(range);
  drift[held.size === 0 ? 'missing' : 'wrong'] += 1;
}

/** NFT_SET_ELEM_* flags as `elements` records have them. */
function flagBytes(flags: number): Uint8Array {
  return Uint8Array.of(flags, 0, 0, 0);
}

/** One frontend to repair, and where to count what was wrong with it. */
export interface FrontendRepair {
  readonly owner: string;
  readonly frontend: IPVSFrontend;
  readonly drift: Counts;
}

export function repairFrontend(
  wanted: Wanted,
  found: IPVSObservation,
  repair: FrontendRepair,
): void {
  const { services, ipvs } = wanted;
  const { owner, frontend, drift } = repair;
  repairElements(wanted, found.table, repair);
  const held = found.services.get(frontend.id);
  if (held === undefined) {
    services.putService(owner, frontend, 'add');
    drift.missing += 1;
  } else if (!hasSettings(held, settingsOf(frontend, ipvs.scheduler))) {
    services.putService(owner, frontend, 'set');
    drift.wrong += 1;
  }
  repairServers(wanted, held, repair);
}

function hasSettings(held: ObservedService, wanted: ReturnType<typeof settingsOf>): boolean {
  return (
    held.scheduler === wanted.scheduler &&
    held.flags === wanted.flags &&
    held.prefixLength === wanted.prefixLength &&
    (wanted.timeoutSeconds === 0 || held.timeoutSeconds === wanted.timeoutSeconds)
  );
}

function repairServers(
  { services, draining }: Wanted,
  held: ObservedService | undefined,
  { owner, frontend, drift }: FrontendRepair,
): void {
  const has: ObservedService['servers'] = held?.servers ?? new Map();
  // What the kernel says counts, not what we remember.
  draining.forget(frontend.id);
  const pool = serversOf(frontend.pool);
  const settings = serverSettings(fullWeight);
  for (const [key, packed] of pool) {
    const server = has.get(key);
    const isRight = server?.weight === settings.weight && server.forwarding === settings.forwarding;
    if (isRight) continue;
    services.putServer(owner, frontend, packed, server === undefined ? 'add' : 'set');
    drift[server === undefined ? 'missing' : 'wrong'] += 1;
  }
  for (const [key, { packed, weight }] of has) {
    if (pool.has(key)) continue;
    if (weight === 0 && frontend.protocol !== 'UDP') {
      draining.put(frontend, packed);
    } else {
      services.retireServer(owner, frontend, packed);
      drift.unwanted += 1;
    }
  }
}

function repairElements(
  { batch, services }: Wanted,
  table: TableObservation,
  { owner, frontend, drift }: FrontendRepair,
): void {
  const { key } = frontend;
  const sets: readonly SetName[] = frontend.sets;
  for (const set of frontendSets) {
    const has = table.has(set, key);
    if (has === sets.includes(set)) continue;
    if (has) batch.last.to('delete', set, owner).key(key);
    else batch.first.to('add', set, owner).key(key);
    drift[has ? 'unwanted' : 'missing'] += 1;
  }
  const has = table.firewalls.get(frontend.id)?.verdict;
  const chain = frontend.firewall?.chain;
  const wanted = chain === undefined ? undefined : printVerdict(VERDICT.goto, chain);
  if (has === wanted) return;
  services.putFirewall(owner, key, has !== undefined, chain);
  drift[has === undefined ? 'missing' : wanted === undefined ? 'unwanted' : 'wrong'] += 1;
}

interface Pruning {
  /** Whether somebody wants the frontend, or has written it since. */
  readonly isDone: (id: string) => boolean;
  readonly drift: Counts;
  readonly pause: Pause;
}

/** Deletes what belongs to no frontend that is wanted. */
export async function pruneFrontends(
  { batch, services, ipvs }: Wanted,
  found: IPVSObservation,
  { isDone, drift, pause }: Pruning,
): Promise<void> {
  const { table } = found;
  for (const [id, held] of found.services) {
    await pause();
    if (isDone(id) || !found.isOurs(held, ipvs.excludeCIDRs)) continue;
    services.removeService('', held);
    drift.unwanted += 1;
  }
  for (const set of frontendSets) {
    for (const [id, { key }] of table.elements(set)) {
      await pause();
      if (isDone(id)) continue;
      batch.last.to('delete', set, '').key(key);
      drift.unwanted += 1;
    }
  }
  for (const [id, { key }] of table.firewalls) {
    if (isDone(id)) continue;
    batch.last.to('delete', 'firewall-ips', '').key(key);
    drift.unwanted += 1;
  }
}

/**
 * Addresses come at the end of a repair, when all that answers on them is there, and those that
 * nobody wants go: the link is ours.
 */
export async function pruneShared(
  { batch, objects, shared, config }: Wanted,
  found: IPVSObservation,
  { drift, pause }: Pick<Pruning, 'drift' | 'pause'>,
): Promise<void> {
  const isDone = (id: string): boolean => found.touched.has(id) || shared.changes(id);
  for (const [id, { value }] of shared.entries()) {
    await pause();
    const { owner, value: element } = value;
    if (element.set !== 'vips' || isDone(id) || found.addresses.has(binary(element.key))) continue;
    batch.bind(owner, element.key);
    drift.missing += 1;
  }
  for (const key of found.addresses.values()) {
    const id = sharedId({ set: 'vips', key });
    if (shared.has(id) || isDone(id)) continue;
    batch.unbind('', key);
    drift.unwanted += 1;
  }
  for (const set of sharedSets) {
    for (const { key } of found.table.elements(set).values()) {
      const id = sharedId({ set, key });
      if (shared.has(id) || isDone(id)) continue;
      batch.last.to('delete', set, '').key(key);
      drift.unwanted += 1;
    }
  }
  const ofLayout = [...chains(config).map(({ name }) => name), ...setNames.map(setId)];
  objects.prune(found.table, new Set(ofLayout), drift);
}
