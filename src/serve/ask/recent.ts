/** The last changes of what is in force, for answers and for the log at -v=4. */
import type { ChangeList } from '../../ask/service.ts';
import type { EndpointKey, EndpointList } from '../../net/endpoint-list.ts';
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
    const one = next ?? previous;
    if (one === undefined || previous === next) return;
    const { clock, log } = this.#options;
    const endpoints = poolDifference(previous && poolOf(previous), next && poolOf(next));
    const also = previous && next ? otherDifferences(previous, next) : nothingElse;
    const isChange = previous !== undefined && next !== undefined;
    if (isChange && also.length === 0 && endpoints.added + endpoints.removed === 0) return;
    const { name, namespace, port, protocol } = one.servicePort;
    const latencyMs = cause && clock.now() - cause.receivedMs;
    const change: ShownChange = {
      time: new Date(clock.wallMs()).toISOString(),
      port,
      protocol,
      family: one.family,
      what: isChange ? 'changed' : next === undefined ? 'went' : 'came',
      before: endpoints.before,
      after: endpoints.after,
      added: endpoints.addedTexts,
      removed: endpoints.removedTexts,
      also,
      latencyMs: latencyMs && Math.round(latencyMs * 10) / 10,
    };
    this.#ring[this.#next] = { namespace, service: name, ...change };
    this.#next = (this.#next + 1) % changesMax;
    this.#lately.add(1);
    this.#history.add(serviceKey(one.servicePort), change);
    if (!log.isLevelEnabled('trace')) return;
    const { port: _, protocol: __, time: ___, ...facts } = change;
    const fields = { ...portFields(one.servicePort), ...facts, latencyMs };
    log.trace(fields, 'Service port changed in the kernel');
  }

  /** Their number in each half minute of the last ten minutes, the oldest first. */
  lately(): readonly number[] {
    return this.#lately.read();
  }

  /** How many changes of a Service are known. */
  countOf(service: string): number {
    return this.#history.countOf(service);
  }

  /** The last ten changes of a Service (`namespace/name`), newest first. */
  of(service: string): ShownChange[] {
    return this.#history.of(service);
  }

  /** The changes of all Services, newest first. */
  *lastFirst(): Generator<RecentChange> {
    const { length } = this.#ring;
    for (let i = 1; i <= length; i += 1) yield this.#ring[(this.#next - i + length) % length]!;
  }
}

/** The endpoints in use: those of policy Local if only that pool is in use. */
function poolOf({ cluster, local }: Forwarding) {
  return cluster.length > 0 ? cluster : local;
}

type Also = readonly ('frontends' | 'session affinity' | 'source ranges')[];

const nothingElse: Also = [];

function otherDifferences(a: Forwarding, b: Forwarding): Also {
  const hasSameFrontends = sameFrontends(a.frontends, b.frontends);
  const hasSameAffinity = a.affinityTimeoutSeconds === b.affinityTimeoutSeconds;
  const hasSameRanges = a.guardsAll === b.guardsAll && sameRanges(a.sourceRanges, b.sourceRanges);
  if (hasSameFrontends && hasSameAffinity && hasSameRanges) return nothingElse;
  return [
    ...(hasSameFrontends ? [] : (['frontends'] as const)),
    ...(hasSameAffinity ? [] : (['session affinity'] as const)),
    ...(hasSameRanges ? [] : (['source ranges'] as const)),
  ];
}

interface PoolDifference {
  readonly before: number;
  readonly after: number;
  readonly added: number;
  readonly removed: number;
  /** The first few added endpoints: `10.0.0.1:8080`. */
  readonly addedTexts: readonly string[];
  readonly removedTexts: readonly string[];
}

/** The most endpoints that an answer names. */
const namedMax = 4;

const none: readonly string[] = [];

/**
 * Undefined = no pool before or after; then endpoints are only counted. Pools keep their order, so
 * long pools, too, differ at few indexes.
 */
function poolDifference(
  before: EndpointList | undefined,
  after: EndpointList | undefined,
): PoolDifference {
  if (before === undefined || after === undefined || before.equals(after)) {
    const [had, has] = [before?.length ?? 0, after?.length ?? 0];
    const [added, removed] = before && after ? [0, 0] : [has, had];
    return { before: had, after: has, added, removed, addedTexts: none, removedTexts: none };
  }
  const gone = new Map<EndpointKey, number>();
  const come = new Map<EndpointKey, number>();
  const changed = before.changedAt(after);
  for (let i = before.length; i < after.length; i += 1) changed.push(i);
  for (const i of changed) {
    const [was, is] = [keyAt(before, i), keyAt(after, i)];
    if (was !== undefined && !come.delete(was)) gone.set(was, i);
    if (is !== undefined && !gone.delete(is)) come.set(is, i);
  }
  return {
    before: before.length,
    after: after.length,
    added: come.size,
    removed: gone.size,
    addedTexts: named(after, come),
    removedTexts: named(before, gone),
  };
}

function keyAt(list: EndpointList, index: number): EndpointKey | undefined {
  return index < list.length ? list.key(index) : undefined;
}

function named(list: EndpointList, at: ReadonlyMap<EndpointKey, number>): string[] {
  return [...at.values()].slice(0, namedMax).map((index) => list.text(index));
}
