/**
 * Which Service owns a frontend that several Services claim: the same external IP and port,
 * load-balancer address, node port or, in hand-written manifests, ClusterIP. Exactly one Service
 * owns it: the first by `precedence.ts`, regardless of the order in which Services arrived.
 *
 * At addresses of the node, a port may also be a node port or a health-check node port of another
 * Service, or a port of this process. Each of these blocks Services of a lower precedence. Ports of
 * other programs of the node, and the address and port of the API server, block external IPs.
 *
 * A range of ports blocks single ports within it of a lower precedence, of other Services. The
 * others and its own Service keep theirs, also without endpoints (`Frontend.isInRange`), and the
 * range has the rest. No range is at addresses of the node.
 */
import type { Family } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';
import { ChangedRanges } from './changed-ranges.ts';
import {
  blocks,
  type Claim,
  type Claimant,
  type Claims,
  Contest,
  claimOf,
  firstOf,
  givenIn,
  isKeeper,
  isOwn,
  isSameRange,
  isSingle,
  nearOf,
  rangeAt,
  within,
} from './claims.ts';
import type { Conflict } from './conflict.ts';
import {
  type ClaimKey,
  claimKey,
  type FrontendKey,
  familyOf,
  frontendKey,
  type NodePortKey,
  nodePortClaim,
  nodePortsOf,
} from './frontend-key.ts';
import { type NodeSockets, noSockets } from './node-sockets.ts';
import { kept, listOf, type OneOrMore } from './one-or-more.ts';
import { hasPort } from './port-range.ts';
import { finish } from './steps.ts';
import {
  type Forwarding,
  type Frontend,
  forwardingKey,
  type ServicePortName,
  serviceKey,
} from './types.ts';

/** The result of a change of one Service's claims, for it and for others. */
export interface Ownership {
  /** The given Forwardings, each with only the frontends that its Service owns. */
  readonly forwardings: readonly Forwarding[];
  /** Frontends that pass to or from Forwardings of other Services. */
  readonly transfers: readonly Transfer[];
  /** Frontends that their claimants do not own, each reported once per better claimant. */
  readonly conflicts: readonly Conflict[];
  /**
   * Services that a range of ports takes ports from or gives them back. They have what they had
   * until they are set again. Looked for in steps, each of which is undefined.
   */
  readonly affected: Iterable<string | undefined>;
}

/** The frontends that one Forwarding loses and gains. */
interface Transfer {
  /** Key (`ns/name`) of the Service. */
  readonly service: string;
  readonly family: Family;
  /** `Forwarding.key` */
  readonly forwarding: string;
  readonly lost: ReadonlySet<FrontendKey>;
  readonly gained: readonly Frontend[];
}

/** Answers questions about owners. */
export type ReadonlyOwners = Pick<FrontendOwners, 'ownerOf' | 'ownerInsteadOf'>;

/** The claims of a Service, compared with those that it had. */
interface Compared {
  /** Frontends of which it had the only claim, and which only a range may block: both claims. */
  readonly only: readonly (readonly [had: Claim, gets: Claim, range: Claim | undefined])[];
  readonly rest: readonly (readonly [ClaimKey, Claim])[];
  /** What it has instead of those of `only` that a range has, too. */
  readonly others: Map<Frontend, Frontend | undefined>;
  /** What it has with those. */
  readonly forwardings: readonly Forwarding[];
  /** `#contests` and the number of changes of ranges when this was begun. */
  readonly contests: number;
  readonly rangeChanges: number;
}

/** Fewer claims are compared in the last step. */
const comparedLeast = 256;

/** The number of claims that are compared in one step. */
const claimsAStep = 128;

/** The number of claims that are withdrawn in one step. */
const withdrawnAStep = 512;

/**
 * The cost of a call depends on the Service's own frontends only. A call takes effect in its last
 * step: no intermediate state has a frontend with two owners, or with a claimant but no owner.
 */
export class FrontendOwners {
  /** Undefined: a place for a claim that is about to be set. */
  readonly #claims = new Map<ClaimKey, Claims | undefined>();
  /** Keys of the frontends that each Service claims. */
  readonly #keysOf = new Map<string, OneOrMore<ClaimKey>>();
  /** Claimed frontends at addresses of the node, by the node port of their number. */
  readonly #near = new Map<NodePortKey, Set<ClaimKey>>();
  /** Services whose health-check node port has the number of this node port. */
  readonly #healthChecks = new Map<NodePortKey, Set<string>>();
  readonly #healthCheckOf = new Map<string, number>();
  /** How often a second Service claimed what one had alone. */
  #contests = 0;
  /** How many ranges of ports are claimed. */
  #ranges = 0;
  readonly #changedRanges = new ChangedRanges();
  /** Its count before the change that is under way. */
  #rangeChanges = 0;
  /**
   * The owners, before the change that is under way, of the frontends whose owner it may affect,
   * and what they had: usually none, because few Services claim the same.
   */
  readonly #before = new Map<ClaimKey, readonly [Claim | undefined, Frontend | undefined]>();

  /**
   * Sets the claims of a Service. `forwardings`: all, of each port and family. Only the last step
   * changes anything; most Services take no other.
   */
  *set(
    claimant: Claimant,
    forwardings: readonly Forwarding[],
    sockets: NodeSockets = noSockets,
  ): Generator<undefined, Ownership> {
    if (forwardings.length === 1 && this.#setOnly(claimant, forwardings[0]!, sockets)) {
      return { forwardings, transfers: noTransfers, conflicts: noConflicts, affected: noServices };
    }
    const desired = new DesiredClaims(claimant, sockets);
    for (const forwarding of forwardings) yield* desired.add(forwarding);
    desired.leaveNodePorts();
    const isLarge = desired.claims.size >= comparedLeast;
    const known = isLarge
      ? yield* this.#compare(claimant.key, desired.claims, forwardings)
      : undefined;
    return this.#change(claimant.key, forwardings, desired, known);
  }

  /**
   * As `set`, for a Service with one frontend, then and now, that no other claims and nothing may
   * block: most are so, and need no list of claims. Returns false, and has done nothing, if it is
   * another one.
   */
  #setOnly(claimant: Claimant, only: Forwarding, sockets: NodeSockets): boolean {
    const { key: service } = claimant;
    const { family, frontends, healthCheckNodePort, servicePort } = only;
    if (frontends.length !== 1 || healthCheckNodePort !== 0) return false;
    const frontend = frontends[0]!;
    if (frontend.address === undefined || this.#healthCheckOf.has(service)) return false;
    const near = nearOf(family, servicePort.protocol, frontend, sockets);
    const key = claimKey(family, servicePort.protocol, frontend);
    if (frontend.lastPort !== undefined) return false;
    if (near !== undefined || (this.#keysOf.get(service) ?? key) !== key) return false;
    const known = this.#claims.get(key);
    const isFree = known === undefined || (isOwn(known, service) && known.near === undefined);
    const claim = { claimant, frontend, servicePort, near, lostTo: undefined };
    if (!isFree || this.#rangeWith(key, claim) !== undefined) return false;
    this.#claims.set(key, claim);
    if (known === undefined) this.#keysOf.set(service, key);
    return true;
  }

  #change(
    service: string,
    forwardings: readonly Forwarding[],
    desired: DesiredClaims,
    compared: Compared | undefined,
  ): Ownership {
    this.#begin();
    // A range that has changed since may have looked at what the Service had.
    const isLate = compared !== undefined && compared.rangeChanges !== this.#rangeChanges;
    const conflicts: Conflict[] = [];
    this.#setHealthCheck(service, forwardings[0]?.healthCheckNodePort ?? 0);
    const doubtful: ClaimKey[] = [];
    // Another Service may have claimed one of them since.
    const known = compared?.contests === this.#contests ? compared : undefined;
    const others = new Map<Frontend, Frontend | undefined>();
    for (const [had, gets, range] of known?.only ?? noPairs) {
      const owned = range === undefined ? gets.frontend : known!.others.get(gets.frontend);
      had.claimant = gets.claimant;
      had.frontend = owned ?? gets.frontend;
      had.servicePort = gets.servicePort;
      this.#lose(had, owned === undefined ? range!.claimant.key : undefined, conflicts);
    }
    for (const [key, claim] of known?.rest ?? desired.claims) {
      // Its own range may have the port, and be entered later.
      if (!this.#enter(key, claim) || desired.hasRange) doubtful.push(key);
    }
    this.#withdrawAllBut(desired.claims, service);
    for (const one of desired.duplicates) others.set(one, undefined);
    for (const key of doubtful) {
      const claim = desired.claims.get(key)!;
      const { frontend } = claim;
      const owned = this.#owns(key, claim, conflicts) ? this.#owned(key, claim) : undefined;
      if (owned !== frontend) others.set(frontend, owned);
      claim.frontend = owned ?? frontend;
    }
    const ended = this.#end(service, conflicts, isLate ? [service] : noServices);
    const owned = finish(withOthers(known?.forwardings ?? forwardings, others));
    return { forwardings: owned, ...ended };
  }

  *#compare(
    service: string,
    claims: ReadonlyMap<ClaimKey, Claim>,
    forwardings: readonly Forwarding[],
  ): Generator<undefined, Compared> {
    const [contests, rangeChanges] = [this.#contests, this.#changedRanges.count];
    const only: (readonly [Claim, Claim, Claim | undefined])[] = [];
    const others = new Map<Frontend, Frontend | undefined>();
    const rest: (readonly [ClaimKey, Claim])[] = [];
    let compared = 0;
    for (const [key, claim] of claims) {
      compared += 1;
      if (compared % claimsAStep === 0) yield;
      const had = this.#claims.get(key);
      const isNear = claim.near !== undefined || claim.frontend.address === undefined;
      const isOnly = had !== undefined && isOwn(had, service) && had.near === undefined;
      if (isOnly && !isNear && isSameRange(had, claim)) {
        const range = this.#rangeWith(key, claim);
        only.push([had, claim, range]);
        if (range !== undefined) others.set(claim.frontend, within(range, claim));
      } else {
        rest.push([key, claim]);
        // A Map that grows by thousands in the last step would take milliseconds.
        if (had === undefined) this.#claims.set(key, undefined);
      }
    }
    const owned = yield* withOthers(forwardings, others);
    return { only, rest, others, forwardings: owned, contests, rangeChanges };
  }

  /** Withdraws what is claimed no more, but for a last part. Each part takes effect by itself. */
  *withdraw(
    service: string,
    forwardings: readonly Forwarding[],
  ): Generator<Omit<Ownership, 'forwardings'> | undefined> {
    const known = listOf(this.#keysOf.get(service) ?? noKeys);
    if (known.length <= withdrawnAStep) return;
    const claimed = new Set<ClaimKey>();
    for (const { family, frontends, servicePort } of forwardings) {
      for (const frontend of frontends) {
        claimed.add(claimKey(family, servicePort.protocol, frontend));
        if (claimed.size % claimsAStep === 0) yield;
      }
    }
    const left = known.filter((key) => claimed.has(key));
    const gone = known.filter((key) => !claimed.has(key));
    while (gone.length > withdrawnAStep) {
      this.#begin();
      for (const key of gone.splice(-withdrawnAStep)) {
        this.#remember(key);
        this.#withdraw(key, service);
      }
      this.#keysOf.set(service, [...left, ...gone]);
      yield this.#end('', []);
    }
  }

  /** Removes a Service that is gone. */
  release(service: string): Ownership {
    return finish(this.set({ key: service, createdMs: 0 }, []));
  }

  #begin(): void {
    // V8 makes a new table for a Map that is cleared, even if it is empty.
    if (this.#before.size > 0) this.#before.clear();
    this.#rangeChanges = this.#changedRanges.count;
  }

  /** The key of the Service that owns the frontend; undefined = none. */
  ownerOf(
    family: Family,
    protocol: Protocol,
    frontend: Pick<Frontend, 'address' | 'port'>,
  ): string | undefined {
    return this.#ownerAt(claimKey(family, protocol, frontend))?.claimant.key;
  }

  /**
   * The owner of a frontend that a Forwarding claims and does not own: the key of a Service,
   * `this proxy` or `the API server`. It may be the same Service, with another port.
   */
  ownerInsteadOf({ family, servicePort }: Forwarding, frontend: Frontend): string | undefined {
    const key = claimKey(family, servicePort.protocol, frontend);
    const claim = claimOf(this.#claims.get(key), serviceKey(servicePort));
    return claim === undefined ? this.#ownerAt(key)?.claimant.key : this.#betterThan(key, claim);
  }

  #ownerAt(key: ClaimKey): Claim | undefined {
    const claims = this.#claims.get(key);
    const best = claims && firstOf(claims);
    const keeper = best && this.#keeperOf(key, best);
    if (keeper === undefined) return best;
    // Blocks all claims except that of the blocking Service.
    const claim = claimOf(claims, keeper);
    return claim !== undefined && this.#keeperOf(key, claim) === undefined ? claim : undefined;
  }

  /** The range of ports that has the port of the claim, too, and does not begin there. */
  #rangeWith(key: ClaimKey, { claimant, frontend, servicePort }: Claim): Claim | undefined {
    if (this.#ranges === 0 || !isSingle(frontend)) return undefined;
    const range = this.#ownerAt(rangeAt(key, { frontend, servicePort }));
    if (range === undefined || !hasPort(range.frontend, frontend.port)) return undefined;
    // The first port leads to the same endpoints as the range.
    const isFirst = range.claimant.key === claimant.key && range.frontend.port === frontend.port;
    return isFirst ? undefined : range;
  }

  /** The frontend of a claim as its owner has it. */
  #owned(key: ClaimKey, claim: Claim): Frontend {
    const { frontend } = claim;
    const isInRange = this.#rangeWith(key, claim) === undefined ? undefined : true;
    return frontend.isInRange === isInRange ? frontend : { ...frontend, isInRange };
  }

  /** What blocks the claim to a frontend: a range of ports, or at an address of the node. */
  #keeperOf(key: ClaimKey, claim: Claim): string | undefined {
    const range = this.#rangeWith(key, claim);
    const { key: service } = claim.claimant;
    if (range !== undefined && blocks(range, claim)) return range.claimant.key;
    const { near } = claim;
    if (near === undefined || isKeeper(near)) return near;
    const nodePort = this.#ownerAt(near)?.claimant.key;
    if (nodePort !== undefined && nodePort !== service) return nodePort;
    for (const other of this.#healthChecks.get(near) ?? []) if (other !== service) return other;
    return undefined;
  }

  /** The owner of the frontend; the claimant itself if it owns it. */
  #betterThan(key: ClaimKey, claim: Claim): string | undefined {
    return this.#keeperOf(key, claim) ?? this.#ownerAt(key)?.claimant.key;
  }

  /** Records the owner of the frontend. Returns whether it is the claim's Service. */
  #owns(key: ClaimKey, claim: Claim, conflicts: Conflict[]): boolean {
    const isOwner = this.#ownerAt(key) === claim;
    this.#lose(claim, isOwner ? undefined : this.#betterThan(key, claim), conflicts);
    return isOwner;
  }

  #lose(claim: Claim, holder: string | undefined, conflicts: Conflict[]): void {
    if (holder !== undefined && holder !== claim.lostTo) {
      conflicts.push({ loser: claim.servicePort, frontend: claim.frontend, holder });
    }
    claim.lostTo = holder;
  }

  /** Records a claim. Returns true if nothing can block it. */
  #enter(key: ClaimKey, claim: Claim): boolean {
    const { claimant, frontend, near } = claim;
    if (frontend.address === undefined) this.#rememberNear(String(key));
    if (near !== undefined && !isKeeper(near)) add(this.#near, near, key);
    const known = this.#claims.get(key);
    if (known === undefined && frontend.lastPort !== undefined) this.#ranges += 1;
    if (known === undefined || isOwn(known, claimant.key)) {
      const isFree = near === undefined && this.#rangeWith(key, claim) === undefined;
      claim.lostTo = isFree ? undefined : known?.lostTo;
      this.#claims.set(key, claim);
      this.#changedRanges.note(known, claim);
      return isFree;
    }
    this.#remember(key);
    if (!(known instanceof Contest)) this.#contests += 1;
    const contest = known instanceof Contest ? known : new Contest(known);
    contest.set(claim);
    this.#claims.set(key, contest);
    return false;
  }

  #withdrawAllBut(desired: ReadonlyMap<ClaimKey, Claim>, service: string): void {
    const known = listOf(this.#keysOf.get(service) ?? noKeys);
    let withdrawn = 0;
    for (const key of known) {
      if (desired.has(key)) continue;
      withdrawn += 1;
      this.#withdraw(key, service);
    }
    if (desired.size === 0) this.#keysOf.delete(service);
    // The keys before are those in `#claims`: others would be one more object for each frontend.
    else if (withdrawn > 0 || known.length < desired.size) {
      this.#keysOf.set(service, kept(Array.from(desired.keys())));
    }
  }

  #withdraw(key: ClaimKey, service: string): void {
    const claims = this.#claims.get(key)!;
    const { frontend, servicePort } = claimOf(claims, service)!;
    if (frontend.address === undefined) this.#rememberNear(String(key));
    if (claims instanceof Contest) {
      this.#remember(key);
      claims.remove(service);
      this.#claims.set(key, claims.only ?? claims);
      return;
    }
    this.#claims.delete(key);
    if (frontend.lastPort !== undefined) this.#ranges -= 1;
    this.#changedRanges.note(claims, undefined);
    if (this.#near.size === 0) return;
    remove(this.#near, nodePortClaim(familyOf(key), servicePort.protocol, frontend.port), key);
  }

  /** Records the health-check node port of the Service; 0 = none. */
  #setHealthCheck(service: string, port: number): void {
    const known = this.#healthCheckOf.get(service) ?? 0;
    if (known === port) return;
    if (port === 0) this.#healthCheckOf.delete(service);
    else this.#healthCheckOf.set(service, port);
    for (const key of nodePortsOf(known)) {
      this.#rememberNear(key);
      remove(this.#healthChecks, key, service);
    }
    for (const key of nodePortsOf(port)) {
      this.#rememberNear(key);
      add(this.#healthChecks, key, service);
    }
  }

  /** The owner of the frontend may change. */
  #remember(key: ClaimKey): void {
    if (this.#before.has(key)) return;
    const owner = givenIn(this.#claims.get(key));
    this.#before.set(key, [owner, owner?.frontend]);
  }

  /** The owner of a node port may change, or that of a health-check node port. */
  #rememberNear(nodePort: NodePortKey): void {
    for (const key of this.#near.get(nodePort) ?? []) this.#remember(key);
  }

  /** The changes of owners, except those of `service`, if any; `late`: those to be set again. */
  #end(service: string, conflicts: Conflict[], late = noServices): Omit<Ownership, 'forwardings'> {
    const transfers = this.#before.size === 0 ? noTransfers : this.#transfers(service, conflicts);
    const isSame = this.#changedRanges.count === this.#rangeChanges;
    return { transfers, conflicts, affected: isSame ? late : this.#affected(late) };
  }

  #transfers(service: string, conflicts: Conflict[]): readonly Transfer[] {
    const all: Gathered = { IPv4: new Map(), IPv6: new Map() };
    for (const [key, [from, had]] of this.#before) {
      const to = this.#ownerAt(key);
      const has = to && this.#owned(key, to);
      this.#changedRanges.note(from, to);
      const isSame = from?.claimant.key === to?.claimant.key;
      if (isSame && had?.isInRange === has?.isInRange) continue;
      // What the Service itself has was decided with its claims.
      if (from !== undefined && from.claimant.key !== service) {
        gather(all, familyOf(key), from).lost.add(frontendKey(had!));
        const isClaimed = claimOf(this.#claims.get(key), from.claimant.key) === from;
        if (isClaimed) this.#owns(key, from, conflicts);
      }
      if (to !== undefined && to.claimant.key !== service) {
        gather(all, familyOf(key), to).gained.push(has!);
        to.frontend = has!;
        to.lostTo = undefined;
      }
    }
    return [...all.IPv4.values(), ...all.IPv6.values()];
  }

  *#affected(late: Iterable<string | undefined>): Ownership['affected'] {
    yield* late;
    yield* this.#changedRanges.affected(this.#claims, (key) => this.#misplaced(key));
  }

  /** Who has the frontend and who should have it, if that, or what it has, differs. */
  #misplaced(key: ClaimKey): readonly string[] {
    const given = givenIn(this.#claims.get(key));
    const owner = this.#ownerAt(key);
    if (given === owner && (owner && this.#owned(key, owner)) === given?.frontend) return [];
    return [given, owner].flatMap((one) => one?.claimant.key ?? []);
  }
}

const noKeys: readonly ClaimKey[] = [];
const noTransfers: readonly Transfer[] = [];
const noConflicts: readonly Conflict[] = [];
const noServices: Ownership['affected'] = [];
const noPairs: Compared['only'] = [];

type Gathering = Transfer & { readonly lost: Set<FrontendKey>; readonly gained: Frontend[] };
type Gathered = Readonly<Record<Family, Map<ServicePortName, Gathering>>>;

/** The transfer that is collected of the Forwarding with the claim. */
function gather(all: Gathered, family: Family, { claimant, servicePort }: Claim): Gathering {
  const known = all[family].get(servicePort);
  if (known !== undefined) return known;
  const [{ key: service }, forwarding] = [claimant, forwardingKey(servicePort)];
  const made = { service, family, forwarding, lost: new Set<FrontendKey>(), gained: [] };
  all[family].set(servicePort, made);
  return made;
}

/** The Forwarding after the transfer. */
export function transferred(forwarding: Forwarding, { lost, gained }: Transfer): Forwarding {
  const kept = forwarding.frontends.filter((frontend) => !lost.has(frontendKey(frontend)));
  return { ...forwarding, frontends: [...kept, ...gained] };
}

/**
 * The claims of a Service. If two of its ports claim the same frontend, the first port gets it.
 * Within a port, `resolve` returns each address once.
 */
class DesiredClaims {
  readonly claims = new Map<ClaimKey, Claim>();
  /** Whether one is to a range of ports. */
  hasRange = false;
  /** Frontends that another port of the Service has. */
  readonly duplicates: Frontend[] = [];
  #added = 0;
  readonly #claimant: Claimant;
  readonly #sockets: NodeSockets;
  /** Those that something may block. */
  readonly #near: ClaimKey[] = [];

  constructor(claimant: Claimant, sockets: NodeSockets) {
    this.#claimant = claimant;
    this.#sockets = sockets;
  }

  *add({ family, frontends, servicePort }: Forwarding): Generator<undefined> {
    const claimant = this.#claimant;
    const { protocol } = servicePort;
    for (const frontend of frontends) {
      this.#added += 1;
      if (this.#added % comparedLeast === 0) yield;
      const key = claimKey(family, protocol, frontend);
      if (this.claims.has(key)) {
        this.duplicates.push(frontend);
        continue;
      }
      const near = nearOf(family, protocol, frontend, this.#sockets);
      if (near !== undefined) this.#near.push(key);
      if (frontend.lastPort !== undefined) this.hasRange = true;
      this.claims.set(key, { claimant, frontend, servicePort, near, lostTo: undefined });
    }
  }

  /** In modes that write a node port for each address, two ports would have the same frontend. */
  leaveNodePorts(): void {
    for (const key of this.#near) {
      const { frontend, servicePort } = this.claims.get(key)!;
      const nodePort = nodePortClaim(familyOf(key), servicePort.protocol, frontend.port);
      const own = this.claims.get(nodePort)?.servicePort ?? servicePort;
      if (own === servicePort) continue;
      this.claims.delete(key);
      this.duplicates.push(frontend);
    }
  }
}

/** With other frontends instead of these, or none. */
function* withOthers(
  forwardings: readonly Forwarding[],
  others: ReadonlyMap<Frontend, Frontend | undefined>,
): Generator<undefined, readonly Forwarding[]> {
  if (others.size === 0) return forwardings;
  const all: Forwarding[] = [];
  for (const forwarding of forwardings) {
    if (all.length % claimsAStep === claimsAStep - 1) yield;
    const isOther = forwarding.frontends.some((one) => others.has(one));
    const frontends = forwarding.frontends.flatMap((one) => {
      return (others.has(one) ? others.get(one) : one) ?? [];
    });
    all.push(isOther ? { ...forwarding, frontends } : forwarding);
  }
  return all;
}

function add<K, V>(sets: Map<K, Set<V>>, key: K, value: V): void {
  const known = sets.get(key);
  if (known === undefined) sets.set(key, new Set([value]));
  else known.add(value);
}

function remove<K, V>(sets: Map<K, Set<V>>, key: K, value: V): void {
  const known = sets.get(key);
  known?.delete(value);
  if (known?.size === 0) sets.delete(key);
}
