/** EndpointSlices that are not used although they seem to be for a Service, kept to be reported. */
import type { UnusedSlice } from './types.ts';

/** The most that are kept: they are mistakes, and one writer may create many. */
const slicesMax = 1000;

const none: readonly UnusedSlice[] = [];

export class UnusedSlices {
  readonly #slices = new Map<string, UnusedSlice>();
  /** By the key of the Service. */
  readonly #byService = new Map<string, readonly UnusedSlice[]>();

  /** False if it was known, or there are too many. */
  set(slice: UnusedSlice): boolean {
    const { because, key, service } = slice;
    const known = this.#slices.get(key);
    if (known?.service === service && known.because === because) return false;
    if (known === undefined && this.#slices.size >= slicesMax) return false;
    this.delete(key);
    this.#slices.set(key, slice);
    this.#byService.set(service, [...this.of(service), slice]);
    return true;
  }

  /** Returns the key of the Service that it was for; undefined: it was not known. */
  delete(key: string): string | undefined {
    const known = this.#slices.get(key);
    if (known === undefined) return undefined;
    const { service } = known;
    this.#slices.delete(key);
    const others = this.of(service).filter((one) => one !== known);
    if (others.length === 0) this.#byService.delete(service);
    else this.#byService.set(service, others);
    return service;
  }

  of(service: string): readonly UnusedSlice[] {
    return this.#byService.get(service) ?? none;
  }
}
