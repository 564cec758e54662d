/** The last changes of what is in force, for answers and for the log at -v=4. */
import type { ChangeList } from '../../ask/service.ts';
import { EndpointFinder } from '../../net/endpoint-finder.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import { sameFrontends, sameRanges } from '../../state/equal.ts';
import { type Forwarding, serviceKey } from '../../state/types.ts';
import type { Cause } from '../../sync/cause.ts';
import type { Clock } from '../../time/clock.ts';
import { HalfMinutes } from '../half-minutes.ts';
import { type Logger, portFields } from '../log.ts';
import { ServiceHistory, type ShownChange } from './service-history.ts';

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
