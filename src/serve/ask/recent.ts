/** The last changes of what is in force, for answers and for the log at -v=4. */
import type { ChangeList, ServiceAnswer } from '../../ask/service.ts';
import { EndpointFinder } from '../../net/endpoint-finder.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import { sameFrontends, sameRanges } from '../../state/equal.ts';
import { type Forwarding, serviceKey } from '../../state/types.ts';
import type { Cause } from '../../sync/cause.ts';
import type { Clock } from '../../time/clock.ts';
import { HalfMinutes } from '../half-minutes.ts';
import { type Logger, portFields } from '../log.ts';

/** A change of one Service port in one family, as answers have it. */
type RecentChange = ChangeList['items'][number];

/** The most changes that are kept. */
const changesMax = 1000;

/** Changes wait until a caller asks, or for others: each alone would find cold caches. */
const waitingMax = 64;

/** Of Service ports with more endpoints, what they had would take memory while it waits. */
const waitingEndpointsMax = 1024;

/** A change that came into force. */
interface Applied {
  readonly previous: Forwarding | undefined;
  readonly next: Forwarding | undefined;
  readonly wallMs: number;
  readonly latencyMs: number | undefined;
}

export interface RecentOptions {
  readonly clock: Pick<Clock, 'now' | 'wallMs'>;
  readonly log: Logger;
}

export class RecentChanges {
  readonly #options: RecentOptions;
  /** A ring when full: the next change replaces the oldest. */
  readonly #ring: RecentChange[] = [];
  #next = 0;
  readonly #history = new ServiceHistory();
  readonly #lately: HalfMinutes;
  #waiting: Applied[] = [];

  constructor(options: RecentOptions) {
    this.#options = options;
    this.#lately = new HalfMinutes(options.clock);
  }

  /** Records that `next` has replaced `previous` in force. */
  changed(
    previous: Forwarding | undefined,
    next: Forwarding | undefined,
    cause: Cause | undefined,
  ): void {
    if (previous === next) return;
    const { clock, log } = this.#options;
    const latencyMs = cause && clock.now() - cause.receivedMs;
    const waiting = this.#waiting.push({ previous, next, wallMs: clock.wallMs(), latencyMs });
    this.#lately.add(1);
    const isLarge = (previous ?? next)!.cluster.length > waitingEndpointsMax;
    if (waiting === waitingMax || isLarge || log.isLevelEnabled('trace')) this.#catchUp();
  }

  #catchUp(): void {
    for (const one of this.#waiting) this.#describe(one);
    this.#waiting = [];
  }

  #describe({ previous, next, wallMs, latencyMs }: Applied): void {
    const one = (next ?? previous)!;
    const [before, after] = [previous && poolOf(previous), next && poolOf(next)];
    const [added, removed] = [missing(after, before), missing(before, after)];
    const also = previous && next ? otherDifferences(previous, next) : [];
    const isChange = previous !== undefined && next !== undefined;
    if (isChange && also.length === 0 && added.count + removed.count === 0) return;
    const { name, namespace, port, protocol } = one.servicePort;
    const change: ShownChange = {
      time: new Date(wallMs).toISOString(),
      port,
      protocol,
      family: one.family,
      what: isChange ? 'changed' : next === undefined ? 'went' : 'came',
      before: before?.length ?? 0,
      after: after?.length ?? 0,
      added: added.texts,
      removed: removed.texts,
      also,
      latencyMs: latencyMs && Math.round(latencyMs * 10) / 10,
    };
    this.#ring[this.#next] = { namespace, service: name, ...change };
    this.#next = (this.#next + 1) % changesMax;
    this.#history.add(serviceKey(one.servicePort), change);
    if (!this.#options.log.isLevelEnabled('trace')) return;
    const { port: _, protocol: __, time: ___, ...facts } = change;
    const fields = { ...portFields(one.servicePort), ...facts, latencyMs };
    this.#options.log.trace(fields, 'Service port changed in the kernel');
  }

  /** Their number in each half minute of the last ten minutes, the oldest first. */
  lately(): readonly number[] {
    return this.#lately.read();
  }

  /** How many changes of a Service are known. */
  countOf(service: string): number {
    this.#catchUp();
    return this.#history.countOf(service);
  }

  /** The last ten changes of a Service (`namespace/name`), newest first. */
  of(service: string): ShownChange[] {
    this.#catchUp();
    return this.#history.of(service);
  }

  /** The changes of all Services, newest first. */
  *lastFirst(): Generator<RecentChange> {
    this.#catchUp();
    const { length } = this.#ring;
    for (let i = 1; i <= length; i += 1) yield this.#ring[(this.#next - i + length) % length]!;
  }
}

/** The endpoints in use: those of policy Local if only that pool is in use. */
function poolOf({ cluster, local }: Forwarding) {
  return cluster.length > 0 ? cluster : local;
}

type Also = ('frontends' | 'session affinity' | 'source ranges')[];

function otherDifferences(a: Forwarding, b: Forwarding): Also {
  const found: Also = [];
  if (!sameFrontends(a.frontends, b.frontends)) found.push('frontends');
  if (a.affinityTimeoutSeconds !== b.affinityTimeoutSeconds) found.push('session affinity');
  const hasSameRanges = a.guardsAll === b.guardsAll && sameRanges(a.sourceRanges, b.sourceRanges);
  if (!hasSameRanges) found.push('source ranges');
  return found;
}

/** The most endpoints that an answer names. */
const namedMax = 4;

/** The endpoints of `list` that `other` lacks; without another pool they are only counted. */
function missing(list: EndpointList | undefined, other: EndpointList | undefined) {
  if (list === undefined || other === undefined) return { count: list?.length ?? 0, texts: [] };
  const found = new EndpointFinder(other).missing(list);
  return { count: found.length, texts: found.slice(0, namedMax).map((i) => list.text(i)) };
}

export type ShownChange = ServiceAnswer['changes'][number];

/** The most changes that are kept for one Service. */
const serviceChangesMax = 10;
/** The bound of all Services: 8,000 Services with one change each take three quarters. */
const defaultBytesMax = 4 * 1024 * 1024;
/** The share of the bound that remains in use after it was exceeded. */
const shareKept = 0.75;
/** Below this share of the bound, Services keep all their changes again. */
const shareRoomy = 0.5;
/** A string and its slot in a list. */
const bytesOfEntry = 32;
/** A list, its key, and their slot in the map. */
const bytesOfService = 280;

/**
 * The last changes of each Service, in a bounded number of bytes: as text, which takes a third of
 * objects. Above the bound, deleted Services are dropped first. Then all keep fewer changes, so
 * that a Service that changes seldom keeps its last one while others change all the time. When each
 * keeps only one, those that changed longest ago are dropped.
 */
export class ServiceHistory {
  readonly #bytesMax: number;
  /** By `namespace/name`, in the order of their last change; the texts of each, oldest first. */
  readonly #services = new Map<string, string[]>();
  #bytes = 0;
  /** The current limit of changes for one Service. */
  #most = serviceChangesMax;

  constructor(bytesMax = defaultBytesMax) {
    this.#bytesMax = bytesMax;
  }

  /** Estimated bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  add(service: string, change: ShownChange): void {
    let texts = this.#services.get(service);
    if (texts === undefined) {
      texts = [];
      this.#bytes += bytesOfService;
    } else this.#services.delete(service);
    this.#services.set(service, texts);
    const text = encode(change);
    texts.push(text);
    this.#bytes += text.length + bytesOfEntry;
    if (texts.length > this.#most) this.#dropOldest(texts);
    if (this.#bytes > this.#bytesMax) this.#shrink();
    else if (this.#bytes < this.#bytesMax * shareRoomy) this.#most = serviceChangesMax;
  }

  countOf(service: string): number {
    return this.#services.get(service)?.length ?? 0;
  }

  /** The changes of a Service, newest first. */
  of(service: string): ShownChange[] {
    return (this.#services.get(service) ?? []).toReversed().map(decode);
  }

  #dropOldest(texts: string[]): void {
    this.#bytes -= texts.shift()!.length + bytesOfEntry;
  }

  #forget(service: string, texts: string[]): void {
    while (texts.length > 0) this.#dropOldest(texts);
    this.#bytes -= bytesOfService;
    this.#services.delete(service);
  }

  #shrink(): void {
    const target = this.#bytesMax * shareKept;
    for (const [service, texts] of this.#services) {
      if (texts.at(-1)!.includes(wentText)) this.#forget(service, texts);
    }
    while (this.#bytes > target && this.#most > 1) {
      this.#most -= 1;
      for (const texts of this.#services.values()) {
        if (texts.length > this.#most) this.#dropOldest(texts);
      }
    }
    for (const [service, texts] of this.#services) {
      if (this.#bytes <= target) return;
      this.#forget(service, texts);
    }
  }
}

/** Matches in the text of a change: names of ports have no quotes. */
const wentText = ',"went",';

/** In the order of the text, after the time in milliseconds: their names would take most of it. */
const fieldNames = [
  ...(['port', 'protocol', 'family', 'what', 'before', 'after'] as const),
  ...(['added', 'removed', 'also', 'latencyMs'] as const),
] satisfies (keyof ShownChange)[];

function encode(change: ShownChange): string {
  return JSON.stringify([Date.parse(change.time), ...fieldNames.map((name) => change[name])]);
}

function decode(text: string): ShownChange {
  const [timeMs, ...values] = JSON.parse(text);
  const fields = fieldNames.map((name, i) => [name, values[i] ?? undefined]);
  const time = new Date(timeMs).toISOString();
  return { time, ...Object.fromEntries(fields) } as ShownChange;
}
