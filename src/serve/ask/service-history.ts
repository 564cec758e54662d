/** The last changes of each Service, in a bounded number of bytes. */
import type { ServiceAnswer } from '../../ask/service.ts';

export type ShownChange = ServiceAnswer['changes'][number];

/** The most changes that are kept for one Service. */
const changesMax = 10;
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
 * Keeps changes as text, which takes a third of objects. Above the bound, deleted Services are
 * dropped first. Then all keep fewer changes, so that a Service that changes seldom keeps its last
 * one while others change all the time. When each keeps only one, those that changed longest ago
 * are dropped.
 */
export class ServiceHistory {
  readonly #bytesMax: number;
  /** By `namespace/name`, in the order of their last change; the texts of each, oldest first. */
  readonly #services = new Map<string, string[]>();
  #bytes = 0;
  /** The current limit of changes for one Service. */
  #most = changesMax;

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
    else if (this.#bytes < this.#bytesMax * shareRoomy) this.#most = changesMax;
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
