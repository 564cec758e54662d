/** The frontends whose connections do not take the fast path. */
import { IPPROTO } from '../kernel/nft/constants.ts';
import { binary, destinationKey } from '../modes/elements.ts';
import type { Family } from '../net/address.ts';
import type { ClusterState } from '../state/store.ts';
import { type ForwardingsByKey, forwardingKey, type Service } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import type { Pause } from '../time/pacer.ts';

/** Keys of frontends, as `binary` has them. */
export type Excluded = Readonly<Record<Family | 'nodePort', ReadonlySet<string>>>;

/** What is desired of a family. */
interface DesiredFamily {
  readonly family: Family;
  readonly desired: ForwardingsByKey;
}

export interface ExcludedServicesOptions {
  readonly state: Pick<ClusterState, 'service' | 'serviceKeys'>;
  /** The desired Forwardings of each family that is served. */
  readonly agent: { readonly families: Iterable<DesiredFamily> };
  readonly clock: Clock;
}

/** The longest wait for Services that are not resolved yet. */
const resolvingMs = 10_000;

/** The Services whose connections do not take the fast path. */
export class ExcludedServices {
  readonly #options: ExcludedServicesOptions;
  readonly #services = new Map<string, Service>();
  /** `Clock.now` until which they are waited for; undefined: they were not looked for yet. */
  #resolvingUntilMs: number | undefined;

  constructor(options: ExcludedServicesOptions) {
    this.#options = options;
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
    const has = service !== undefined && isExcluded(service) ? service : undefined;
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
    return [...this.#services.values()].some((service) => !isResolved(service, all));
  }

  frontends(pause: Pause): Promise<Excluded> {
    return excludedBy([...this.#services.values()], [...this.#options.agent.families], pause);
  }
}

/**
 * Whether no connection of the Service takes the fast path: by its annotation, or because it asks
 * that they are ended, which the kernel refuses for those that take it.
 */
function isExcluded({ endings, isFastPathOff }: Service): boolean {
  const isEnding = endings?.endAfterMs !== undefined || endings?.maxAgeMs !== undefined;
  return isFastPathOff === true || isEnding;
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

/** The most frontends of one namespace that are left out of the fast path. */
export const excludedMax = 20_000;

/**
 * Keys of the frontends that these Services have. What a Service only asks for is another's, or is
 * beyond its limits: 2,000 ports at 1,500 external IPs are three million.
 */
export async function excludedBy(
  services: readonly Service[],
  families: readonly DesiredFamily[],
  pause: Pause,
): Promise<Excluded> {
  const keys = { IPv4: new Set<string>(), IPv6: new Set<string>(), nodePort: new Set<string>() };
  const left = new Map<string, number>();
  for (const { name, namespace, ports } of services) {
    let room = left.get(namespace) ?? excludedMax;
    for (const { name: port, protocol } of ports) {
      const key = forwardingKey({ namespace, name, port, protocol });
      for (const { desired, family } of families) {
        for (const frontend of desired.get(key)?.frontends ?? []) {
          if (room === 0) break;
          room -= 1;
          const { address } = frontend;
          const to = keys[address === undefined ? 'nodePort' : family];
          to.add(binary(destinationKey(address, IPPROTO[protocol], frontend.port)));
          const rest = pause();
          if (rest !== undefined) await rest;
        }
      }
      const rest = pause();
      if (rest !== undefined) await rest;
    }
    left.set(namespace, room);
  }
  return keys;
}
