/** Which Forwarding owns each frontend of one family, in force or planned. */
import type { Protocol } from '../net/protocol.ts';
import { type FrontendKey, frontendKey } from '../state/frontend-key.ts';
import type { Forwarding } from '../state/types.ts';

type Owned = Map<FrontendKey, string>;

const nobody: ReadonlySet<string> = new Set();

/**
 * No two Forwardings that a planner was told of may hold the same frontend: when one of them
 * released it, the frontend of the other would be deleted. Before a Forwarding is planned,
 * `holders` tells which others must yield frontends to it in the same batch.
 */
export class FrontendOwners {
  #owned: Readonly<Record<Protocol, Owned>> = noneOwned();

  /** The Forwardings (keys) that hold frontends of `next`, other than itself; usually none. */
  holders(next: Forwarding): ReadonlySet<string> {
    const { frontends, key, servicePort } = next;
    const owned = this.#owned[servicePort.protocol];
    let holders: Set<string> | undefined;
    for (const frontend of frontends) {
      const owner = owned.get(frontendKey(frontend)) ?? key;
      if (owner !== key) holders = (holders ?? new Set()).add(owner);
    }
    return holders ?? nobody;
  }

  /** Records the change of one Forwarding, which becomes the owner of all its frontends. */
  moved(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    if (previous !== undefined) this.#release(previous);
    if (next !== undefined) this.#claim(next);
  }

  /** The Forwarding without the frontends of others; itself when there are none. */
  withoutOthers(forwarding: Forwarding): Forwarding {
    const { key, servicePort } = forwarding;
    const owned = this.#owned[servicePort.protocol];
    return restricted(forwarding, (frontend) => (owned.get(frontend) ?? key) === key);
  }

  clear(): void {
    this.#owned = noneOwned();
  }

  #release({ key, servicePort, frontends }: Forwarding): void {
    const owned = this.#owned[servicePort.protocol];
    for (const frontend of frontends) {
      const id = frontendKey(frontend);
      if (owned.get(id) === key) owned.delete(id);
    }
  }

  #claim({ key, servicePort, frontends }: Forwarding): void {
    const owned = this.#owned[servicePort.protocol];
    for (const frontend of frontends) owned.set(frontendKey(frontend), key);
  }
}

function noneOwned(): Readonly<Record<Protocol, Owned>> {
  return { TCP: new Map(), UDP: new Map(), SCTP: new Map() };
}

/** `holder` without the frontends that `taker` has; both of one protocol and family. */
export function yieldedTo(taker: Forwarding, holder: Forwarding): Forwarding {
  const taken = new Set(taker.frontends.map(frontendKey));
  return restricted(holder, (frontend) => !taken.has(frontend));
}

function restricted(forwarding: Forwarding, keep: (frontend: FrontendKey) => boolean): Forwarding {
  const frontends = forwarding.frontends.filter((frontend) => keep(frontendKey(frontend)));
  return frontends.length < forwarding.frontends.length ? { ...forwarding, frontends } : forwarding;
}
