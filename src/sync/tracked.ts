/**
 * What one family knows of each Forwarding: one record, from what is desired to what is in force.
 * Nothing else remembers any of it.
 */
import type { Family } from '../net/address.ts';
import { type FrontendKey, frontendKey } from '../state/frontend-key.ts';
import { apiServers, ofSystem } from '../state/other-machines.ts';
import { isElsewhere } from '../state/paths.ts';
import type { Forwarding, ForwardingsByKey, Frontend } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { Due } from './cause.ts';

/** What has become of what is desired. `set aside`: the kernel refuses it. */
export type Status = 'in force' | 'waiting' | 'set aside';

/** One Forwarding on its way into the kernel. Only its `TrackedForwardings` changes it. */
export class Tracked extends Due {
  readonly family: Family;
  /** `Forwarding.key` */
  readonly key: string;
  /** It depends on the cluster only: pools have the order that resolving gives them. */
  desired: Forwarding | undefined = undefined;
  /** What will be in force when all that was planned is. */
  planned: Forwarding | undefined = undefined;
  /** What the kernel has acknowledged. During a repair, what the repair has come to. */
  inForce: Forwarding | undefined = undefined;
  status: Status = 'waiting';
  /** `Clock.now` since when it has its status, in whole milliseconds. */
  sinceMs = 0;
  /** What was in force before the repair under way or due, which has not come to it yet. */
  before: Forwarding | undefined = undefined;

  constructor(family: Family, key: string) {
    super();
    this.family = family;
    this.key = key;
  }

  /** It holds nothing, and may no longer be the record of its key. */
  get isEmpty(): boolean {
    return (this.desired ?? this.planned ?? this.inForce ?? this.before) === undefined;
  }
}

export class TrackedForwardings {
  readonly #family: Family;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #records = new Map<string, Tracked>();
  readonly #leaving = new LeavingFrontends();
  readonly #sizes: Record<Form, number> = { desired: 0, inForce: 0 };
  readonly #unreached = { internal: 0, external: 0 };
  readonly desired: ForwardingsByKey;
  readonly inForce: ForwardingsByKey;

  constructor(family: Family, clock: Pick<Clock, 'now'>) {
    this.#family = family;
    this.#clock = clock;
    this.desired = new FormView('desired', this.#records, this.#sizes);
    this.inForce = new FormView('inForce', this.#records, this.#sizes);
  }

  /** The record of the key, made if there is none. It remains as long as it holds anything. */
  at(key: string): Tracked {
    let record = this.#records.get(key);
    if (record === undefined) {
      record = new Tracked(this.#family, key);
      record.sinceMs = Math.round(this.#clock.now());
      this.#records.set(key, record);
    }
    return record;
  }

  get(key: string): Tracked | undefined {
    return this.#records.get(key);
  }

  values(): Iterable<Tracked> {
    return this.#records.values();
  }

  /** All, for a repair that may take seconds: first those that programs of all namespaces need. */
  urgentFirst(): Tracked[] {
    const [urgent, others]: [Tracked[], Tracked[]] = [[], []];
    for (const record of this.values()) (isUrgent(record) ? urgent : others).push(record);
    return urgent.concat(others);
  }

  setDesired(record: Tracked, next: Forwarding | undefined): void {
    this.#sizes.desired += Number(next !== undefined) - Number(record.desired !== undefined);
    this.#countUnreached(record.desired, -1);
    this.#countUnreached(next, 1);
    if (next !== record.desired && record.status === 'in force') this.setStatus(record, 'waiting');
    record.desired = next;
    if (newestOf(record) !== undefined) this.#leaving.updateLater(record);
  }

  /** `setDesired` has been called: does a part of what it has left, which one step could not. */
  catchUp(): void {
    this.#leaving.catchUp(2);
  }

  /** Those desired that have endpoints, of which clients of a policy Local reach none. */
  get unreached(): Readonly<Record<'internal' | 'external', number>> {
    return this.#unreached;
  }

  #countUnreached(forwarding: Forwarding | undefined, sign: 1 | -1): void {
    if (forwarding === undefined) return;
    let [internal, external] = [0, 0];
    for (const { paths } of forwarding.frontends) {
      if (paths.pod.to === 'drop') internal = sign;
      if (isElsewhere(paths)) external = sign;
    }
    this.#unreached.internal += internal;
    this.#unreached.external += external;
  }

  setPlanned(record: Tracked, next: Forwarding | undefined): void {
    record.planned = next;
    this.#leaving.update(record);
  }

  /** What was planned is not in force, and is forgotten. */
  takeBack(record: Tracked): void {
    this.setPlanned(record, record.inForce);
  }

  setStatus(record: Tracked, status: Status): void {
    if (record.status === status) return;
    record.status = status;
    record.sinceMs = Math.round(this.#clock.now());
  }

  /** What is in force was planned when this was desired; undefined: it is something else. */
  acknowledged(record: Tracked, desired: Forwarding | undefined): void {
    if (record.status === 'set aside') return;
    const isDone = desired !== undefined && desired === record.desired;
    this.setStatus(record, isDone ? 'in force' : 'waiting');
  }

  /** The kernel has acknowledged it. Returns what was in force of it until now. */
  setInForce(record: Tracked, next: Forwarding | undefined): Forwarding | undefined {
    const previous = record.inForce ?? record.before;
    this.#sizes.inForce += Number(next !== undefined) - Number(record.inForce !== undefined);
    record.inForce = next;
    this.#forgetBefore(record);
    return previous;
  }

  /** A repair begins, which sets everything. One that failed may have set only a part. */
  beginRepair(): void {
    for (const record of this.#records.values()) {
      record.before = record.inForce ?? record.before;
      record.planned = undefined;
      record.inForce = undefined;
      if (record.status === 'in force') this.setStatus(record, 'waiting');
    }
    this.#leaving.clear();
    for (const record of this.#records.values()) {
      if (record.before?.frontends !== record.desired?.frontends) this.#leaving.updateLater(record);
    }
    this.#sizes.inForce = 0;
  }

  /** A repair has succeeded. Returns what it has deleted of the record, which no batch recorded. */
  endRepair(record: Tracked): Forwarding | undefined {
    const { before } = record;
    this.#forgetBefore(record);
    return before;
  }

  #forgetBefore(record: Tracked): void {
    if (record.before === undefined) return;
    record.before = undefined;
    this.#leaving.update(record);
  }

  /** Forgets the record if it holds nothing. */
  drop(record: Tracked): void {
    const { isEmpty, key } = record;
    if (isEmpty && this.#records.get(key) === record) this.#records.delete(key);
  }

  /** Other Forwardings that have frontends of `next` (`newestOf`); usually undefined: none. */
  holders(next: Forwarding): ReadonlySet<Tracked> | undefined {
    return this.#leaving.holders(next);
  }
}

/** What it is planned to have; in a repair that has not come to it, what it had before. */
export function newestOf({ before, planned }: Tracked): Forwarding | undefined {
  return planned ?? before;
}

/** Of the cluster's DNS and its other parts, or of the API servers. */
function isUrgent({ key }: Tracked): boolean {
  return key.startsWith(ofSystem) || key.startsWith(`${apiServers}:`);
}

type Form = 'desired' | 'inForce';

class FormView implements ForwardingsByKey {
  readonly #form: Form;
  readonly #records: ReadonlyMap<string, Tracked>;
  readonly #sizes: Readonly<Record<Form, number>>;

  constructor(
    form: Form,
    records: ReadonlyMap<string, Tracked>,
    sizes: Readonly<Record<Form, number>>,
  ) {
    this.#form = form;
    this.#records = records;
    this.#sizes = sizes;
  }

  get size(): number {
    return this.#sizes[this.#form];
  }

  get(key: string): Forwarding | undefined {
    return this.#records.get(key)?.[this.#form];
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  *values(): Generator<Forwarding> {
    for (const [, forwarding] of this) yield forwarding;
  }

  *[Symbol.iterator](): Generator<readonly [string, Forwarding]> {
    for (const [key, { [this.#form]: forwarding }] of this.#records) {
      if (forwarding !== undefined) yield [key, forwarding];
    }
  }
}

/**
 * The frontends that Forwardings have (`newestOf`) and that are not desired of them. No frontend
 * is ever desired of two Forwardings, so that these are the only ones that another can be in the
 * way of.
 */
class LeavingFrontends {
  /** By protocol and frontend, who has it. */
  readonly #holders = { TCP: newHolders(), UDP: newHolders(), SCTP: newHolders() } as const;
  readonly #of = new Map<Tracked, readonly FrontendKey[]>();
  /** Those to be updated. A Service may have 20,000, which takes 15 ms. */
  #late: Tracked[] = [];

  updateLater(record: Tracked): void {
    if (this.#late.at(-1) !== record) this.#late.push(record);
  }

  /** Updates some of those that are late. */
  catchUp(most: number): void {
    for (let left = most; left > 0; left -= 1) {
      const record = this.#late.pop();
      if (record === undefined) return;
      this.update(record);
    }
  }

  /** To be called after each change of what is planned. */
  update(record: Tracked): void {
    const { desired } = record;
    const had = newestOf(record);
    if (this.#of.size > 0) this.#remove(record);
    if (had === undefined || desired === had) return;
    const left = missing(had.frontends, desired?.frontends ?? []);
    if (left.length === 0) return;
    this.#of.set(record, left);
    const holders = this.#holders[had.servicePort.protocol];
    for (const key of left) holders.set(key, record);
  }

  #remove(record: Tracked): void {
    const left = this.#of.get(record);
    if (left === undefined) return;
    this.#of.delete(record);
    for (const holders of Object.values(this.#holders)) {
      if (holders.size === 0) continue;
      for (const key of left) if (holders.get(key) === record) holders.delete(key);
    }
  }

  holders({ frontends, key, servicePort }: Forwarding): ReadonlySet<Tracked> | undefined {
    this.catchUp(Number.POSITIVE_INFINITY);
    const leaving = this.#holders[servicePort.protocol];
    if (leaving.size === 0) return undefined;
    let holders: Set<Tracked> | undefined;
    for (const frontend of frontends) {
      const holder = leaving.get(frontendKey(frontend));
      if (holder !== undefined && holder.key !== key) holders = (holders ?? new Set()).add(holder);
    }
    return holders;
  }

  clear(): void {
    this.#late = [];
    this.#of.clear();
    for (const holders of Object.values(this.#holders)) holders.clear();
  }
}

function newHolders(): Map<FrontendKey, Tracked> {
  return new Map();
}

const none: readonly FrontendKey[] = [];

/** The keys of those `had` that are not among `has`. Most Forwardings have one. */
function missing(had: readonly Frontend[], has: readonly Frontend[]): readonly FrontendKey[] {
  if (had === has || areSame(had, has)) return none;
  if (had.length === 1 && has.length < 2) return [frontendKey(had[0]!)];
  const kept = new Set(has.map(frontendKey));
  return had.map(frontendKey).filter((key) => !kept.has(key));
}

function areSame(some: readonly Frontend[], others: readonly Frontend[]): boolean {
  if (some.length !== others.length) return false;
  return some.every(({ address, port }, i) => {
    const other = others[i]!;
    return address?.key === other.address?.key && port === other.port;
  });
}
