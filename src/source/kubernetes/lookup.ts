/** Reads objects that are not kept from the API server, with the permissions of the watches. */
import type { RawObject } from '../decode/field-reader.ts';
import { serviceNameLabel } from '../decode/names.ts';
import { keyIn, objectOf, podNames, podOfSlices, readPod } from '../decode/pod.ts';
import { type FoundPod, type Lookup, LookupError } from '../lookup.ts';
import { ApiClient, type ClientOptions, type Query } from './client.ts';
import { ApiError } from './errors.ts';
import { readJson } from './json-body.ts';

const pageSize = 500;
/** A hundred thousand objects. */
const pagesMax = 200;
const pageBytesMax = 64 * 1024 * 1024;

/** Only names of Services are needed, not their labels. */
const metadataOnly = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';

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
      return readPod(objectOf(await readJson(body, pageBytesMax)));
    } catch (error) {
      if (!(error instanceof ApiError) || ![403, 404].includes(error.status)) throw failure(error);
      if (error.status === 404) {
        throw new LookupError('absence', `there is no pod ${namespace}/${name}`);
      }
    }
    return this.#podOfSlices(namespace, name, signal);
  }

  /** kube-proxy's role does not permit reading pods. EndpointSlices name those of Services. */
  async #podOfSlices(namespace: string, name: string, signal: AbortSignal): Promise<FoundPod> {
    const slices = await this.#list(slicesIn(namespace), {}, signal);
    const found = podOfSlices(slices, name);
    if (found !== undefined) return found;
    const pod = `${namespace}/${name}`;
    throw new LookupError(
      'absence',
      `pod ${pod} is not to be found: no EndpointSlice names it, and this proxy has no right to ` +
        'get pods; give its address instead, or grant it that right',
    );
  }

  async podsOf(
    namespace: string,
    service: string,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>> {
    const query = { labelSelector: `${serviceNameLabel}=${service}` };
    return podNames(await this.#list(slicesIn(namespace), query, signal));
  }

  async servicesWith(
    selector: string,
    namespace: string,
    signal: AbortSignal,
  ): Promise<ReadonlySet<string>> {
    const within = namespace === '' ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
    const query = { labelSelector: selector };
    const found = await this.#list(`/api/v1${within}/services`, query, signal, metadataOnly);
    return new Set(found.map(keyIn));
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined);
    client?.close();
  }

  async #list(
    path: string,
    query: Query,
    signal: AbortSignal,
    accept?: string,
  ): Promise<RawObject[]> {
    const items: RawObject[] = [];
    try {
      const client = await this.#open();
      let next: Query = { ...query, limit: String(pageSize) };
      for (let pages = 0; pages < pagesMax; pages += 1) {
        const url = `${path}?${new URLSearchParams(next)}`;
        const body = await client.getJSON(url, signal, accept);
        const page = objectOf(await readJson(body, pageBytesMax));
        if (Array.isArray(page.items)) items.push(...page.items.map(objectOf));
        const { continue: token } = objectOf(page.metadata);
        if (typeof token !== 'string' || token === '') return items;
        next = { ...query, limit: String(pageSize), continue: token };
      }
    } catch (error) {
      throw failure(error);
    }
    throw new LookupError('source', `${path} has more than ${pageSize * pagesMax} objects`);
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

/** The server refuses the question with a reason, or does not answer. */
function failure(error: unknown): LookupError {
  const { message, name } = error as Error;
  if (error instanceof LookupError) return error;
  if (name === 'TimeoutError') return new LookupError('source', 'the API server does not answer');
  const isAsked = error instanceof ApiError && error.status === 400;
  return new LookupError(isAsked ? 'question' : 'source', `the API server: ${message}`);
}
