/** What passes between Forwardings of Services when one of them changes. */
import type { Family } from '../net/address.ts';
import type { Claim } from './claims.ts';
import { type FrontendKey, frontendKey } from './frontend-key.ts';
import { type Forwarding, type Frontend, forwardingKey, type ServicePortName } from './types.ts';

/** The frontends that one Forwarding loses and gains. */
export interface Transfer {
  /** Key (`ns/name`) of the Service. */
  readonly service: string;
  readonly family: Family;
  /** `Forwarding.key` */
  readonly forwarding: string;
  readonly lost: ReadonlySet<FrontendKey>;
  readonly gained: readonly Frontend[];
}

/** Collects transfers between Forwardings of Services other than `but`. */
export class Transfers {
  readonly #but: string;
  readonly #of = { IPv4: new Map<ServicePortName, Gathered>(), IPv6: new Map() } as const;

  constructor(but: string) {
    this.#but = but;
  }

  add(
    family: Family,
    from: Claim | undefined,
    had: Frontend | undefined,
    to: Claim | undefined,
  ): void {
    if (from !== undefined) this.#gather(family, from)?.lost.add(frontendKey(had!));
    if (to !== undefined) this.#gather(family, to)?.gained.push(to.frontend);
  }

  all(): readonly Transfer[] {
    return [...this.#of.IPv4.values(), ...this.#of.IPv6.values()];
  }

  #gather(
    family: Family,
    { claimant: { key: service }, servicePort }: Claim,
  ): Gathered | undefined {
    if (service === this.#but) return undefined;
    const known = this.#of[family].get(servicePort);
    if (known !== undefined) return known;
    const forwarding = forwardingKey(servicePort);
    const made = { service, family, forwarding, lost: new Set<FrontendKey>(), gained: [] };
    this.#of[family].set(servicePort, made);
    return made;
  }
}

type Gathered = Transfer & { readonly lost: Set<FrontendKey>; readonly gained: Frontend[] };

/** The Forwarding after the transfer. */
export function transferred(forwarding: Forwarding, { lost, gained }: Transfer): Forwarding {
  const kept = forwarding.frontends.filter((frontend) => !lost.has(frontendKey(frontend)));
  return { ...forwarding, frontends: [...kept, ...gained] };
}
