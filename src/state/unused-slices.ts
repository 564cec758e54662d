/** EndpointSlices that are not used although they seem to be for a Service, kept to be reported. */
import { addCount } from '../net/counts.ts';
import { namespaceOf, type UnusedSlice } from './types.ts';

/**
 * The most that are kept, of one namespace and of all: they are mistakes, and one writer may create
 * many.
 */
const slicesMax = { namespace: 100, all: 1000 } as const;

const none: readonly UnusedSlice[] = [];
const noServices: readonly string[] = [];

export class UnusedSlices {
  readonly #slices = new Map<string, UnusedSlice>();
  /** By the key of the Service. */
  readonly #byService = new Map<string, readonly UnusedSlice[]>();
  readonly #inNamespace = new Map<string, number>();

  /** Keys of the Services whose slices change: none if it was known, or there are too many. */
  set(slice: UnusedSlice): readonly string[] {
    const { because, key, service } = slice;
    const known = this.#slices.get(key);
    if (known?.service === service && known.because === because) return noServices;
    const namespace = namespaceOf(key);
    const own = this.#inNamespace.get(namespace) ?? 0;
    const isFull = own >= slicesMax.namespace || this.#slices.size >= slicesMax.all;
    if (known === undefined && isFull) return noServices;
    const before = this.delete(key);
    this.#slices.set(key, slice);
    addCount(this.#inNamespace, namespace);
    this.#byService.set(service, [...this.of(service), slice]);
    return before === undefined ? [service] : [service, before];
  }

  /** Returns the key of the Service that it was for; undefined: it was not known. */
  delete(key: string): string | undefined {
    const known = this.#slices.get(key);
    if (known === undefined) return undefined;
    const { service } = known;
    this.#slices.delete(key);
    addCount(this.#inNamespace, namespaceOf(key), -1);
    const others = this.of(service).filter((one) => one !== known);
    if (others.length === 0) this.#byService.delete(service);
    else this.#byService.set(service, others);
    return service;
  }

  of(service: string): readonly UnusedSlice[] {
    return this.#byService.get(service) ?? none;
  }
}
