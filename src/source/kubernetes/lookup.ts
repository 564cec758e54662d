/** Reads objects that are not kept from the API server, with the permissions of the watches. */
import { objectOf, type RawObject } from '../decode/field-reader.ts';
import { serviceNameLabel } from '../decode/names.ts';
import { podNames, podOfSlices, readPod } from '../decode/pod.ts';
import { type FoundPod, type Lookup, LookupError } from '../lookup.ts';
import { ApiClient, type ClientOptions, type Query } from './client.ts';
import { isAbsence } from './errors.ts';
import { BodyTooLarge, parseBody, readBody, readJson } from './json-body.ts';

/** How many objects a page has: fewer where more take too many bytes. */
const pageSizes = [500, 100, 20, 4, 1] as const;
const objectsMax = 100_000;
const listBytesMax = 128 * 1024 * 1024;
/**
 * A page is read in one turn of the event loop: 2 MiB of EndpointSlices take 50 ms, and a tenant
 * can have megabytes of them.
 */
const pageBytesMax = 2 * 1024 * 1024;
const objectBytesMax = 16 * 1024 * 1024;

export class ApiLookup implements Lookup {
  readonly #options: ClientOptions;
  /** A separate client, so that questions never delay watches. */
  #client: Promise<ApiClient> | undefined;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  async pod(namespace: string, name: string, signal: AbortSignal): Promise<FoundPod> {
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/`;
    try {
      const client = await this.#open();
      const body = await client.getJSON(`${path}${encodeURIComponent(name)}`, signal);
      return readPod(objectOf(await readJson(body, objectBytesMax)));
    } catch (error) {
      if (!isAbsence(error)) throw failure(error, signal);
      if (error.status === 404) {
        throw new LookupError('absence', `there is no pod ${namespace}/${name}`);
      }
    }
    return this.#podOfSlices(namespace, name, signal);
  }

  /** kube-proxy's role does not permit reading pods. EndpointSlices name those of Services. */
  async #podOfSlices(namespace: string, name: string, signal: AbortSignal): Promise<FoundPod> {
    const read = (slices: readonly RawObject[]): FoundPod[] => {
      const one = podOfSlices(slices, name);
      return one === undefined ? [] : [one];
    };
    const found = await this.#list(slicesIn(namespace), {}, read, signal);
    if (found.length > 0) {
      const addresses = new Set(found.flatMap((one) => one.addresses));
      const nodeName = found.findLast((one) => one.nodeName !== '')?.nodeName ?? '';
      return { addresses: [...addresses], nodeName };
    }
    const pod = `${namespace}/${name}`;
    throw new LookupError(
      'absence',
      `cannot find pod ${pod}: no EndpointSlice names it, and this proxy is not permitted to get ` +
        'pods; give its address instead, or grant that permission',
    );
  }

  async podsOf(
    namespace: string,
    service: string,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>> {
    const query = { labelSelector: `${serviceNameLabel}=${service}` };
    const read = (slices: readonly RawObject[]) => [...podNames(slices)];
    return new Map(await this.#list(slicesIn(namespace), query, read, signal));
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined);
    client?.close();
  }

  /** What `read` makes of the objects of each page. Only that is kept. */
  async #list<T>(
    path: string,
    query: Query,
    read: (items: readonly RawObject[]) => readonly T[],
    signal: AbortSignal,
  ): Promise<T[]> {
    const found: T[] = [];
    let next = query;
    let smaller = 0;
    try {
      for (let objects = 0, bytes = 0; objects < objectsMax && bytes < listBytesMax; ) {
        const limit = pageSizes[smaller]!;
        const url = `${path}?${new URLSearchParams({ ...next, limit: String(limit) })}`;
        const page = await this.#page(url, limit, signal);
        if (page === undefined) {
          smaller += 1;
          continue;
        }
        const { items, metadata } = page.list;
        const raw = Array.isArray(items) ? items.map(objectOf) : [];
        for (const one of read(raw)) found.push(one);
        const { continue: token } = objectOf(metadata);
        if (typeof token !== 'string' || token === '') return found;
        objects += limit;
        bytes += page.bytes;
        next = { ...query, continue: token };
      }
    } catch (error) {
      throw failure(error, signal);
    }
    const reason = `${path} has more than ${objectsMax} objects, or ${listBytesMax} bytes`;
    throw new LookupError('source', reason);
  }

  /** Undefined: it has too many bytes. A page of one object may have more. */
  async #page(
    url: string,
    limit: number,
    signal: AbortSignal,
  ): Promise<{ readonly list: RawObject; readonly bytes: number } | undefined> {
    const client = await this.#open();
    const body = await client.getJSON(url, signal);
    try {
      const bytes = await readBody(body, limit === 1 ? objectBytesMax : pageBytesMax);
      return { list: objectOf(parseBody(bytes)), bytes: bytes.length };
    } catch (error) {
      if (error instanceof BodyTooLarge && limit > 1) return undefined;
      throw error;
    }
  }

  #open(): Promise<ApiClient> {
    this.#client ??= ApiClient.open(this.#options);
    this.#client.catch(() => (this.#client = undefined));
    return this.#client;
  }
}

function slicesIn(namespace: string): string {
  return `/apis/discovery.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/endpointslices`;
}

/** The server refuses with a reason, or does not answer until `signal` aborts. */
function failure(error: unknown, signal: AbortSignal): LookupError {
  if (error instanceof LookupError) return error;
  const { message, name } = (signal.aborted ? signal.reason : error) as Error;
  if (name === 'TimeoutError') return new LookupError('source', 'the API server does not answer');
  return new LookupError('source', `the API server: ${message}`);
}
