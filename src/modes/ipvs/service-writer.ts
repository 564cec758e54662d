/** Writes the difference of one frontend. */
import { IP_VS_CONN_F, IP_VS_SVC_F } from '../../kernel/ipvs-ops.ts';
import { IPPROTO, NFPROTO, VERDICT } from '../../kernel/nft/constants.ts';
import type { ElementBuffers } from '../../kernel/nft/element-buffer.ts';
import { printVerdict } from '../../kernel/nft/print-verdict.ts';
import type { kernelOps } from '../../kernel/ops.ts';
import type { RecordWriter } from '../../kernel/records.ts';
import { addressBits, addressBytes, type Family } from '../../net/address.ts';
import { EndpointFinder } from '../../net/endpoint-finder.ts';
import { type EndpointKey, endpointKey } from '../../net/endpoint-list.ts';
import type { Balance } from '../../state/deal.ts';
import { endedBy } from '../../state/endings.ts';
import { type Counts, type Difference, noCounts } from '../backend.ts';
import type { Draining } from './draining.ts';
import type { IPVSFrontend } from './frontends.ts';
import type { SetName } from './layout.ts';
import type { IPVSObjects, ObservedFrontend, VirtualService } from './observed.ts';
import type { ObservedServer } from './observed-servers.ts';

/** Real servers have the same weight, as in kube-proxy, where no deal gives them others. */
const fullWeight = 1;

/** What a writer of frontends needs to know. */
export interface ServiceSettings {
  readonly family: Family;
  /** As the kernel names it: `rr`. */
  readonly scheduler: string;
  readonly draining: Draining;
  /** Whether it is a virtual service of others that is left alone. */
  readonly isForeign: (id: string) => boolean;
}

/** Appends one op. */
export type PlannedOp = (out: RecordWriter<typeof kernelOps>) => void;

/** The parts of a batch that a frontend is written to, in an order that is safe at each step. */
export interface ServiceBatch {
  /** Elements that the first transaction changes. */
  readonly first: ElementBuffers<SetName>;
  /** Elements that the last transaction changes. */
  readonly last: ElementBuffers<SetName>;
  /** New virtual services and real servers: before new addresses. */
  readonly additions: PlannedOp[];
  /** Those to delete: after addresses, and after what replaces them. */
  readonly removals: PlannedOp[];
}

/** A real server in the kernel. */
type Server = Pick<ObservedServer, 'packed' | 'weight' | 'forwarding'>;

/** A frontend in the kernel, as it was read or as it is in force. */
interface Known extends Omit<ObservedFrontend, 'service'> {
  readonly service: (VirtualService & ReturnType<typeof settingsOf>) | undefined;
  readonly servers: ReadonlyMap<EndpointKey, Server>;
}

/** The change of one frontend. */
interface Change {
  readonly owner: string;
  readonly drift: Counts;
  /** Whether a real server that is not desired is deleted with its connections. */
  readonly isOver: (server: EndpointKey) => boolean;
}

export class ServiceWriter {
  readonly #settings: ServiceSettings;
  readonly #batch: ServiceBatch;

  constructor(settings: ServiceSettings, batch: ServiceBatch) {
    this.#settings = settings;
    this.#batch = batch;
  }

  write(difference: Difference<IPVSObjects>): void {
    const { owner, before, after } = difference;
    const id = (after ?? before)?.id;
    if (id === undefined || this.#settings.isForeign(id)) return;
    const { draining } = this.#settings;
    if (difference.from === 'kernel') {
      // What was read from the kernel replaces what we remember.
      draining.forget(id);
      const isOver = overIn(after, draining.takeEnding(id));
      const change = { owner, isOver, drift: difference.drift };
      this.#difference(change, knownOf(difference.before), after);
    } else {
      const isOver = overIn(after, endedAt(difference.before, after));
      const known = difference.before && this.#believed(difference.before, after);
      this.#difference({ owner, isOver, drift: noCounts() }, known, after);
    }
  }

  /** The frontend that is in force. Servers that stay in `after` are left out. */
  #believed(before: IPVSFrontend, after: IPVSFrontend | undefined): Known {
    const { id, key, sets, firewall, pool, weights } = before;
    const isSamePool =
      after !== undefined && pool.equals(after.pool) && sameWeights(weights, after.weights);
    return {
      id,
      key,
      sets,
      firewall: firewall && verdictTo(firewall.chain),
      service: { ...before, ...settingsOf(before, this.#settings.scheduler) },
      servers: isSamePool ? sameServers : this.#serversOf(before),
    };
  }

  #serversOf({ id, pool, weights }: IPVSFrontend): Map<EndpointKey, Server> {
    const servers = new Map<EndpointKey, Server>();
    for (const [key, packed] of this.#settings.draining.serversOf(id)) {
      servers.set(key, { packed, ...serverSettings(0) });
    }
    for (let i = 0; i < pool.length; i += 1) {
      servers.set(pool.key(i), { packed: pool.packed(i), ...serverSettings(weightAt(weights, i)) });
    }
    return servers;
  }

  #difference(change: Change, known: Known | undefined, after: IPVSFrontend | undefined): void {
    const { owner, drift } = change;
    if (after === undefined) {
      if (known !== undefined) this.#remove(owner, known, drift);
      return;
    }
    const settings = settingsOf(after, this.#settings.scheduler);
    if (known?.service === undefined) {
      this.#putService(owner, after, 'add');
      drift.missing += 1;
    } else if (!hasSettings(known.service, settings)) {
      this.#putService(owner, after, 'set');
      drift.wrong += 1;
    }
    this.#elements(owner, known, after, drift);
    if (known?.servers === sameServers) this.#endDraining(change, after);
    else this.#servers(change, known?.servers, after);
  }

  /** Makes the virtual service, or changes its settings. */
  #putService(owner: string, frontend: IPVSFrontend, how: 'add' | 'set'): void {
    const fields = { ...this.#keyOf(frontend), ...settingsOf(frontend, this.#settings.scheduler) };
    const kind = how === 'add' ? 'virtualServiceAdd' : 'virtualServiceSet';
    this.#batch.additions.push((out) => out.write(kind, fields, owner));
  }

  /** The real server gets no new connections and keeps those that it has. */
  #retireServer(owner: string, service: VirtualService, packed: Uint8Array): void {
    const fields = { ...this.#serverKey(service, packed), ...serverSettings(0) };
    const { removals } = this.#batch;
    removals.push((out) => out.write('destinationSet', fields, owner));
    this.#settings.draining.put(service, packed);
  }

  /** The real server goes, with its connections. */
  #endServer(owner: string, service: VirtualService, key: EndpointKey, packed: Uint8Array): void {
    this.deleteServer(owner, service, packed);
    this.#settings.draining.end(service.id, key);
  }

  #endDraining({ owner, isOver }: Change, after: IPVSFrontend): void {
    if (isOver === never) return;
    for (const [key, packed] of this.#settings.draining.serversOf(after.id)) {
      if (isOver(key)) this.#endServer(owner, after, key, packed);
    }
  }

  deleteServer(owner: string, service: VirtualService, packed: Uint8Array): void {
    const fields = this.#serverKey(service, packed);
    const { removals } = this.#batch;
    removals.push((out) => out.write('destinationDelete', fields, owner));
    this.#settings.draining.remove(service.id, endpointKey(this.#settings.family, packed, 0));
  }

  #remove(owner: string, { id, key, service, sets, firewall }: Known, drift: Counts): void {
    const { last, removals } = this.#batch;
    if (service !== undefined) {
      const fields = this.#keyOf(service);
      this.#settings.draining.forget(id);
      removals.push((out) => out.write('virtualServiceDelete', fields, owner));
      drift.unwanted += 1;
    }
    for (const set of sets) last.to('delete', set, owner).key(key);
    drift.unwanted += sets.length;
    if (firewall === undefined) return;
    last.to('delete', 'firewall-ips', owner).key(key);
    drift.unwanted += 1;
  }

  #elements(owner: string, known: Known | undefined, after: IPVSFrontend, drift: Counts): void {
    const { first, last } = this.#batch;
    const { key } = after;
    const had = known?.sets ?? [];
    for (const set of after.sets) {
      if (had.includes(set)) continue;
      first.to('add', set, owner).key(key);
      drift.missing += 1;
    }
    for (const set of had) {
      if (after.sets.includes(set)) continue;
      last.to('delete', set, owner).key(key);
      drift.unwanted += 1;
    }
    const chain = after.firewall?.chain;
    const [was, is] = [known?.firewall, chain && verdictTo(chain)];
    if (was === is) return;
    if (was !== undefined) first.to('delete', 'firewall-ips', owner).key(key);
    if (chain !== undefined) {
      first.to('add', 'firewall-ips', owner).verdict(key, VERDICT.goto, chain);
    }
    drift[was === undefined ? 'missing' : 'wrong'] += 1;
  }

  #servers(
    { owner, drift, isOver }: Change,
    known: ReadonlyMap<EndpointKey, Server> = sameServers,
    after: IPVSFrontend,
  ): void {
    const { id, pool, weights } = after;
    const service = this.#keyOf(after);
    for (let i = 0; i < pool.length; i += 1) {
      const server = known.get(pool.key(i));
      const weight = weightAt(weights, i);
      if (server !== undefined && isServing(server, weight)) continue;
      const destination = { destination: pool.address(i), destinationPort: pool.port(i) };
      const fields = { ...service, ...destination, ...serverSettings(weight) };
      const kind = server === undefined ? 'destinationAdd' : 'destinationSet';
      this.#batch.additions.push((out) => out.write(kind, fields, owner));
      this.#settings.draining.remove(id, pool.key(i));
      drift[server === undefined ? 'missing' : 'wrong'] += 1;
    }
    const desired = new EndpointFinder(pool);
    for (const [key, { packed, weight }] of known) {
      if (desired.has(key)) continue;
      if (isOver(key)) this.#endServer(owner, after, key, packed);
      else if (weight > 0) this.#retireServer(owner, after, packed);
      else {
        this.#settings.draining.put(after, packed);
        continue;
      }
      drift.unwanted += 1;
    }
  }

  /** What names the virtual service in ops. */
  #keyOf({ address, protocol, port }: Omit<VirtualService, 'id'>) {
    const family = NFPROTO[this.#settings.family];
    return { family, protocol: IPPROTO[protocol], address: address.bytes, port };
  }

  #serverKey(service: VirtualService, packed: Uint8Array) {
    const length = addressBytes[this.#settings.family];
    return {
      ...this.#keyOf(service),
      destination: packed.subarray(0, length),
      destinationPort: (packed[length]! << 8) | packed[length + 1]!,
    };
  }
}

/** The endpoints whose connections end by a change of a Service port. */
function endedAt(
  before: IPVSFrontend | undefined,
  after: IPVSFrontend | undefined,
): ReadonlySet<EndpointKey> | undefined {
  return before?.owner === after?.owner ? endedBy(before, after) : undefined;
}

/**
 * See `Change`. `ended`: those whose connections were to be ended. UDP flows end immediately, unless
 * the Service keeps those to endpoints that serve: a client that never stops sending would keep its
 * entry forever.
 */
function overIn(
  after: IPVSFrontend | undefined,
  ended: ReadonlySet<EndpointKey> | undefined,
): Change['isOver'] {
  if (after?.protocol === 'UDP') {
    if (after.endings?.keepsFlows !== true) return always;
    const kept = new EndpointFinder(after.serving);
    return (server) => !kept.has(server);
  }
  if (ended === undefined || after?.endings?.kept === undefined) return never;
  const kept = new EndpointFinder(after.endings.kept);
  return (server) => ended.has(server) && !kept.has(server);
}

const always = (): boolean => true;
const never = (): boolean => false;

/** No server changes. */
const sameServers: ReadonlyMap<EndpointKey, Server> = new Map();

function knownOf(known: ObservedFrontend | undefined): Known | undefined {
  return known && { ...known, servers: new Map(known.service?.servers.entries()) };
}

/** In nft's words. */
function verdictTo(chain: string): string {
  return printVerdict(VERDICT.goto, chain);
}

/** The weight of the real server at this index of the pool. */
function weightAt(weights: IPVSFrontend['weights'], index: number): number {
  return weights?.[index] ?? fullWeight;
}

function sameWeights(a: IPVSFrontend['weights'], b: IPVSFrontend['weights']): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.length === b.length && a.every((weight, i) => weight === b[i]);
}

function hasSettings(
  known: ReturnType<typeof settingsOf>,
  desired: ReturnType<typeof settingsOf>,
): boolean {
  return (
    known.scheduler === desired.scheduler &&
    known.flags === desired.flags &&
    known.prefixLength === desired.prefixLength &&
    (desired.timeoutSeconds === 0 || known.timeoutSeconds === desired.timeoutSeconds)
  );
}

function isServing({ weight, forwarding }: Server, desiredWeight: number): boolean {
  return weight === desiredWeight && forwarding === serverSettings(desiredWeight).forwarding;
}

/** The scheduler of each balance. Those for `random` are the configuration's. */
const schedulers = {
  'round-robin': 'rr',
  'source-hash': 'sh',
  'flow-hash': 'sh',
  maglev: 'mh',
  'least-connections': 'lc',
} as const satisfies Record<Exclude<Balance, 'random'>, string>;

/** Schedulers that do not look at weights, and those that do the same with weights. */
const weighted: Readonly<Record<string, string>> = { rr: 'wrr', lc: 'wlc' };

/** IP_VS_SVC_F_SCHED_SH_FALLBACK, _PORT; those of `mh` are the same bits. */
const [fallsBack, hashesPort] = [IP_VS_SVC_F.SCHED1, IP_VS_SVC_F.SCHED2];

type Scheduled = Pick<IPVSFrontend, 'address' | 'timeoutSeconds'> &
  Partial<Pick<IPVSFrontend, 'balance' | 'weights'>>;

/** `standard`: the scheduler of the configuration. */
export function schedulerOf({ balance, weights }: Partial<IPVSFrontend>, standard: string) {
  const asked = balance !== undefined && balance !== 'random';
  const scheduler = asked ? schedulers[balance] : standard;
  return weights === undefined ? scheduler : (weighted[scheduler] ?? scheduler);
}

/** Those that a balance may need. Those for `random` are for weights: which, a setting decides. */
export function schedulersOf(balance: Balance): readonly string[] {
  if (balance === 'random') return Object.values(weighted);
  const plain = schedulers[balance];
  return plain in weighted ? [plain, weighted[plain]!] : [plain];
}

/** The settings that a virtual service is to have; dumps show the same. */
export function settingsOf(frontend: Scheduled, standard: string) {
  const { address, balance, timeoutSeconds } = frontend;
  const scheduler = schedulerOf(frontend, standard);
  const persistence = timeoutSeconds > 0 ? IP_VS_SVC_F.PERSISTENT : 0;
  return {
    scheduler,
    flags: persistence | hashing(scheduler, balance),
    timeoutSeconds,
    prefixLength: addressBits(address),
  };
}

function hashing(scheduler: string, balance: Balance | undefined): number {
  switch (balance) {
    // A client whose real server drains gets another one.
    case 'source-hash':
      return fallsBack;
    case 'flow-hash':
    case 'maglev':
      return fallsBack | hashesPort;
    default:
      // As upstream: makes `mh` hash the source port too.
      return scheduler === 'mh' ? hashesPort : 0;
  }
}

/** The settings of a real server. */
function serverSettings(weight: number) {
  return { forwarding: IP_VS_CONN_F.MASQ, weight, upperThreshold: 0, lowerThreshold: 0 };
}
