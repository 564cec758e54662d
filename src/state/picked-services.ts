/** Services that ask for something that is not a mode's. */
import type { Family } from '../net/address.ts';
import type { ClusterState } from './store.ts';
import { type ForwardingsByKey, forwardingKey, type Service } from './types.ts';

/** What is desired of a family. */
export interface DesiredFamily {
  readonly family: Family;
  readonly desired: ForwardingsByKey;
}

export interface PickedServicesOptions {
  readonly state: Pick<ClusterState, 'service' | 'serviceKeys'>;
  /** The desired Forwardings of each family that is served. */
  readonly agent: { readonly families: Iterable<DesiredFamily> };
  readonly clock: { now(): number };
}

/** The longest wait for Services that are not resolved yet. */
const resolvingMs = 10_000;

/** The Services for which `isPicked` is true. */
export class PickedServices {
  readonly #options: PickedServicesOptions;
  readonly #isPicked: (service: Service) => boolean;
  readonly #services = new Map<string, Service>();
  /** `Clock.now` until which they are waited for; undefined: they were not looked for yet. */
  #resolvingUntilMs: number | undefined;

  constructor(options: PickedServicesOptions, isPicked: (service: Service) => boolean) {
    this.#options = options;
    this.#isPicked = isPicked;
  }

  get all(): readonly Service[] {
    return [...this.#services.values()];
  }

  get(key: string): Service | undefined {
    return this.#services.get(key);
  }

  has(key: string): boolean {
    return this.#services.has(key);
  }

  clear(): void {
    this.#services.clear();
  }

  /** Finds them among all Services. */
  find(): void {
    this.clear();
    for (const key of this.#options.state.serviceKeys()) this.resolved(key);
  }

  /** A Service was resolved or deleted. */
  resolved(key: string): 'none' | 'same record' | 'another record' {
    const service = this.#options.state.service(key);
    const had = this.#services.get(key);
    const has = service !== undefined && this.#isPicked(service) ? service : undefined;
    if (has === undefined) this.#services.delete(key);
    else this.#services.set(key, has);
    if (had !== has) return 'another record';
    return has === undefined ? 'none' : 'same record';
  }

  /** Those that are not resolved are waited for again. */
  waitAgain(): void {
    this.#resolvingUntilMs = undefined;
  }

  /** Whether some are to be resolved yet: a table that is there has them. */
  get areResolving(): boolean {
    const { agent, clock } = this.#options;
    this.#resolvingUntilMs ??= clock.now() + resolvingMs;
    if (clock.now() >= this.#resolvingUntilMs) return false;
    const all = [...agent.families];
    return this.all.some((service) => !isResolved(service, all));
  }
}

/** Whether what is desired of the Service is known. */
function isResolved(
  { name, namespace, ports: [first] }: Service,
  families: readonly DesiredFamily[],
): boolean {
  if (first === undefined) return true;
  const key = forwardingKey({ namespace, name, port: first.name, protocol: first.protocol });
  return families.some(({ desired }) => desired.has(key));
}
