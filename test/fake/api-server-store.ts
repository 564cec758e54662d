/**
 * The store of the fake API server: objects of the resources with resourceVersions, and the
 * history that watches start from. Objects are kept as the JSON text that is sent.
 */
import type { Watched } from '../../src/source/source.ts';
import { resources } from '../../src/state/change.ts';
import { Random } from '../chaos/random.ts';

export type Raw = Record<string, unknown>;

export interface StoredObject {
  readonly key: string;
  readonly json: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The fields that field selectors may use. */
  readonly fields: Readonly<Record<string, string>>;
}

export interface StoredEvent {
  readonly version: number;
  readonly before: StoredObject | undefined;
  /** Undefined = deleted. */
  readonly after: StoredObject | undefined;
  /** All that differs between the two, where that is known. */
  readonly edits?: readonly Edit[];
}

/** A string in an object, and what has taken its place. */
export interface Edit {
  readonly from: string;
  readonly to: string;
}

export type Selector = (object: StoredObject) => boolean;

export const kinds: Readonly<Record<Watched, { kind: string; apiVersion: string; path: string }>> =
  {
    services: { kind: 'Service', apiVersion: 'v1', path: '/api/v1/services' },
    endpointslices: {
      kind: 'EndpointSlice',
      apiVersion: 'discovery.k8s.io/v1',
      path: '/apis/discovery.k8s.io/v1/endpointslices',
    },
    nodes: { kind: 'Node', apiVersion: 'v1', path: '/api/v1/nodes' },
    servicecidrs: {
      kind: 'ServiceCIDR',
      apiVersion: 'networking.k8s.io/v1',
      path: '/apis/networking.k8s.io/v1/servicecidrs',
    },
    pods: { kind: 'Pod', apiVersion: 'v1', path: '/api/v1/pods' },
  };

/** What the server knows. */
export const served: readonly Watched[] = [...resources, 'pods'];

export class FakeStore {
  /**
   * The newest resourceVersion; one counter for all resources, as in etcd. It keeps its seven
   * digits for millions of changes, so that the length of an object does not change with it.
   */
  version = 1_000_000;
  readonly #historyMax: number;
  /** Versions have gaps, as in etcd; the same ones in each run. */
  readonly #gaps = new Random(1);
  readonly #shelves = new Map(
    served.map((resource) => [
      resource,
      { objects: new Map<string, StoredObject>(), events: [] as StoredEvent[], forgotten: 0 },
    ]),
  );
  /** Called for each event. */
  onEvent: (resource: Watched, event: StoredEvent) => void = () => {};

  /** `historyMax`: how many events of a resource are kept, for watches that continue. */
  constructor(historyMax = 40_000) {
    this.#historyMax = historyMax;
  }

  objects(resource: Watched): ReadonlyMap<string, StoredObject> {
    return this.#shelf(resource).objects;
  }

  /** Creates or replaces an object. Its kind decides about the resource. */
  apply(raw: Raw, version = this.#next()): void {
    this.version = version;
    const resource = resourceOf(raw);
    const { objects } = this.#shelf(resource);
    const after = store(resource, raw, version);
    const before = objects.get(after.key);
    objects.set(after.key, after);
    this.#record(resource, { version, before, after });
  }

  /** Edits the text of an object. Its key, labels and fields must not change. */
  edit(resource: Watched, key: string, change: (json: string) => string): void {
    const { objects } = this.#shelf(resource);
    const before = objects.get(key);
    if (before === undefined) throw new Error(`${resource} ${key} is not there`);
    const version = this.#next();
    const after = { ...before, json: change(withVersion(before.json, version)) };
    objects.set(key, after);
    this.#record(resource, { version, before, after });
  }

  /**
   * Replaces whole strings of an object where they come first, which takes less than `edit` and the
   * encoding of the result. An empty string means none. Its key, labels and fields must not change.
   */
  replaceStrings(resource: Watched, key: string, strings: (json: string) => Edit[]): void {
    const { objects } = this.#shelf(resource);
    const before = objects.get(key);
    if (before === undefined) throw new Error(`${resource} ${key} is not there`);
    const version = this.#next();
    const [, old = ''] = versionPattern.exec(before.json) ?? [];
    const wanted = [...strings(before.json), { from: old, to: String(version) }];
    const edits = wanted.filter(({ from }) => from !== '');
    let { json } = before;
    for (const { from, to } of edits) json = json.replace(`"${from}"`, `"${to}"`);
    const after = { ...before, json };
    objects.set(key, after);
    this.#record(resource, { version, before, after, edits });
  }

  /** `key` is `namespace/name`, or the name. */
  delete(resource: Watched, key: string): void {
    const { objects } = this.#shelf(resource);
    const before = objects.get(key);
    if (before === undefined) throw new Error(`${resource} ${key} is not there`);
    objects.delete(key);
    const version = this.#next();
    const gone = store(resource, JSON.parse(before.json), version);
    this.#record(resource, { version, before: gone, after: undefined });
  }

  /** Takes an event of the store that this one is a copy of. */
  follow(resource: Watched, event: StoredEvent): void {
    const { after, before, version } = event;
    const { objects } = this.#shelf(resource);
    if (after !== undefined) objects.set(after.key, after);
    else if (before !== undefined) objects.delete(before.key);
    this.version = version;
    this.#record(resource, event);
  }

  /** Forgets the history, as a compaction of etcd does: no watch can start from before now. */
  compact(): void {
    for (const shelf of this.#shelves.values()) {
      shelf.events = [];
      shelf.forgotten = this.version;
    }
  }

  /** All objects, and what goes back to them, as etcd does that is restored: no event says so. */
  backup(): { restore(): void } {
    const { version } = this;
    const copies = [...this.#shelves].map(([resource, { objects }]) => {
      return [resource, new Map(objects)] as const;
    });
    const restore = (): void => {
      this.version = version;
      for (const [resource, objects] of copies) {
        this.#shelves.set(resource, { objects: new Map(objects), events: [], forgotten: version });
      }
    };
    return { restore };
  }

  /** Events after this version; undefined when they are forgotten. */
  since(resource: Watched, version: number): readonly StoredEvent[] | undefined {
    const { events, forgotten } = this.#shelf(resource);
    if (version < forgotten) return undefined;
    const first = events.findIndex((event) => event.version > version);
    return first < 0 ? [] : events.slice(first);
  }

  /** The newest events, oldest first. */
  latest(resource: Watched, count: number): readonly StoredEvent[] {
    return this.#shelf(resource).events.slice(-count);
  }

  #shelf(resource: Watched) {
    return this.#shelves.get(resource)!;
  }

  #next(): number {
    this.version += 1 + this.#gaps.below(3);
    return this.version;
  }

  #record(resource: Watched, event: StoredEvent): void {
    const shelf = this.#shelf(resource);
    shelf.events.push(event);
    if (shelf.events.length > this.#historyMax) {
      const dropped = shelf.events.splice(0, Math.ceil(this.#historyMax / 4));
      shelf.forgotten = dropped.at(-1)!.version;
    }
    this.onEvent(resource, event);
  }
}

const versionPattern = /"resourceVersion":"(\d+)"/;

/** The text of an object with another resourceVersion. */
export function withVersion(json: string, version: number): string {
  return json.replace(versionPattern, `"resourceVersion":"${version}"`);
}

function resourceOf(raw: Raw): Watched {
  const found = served.find((resource) => kinds[resource].kind === raw.kind);
  if (found === undefined) throw new Error(`no such kind: ${String(raw.kind)}`);
  return found;
}

function store(resource: Watched, raw: Raw, version: number): StoredObject {
  const metadata = { ...(raw.metadata as Raw), resourceVersion: String(version) };
  const { name, namespace } = metadata as { name?: string; namespace?: string };
  const { clusterIP = '', nodeName = '' } = (raw.spec ?? {}) as Raw;
  const { phase = 'Pending' } = (raw.status ?? {}) as Raw;
  return {
    key: namespace === undefined ? String(name) : `${namespace}/${name}`,
    json: JSON.stringify({ apiVersion: kinds[resource].apiVersion, ...raw, metadata }),
    labels: ((metadata as Raw).labels ?? {}) as Record<string, string>,
    fields: {
      'metadata.name': String(name),
      'metadata.namespace': String(namespace ?? ''),
      'spec.clusterIP': String(clusterIP),
      'spec.nodeName': String(nodeName),
      'status.phase': String(phase),
    },
  };
}

/** Understands `key`, `!key`, `key=value` and `key!=value`, joined by commas. */
export function parseSelectors(labelSelector: string, fieldSelector: string): Selector {
  const terms = [
    ...split(labelSelector).map((text) => ({ text, of: 'labels' as const })),
    ...split(fieldSelector).map((text) => ({ text, of: 'fields' as const })),
  ];
  return (object) =>
    terms.every(({ text, of }) => {
      const [, not = '', key = '', operator = '', value = ''] =
        /^(!?)([^!=]+)(!?=)?(.*)$/.exec(text) ?? [];
      const actual = object[of][key];
      if (operator === '') return (actual !== undefined) === (not === '');
      return (actual === value) === (operator === '=');
    });
}

function split(selector: string): string[] {
  return selector.split(',').filter((term) => term !== '');
}
