/**
 * Which conntrack entries contradict what is in force. Pure.
 *
 * An entry made by a frontend's translation outlives the endpoint that it points at: every further
 * packet of the flow goes where the entry says, whatever the rules say by now, and keeps the entry
 * alive. For a sender that never stops (statsd, syslog, DNS from one socket) that is forever.
 *
 * What contradicts, by the original destination of an entry:
 * 1. A Service owns that frontend, and the reply source is not one of its endpoints. This covers a
 *    deleted endpoint, one whose port changed, and an entry from before the frontend existed,
 *    which is not translated at all (reply source = original destination; a mode that translates
 *    nothing has such entries). Without any endpoint every entry contradicts, because the frontend
 *    must refuse clients: the rule that does so does not see packets that an entry has already
 *    translated (upstream's #139628).
 *    An endpoint of a range of ports is known by the range's first port, and packets keep theirs.
 * 2. No Service owns it any more, and the reply source is an endpoint that it had. Other entries
 *    stay: the address may belong to another program. Beyond a range, a port counts as one that it
 *    had.
 *
 * What always stays:
 * - entries to any other destination, also to another port of the same address without a range;
 * - entries to a node port's number at an address that is not this node's, or does not accept node
 *   ports (behaviour document 5.12: upstream takes every flow with that port);
 * - answered TCP: a connection to a terminating endpoint may continue, and one to a deleted
 *   endpoint ends by itself. The dump leaves them out;
 * - entries of other conntrack zones: other networks may use the same addresses.
 */
import type { ConntrackRequest } from '../kernel/conntrack.ts';
import type { ConntrackEntries } from '../kernel/conntrack-entries.ts';
import { type Address, addressBytes, type Family } from '../net/address.ts';
import { EndpointFinder } from '../net/endpoint-finder.ts';
import { type EndpointKey, EndpointList, endpointKeys } from '../net/endpoint-list.ts';
import { endedBy } from '../state/endings.ts';
import {
  type FrontendKey,
  frontendKey,
  nodePortKey,
  rangeKey,
  withPortOf,
} from '../state/frontend-key.ts';
import { type Holders, rangeOf } from '../state/frontends-in-force.ts';
import { leadsTo, type PoolName, poolNames } from '../state/paths.ts';
import { rangeIn } from '../state/port-range.ts';
import type { Forwarding } from '../state/types.ts';

const noKeys: readonly FrontendKey[] = [];

export function frontendKeys(forwarding: Forwarding | undefined): readonly FrontendKey[] {
  return forwarding?.frontends.map(frontendKey) ?? noKeys;
}

/** The original destination of entries to the frontend. */
export function destinationOf(
  family: Family,
  key: FrontendKey,
): NonNullable<ConntrackRequest['destination']> {
  if (typeof key === 'number' && key < 0) return { address: undefined, port: -key };
  const bytes = bytesOf(key);
  const length = addressBytes[family];
  return { address: bytes.subarray(0, length), port: bytes.readUInt16BE(length) };
}

/** The address and port of a key that `endpointKey` made. */
function bytesOf(key: EndpointKey): Buffer {
  if (typeof key === 'string') return Buffer.from(key, 'latin1');
  const bytes = Buffer.alloc(addressBytes.IPv4 + 2);
  bytes.writeUIntBE(key, 0, bytes.length);
  return bytes;
}

/**
 * Returns the endpoints that an entry may point at: all serving endpoints, whatever the policy, so
 * that flows to a terminating endpoint continue; and those that are selected although they do not
 * serve (publishNotReadyAddresses).
 */
function rightEndpoints({ serving, cluster, local }: Forwarding): Set<EndpointKey> {
  return endpointKeys(serving, cluster, local);
}

const listNames = ['serving', 'cluster', 'local'] as const;

function listsOf(forwarding: Forwarding): readonly EndpointList[] {
  // Usually some of these are the same list.
  return [...new Set(listNames.map((name) => forwarding[name]))];
}

/**
 * Returns the frontends of a change whose entries must be examined, each with the endpoints that it
 * lost. An endpoint that several pools had may appear several times.
 */
export function eachSuspect(
  previous: Forwarding | undefined,
  next: Forwarding | undefined,
  suspect: (key: FrontendKey, lost: ReadonlySet<EndpointKey>) => void,
): void {
  if (previous === next) return;
  if (previous === undefined) {
    for (const frontend of next!.frontends) suspect(frontendKey(frontend), noEndpoints);
    return;
  }
  const before = new Set(frontendKeys(previous));
  const after = new Set(frontendKeys(next));
  const { lost, gained } = compareEndpoints(previous, next);
  for (const key of after) {
    // A new frontend may have entries from before it existed. One that had no endpoint may have
    // entries to those that went while this process was not there to see it.
    if (gained === 'first' || lost.size > 0 || !before.has(key)) suspect(key, lost);
  }
  let all: ReadonlySet<EndpointKey> | undefined;
  const [had, has] = [previous, next].map((one) => one && rangeIn(one));
  if (had?.port !== has?.port || had?.lastPort !== has?.lastPort) {
    // Ports that the range loses have all endpoints no more, and those that it gains are new.
    all = rightEndpoints(previous);
    for (const key of after) if (key === rangeKey(key)) suspect(key, all);
  }
  for (const key of before) {
    if (after.has(key)) continue;
    all ??= rightEndpoints(previous);
    suspect(key, all);
  }
}

/**
 * As `eachSuspect`, for connections that are ended: the frontends that stay with a Service, each
 * with the endpoints whose connections must end.
 */
export const eachEnded: typeof eachSuspect = (previous, next, suspect) => {
  const lost = endedBy(previous, next);
  if (lost === undefined) return;
  const had = new Set(frontendKeys(previous));
  for (const key of frontendKeys(next)) if (had.has(key)) suspect(key, lost);
};

/**
 * As `eachSuspect`, for connections that are being made: the frontends of a Service, each with the
 * endpoints that the change leaves out because they do not answer. A client that tries one of them
 * repeats its first packet, and that is to meet another.
 */
export const eachAbandoned: typeof eachSuspect = (previous, next, suspect) => {
  const after = next?.deal?.leftOut;
  if (after === undefined) return;
  const before = previous?.deal?.leftOut;
  const newly = (pool: PoolName): ReadonlySet<EndpointKey> => {
    return new Set([...after[pool]].filter((endpoint) => !before?.[pool].has(endpoint)));
  };
  for (const pool of poolNames) {
    const lost = newly(pool);
    if (lost.size === 0) continue;
    for (const frontend of next!.frontends) {
      if (leadsTo(frontend.paths, pool)) suspect(frontendKey(frontend), lost);
    }
  }
};

/** For frontends that lost no endpoint, which at the start are all. */
export const noEndpoints: ReadonlySet<EndpointKey> = new Set();

const noLoss = { lost: noEndpoints, gained: 'more' } as const;

function compareEndpoints(
  previous: Forwarding,
  next: Forwarding | undefined,
): { lost: ReadonlySet<EndpointKey>; gained: 'first' | 'more' } {
  if (next !== undefined && sameLists(previous, next)) return noLoss;
  const after = next === undefined ? [] : listsOf(next);
  const finders = after.map((list) => new EndpointFinder(list));
  const lost = new Set<EndpointKey>();
  for (const name of listNames) {
    const list = previous[name];
    // What stays where it was is not lost.
    for (const i of list.changedAt(next?.[name] ?? EndpointList.empty[list.family])) {
      const key = list.key(i);
      // To look for it takes long, and several lists may have had it.
      if (lost.has(key) || finders.some((finder) => finder.indexOf(list, i) >= 0)) continue;
      lost.add(key);
    }
  }
  const isFirst = !listsOf(previous).some(hasAny) && after.some(hasAny);
  return { lost, gained: isFirst ? 'first' : 'more' };
}

function hasAny({ length }: EndpointList): boolean {
  return length > 0;
}

function sameLists(a: Forwarding, b: Forwarding): boolean {
  return listNames.every((name) => a[name].equals(b[name]));
}

/** By what entries of one family and protocol are selected. */
export interface Criteria {
  readonly holders: Holders;
  /** The frontends whose entries are examined, each with endpoints that it had. */
  readonly suspects: ReadonlyMap<FrontendKey, ReadonlySet<EndpointKey>>;
  /** Frontends with endpoints that are gone so recently that their entries are left for later. */
  readonly spared: ReadonlyMap<FrontendKey, ReadonlySet<EndpointKey>>;
  /** Addresses that accept node ports. Asked for only when an entry has a suspect node port. */
  readonly nodePortAddresses: () => readonly Address[];
  /** Entries that no frontend has translated: right where this node itself serves clients. */
  readonly untranslated: 'right' | 'wrong';
}

/** Those of the entries that contradict. */
export function contradicting(entries: ConntrackEntries, criteria: Criteria): ConntrackEntries {
  const { holders, suspects, spared, untranslated } = criteria;
  const frontendsOf = destinationReader(entries, criteria, suspects);
  const rightOf = memoized(rightEndpoints);
  return entries.filter((index) => {
    const keys = frontendsOf(index);
    if (!keys.some((key) => suspects.has(key))) return false;
    const replySource = entries.key(index, 'replySource');
    const isUntranslated = replySource === entries.key(index, 'originalDestination');
    if (untranslated === 'right' && isUntranslated) return false;
    const isIn = (all: ReadonlySet<EndpointKey> | undefined, key: FrontendKey): boolean =>
      all?.has(endpointOf(entries, index, key, all)) === true;
    if (keys.some((key) => isIn(spared.get(key), key))) return false;
    // As in the rules, a Service's own address and port comes before a node port.
    const own = keyIn(entries, index, keys, holders);
    if (own !== undefined) return !isIn(rightOf(holders.get(own)!), own);
    return keys.some((key) => isIn(suspects.get(key), key));
  });
}

/**
 * Those of the entries whose connections are to be ended: the Service that holds the frontend has
 * lost the endpoint, and has not got it back.
 */
export function ended(entries: ConntrackEntries, criteria: Criteria): ConntrackEntries {
  const keptBy = memoized(({ endings }) => endings?.kept && endpointKeys(endings.kept));
  return selectLost(entries, criteria, (holder, _, endpoint) => {
    return keptBy(holder)?.has(endpoint) === false;
  });
}

/**
 * Those of the entries that nothing has answered, to endpoints that are left out for that: the
 * Service that holds the frontend has left the endpoint out, and it still is.
 */
export function abandoned(entries: ConntrackEntries, criteria: Criteria): ConntrackEntries {
  const pathsOf = memoized(({ frontends }) => {
    return new Map(frontends.map((one) => [frontendKey(one), one.paths]));
  });
  return selectLost(entries, criteria, (holder, key, endpoint) => {
    const paths = pathsOf(holder).get(key)!;
    const leftOut = holder.deal?.leftOut;
    return poolNames.some((pool) => leadsTo(paths, pool) && leftOut?.[pool].has(endpoint));
  });
}

/** Returns what finds the Forwarding that has the frontend of an entry. */
export function holderReader(
  entries: ConntrackEntries,
  { holders, nodePortAddresses }: Criteria,
): (index: number) => Forwarding | undefined {
  const frontendsOf = destinationReader(entries, { nodePortAddresses }, holders);
  return (index) => {
    const key = keyIn(entries, index, frontendsOf(index), holders);
    return key === undefined ? undefined : holders.get(key);
  };
}

/** Entries to an endpoint that a suspect frontend had, and that its holder has lost (`isLost`). */
function selectLost(
  entries: ConntrackEntries,
  criteria: Criteria,
  isLost: (holder: Forwarding, key: FrontendKey, endpoint: EndpointKey) => boolean,
): ConntrackEntries {
  const { holders, suspects } = criteria;
  const frontendsOf = destinationReader(entries, criteria, suspects);
  return entries.filter((index) => {
    const key = keyIn(entries, index, frontendsOf(index), holders);
    if (key === undefined) return false;
    const lost = suspects.get(key) ?? noEndpoints;
    const endpoint = endpointOf(entries, index, key, lost);
    return lost.has(endpoint) && isLost(holders.get(key)!, key, endpoint);
  });
}

/**
 * The endpoint of an entry as `all`, endpoints of the frontend, are known: those of a range by one
 * port, if the entry has kept its own.
 */
function endpointOf(
  entries: ConntrackEntries,
  index: number,
  key: FrontendKey,
  all: ReadonlySet<EndpointKey>,
): EndpointKey {
  const endpoint = entries.key(index, 'replySource');
  if (key !== rangeKey(key)) return endpoint;
  const [one] = all;
  const port = entries.port(index, 'originalDestination');
  const isKept = entries.port(index, 'replySource') === port;
  return isKept && one !== undefined ? withPortOf(endpoint, one) : rangeKey(endpoint);
}

/** The first of the frontends that a Forwarding has, at the port of the entry. */
function keyIn(
  entries: ConntrackEntries,
  index: number,
  keys: readonly FrontendKey[],
  holders: Holders,
): FrontendKey | undefined {
  const port = entries.port(index, 'originalDestination');
  return keys.find((key) => {
    return key === rangeKey(key) ? rangeOf(holders, key, port) !== undefined : holders.has(key);
  });
}

/** Returns what finds the frontends that the original destination of an entry may belong to. */
function destinationReader(
  entries: ConntrackEntries,
  { nodePortAddresses }: Pick<Criteria, 'nodePortAddresses'>,
  suspects: ReadonlyMap<FrontendKey, unknown>,
): (index: number) => readonly FrontendKey[] {
  let accepting: Set<string> | undefined;
  return (index) => {
    const key = entries.key(index, 'originalDestination');
    const port = entries.port(index, 'originalDestination');
    const range = rangeKey(key);
    // Where it is gone, or is shorter, an entry to one of its endpoints was its own.
    if (suspects.has(range)) return [key, range];
    const nodePort = nodePortKey(port);
    if (!suspects.has(nodePort)) return [key];
    accepting ??= new Set(nodePortAddresses().map(({ bytes }) => textOf(bytes)));
    const address = entries.address(index, 'originalDestination');
    return accepting.has(textOf(address)) ? [key, nodePort] : [key];
  };
}

/** The same function, which is called once for each Forwarding. */
function memoized<T>(make: (forwarding: Forwarding) => T): (forwarding: Forwarding) => T {
  const made = new Map<Forwarding, T>();
  return (forwarding) => {
    if (!made.has(forwarding)) made.set(forwarding, make(forwarding));
    return made.get(forwarding) as T;
  };
}

function textOf(address: Uint8Array): string {
  return address.join();
}
