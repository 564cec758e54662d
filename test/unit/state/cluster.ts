/** Which Service owns which frontends, with all transfers applied. */
import { formatConflict, formatFrontend } from '../../../src/state/conflict.ts';
import { FrontendOwners, type Ownership, transferred } from '../../../src/state/frontend-owners.ts';
import { noSockets } from '../../../src/state/node-sockets.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { finish } from '../../../src/state/steps.ts';
import type { Forwarding, Service } from '../../../src/state/types.ts';
import { context } from './build.ts';

export function frontends(forwardings: readonly Forwarding[]): string[] {
  return forwardings.flatMap(({ frontends: all, servicePort }) =>
    all.map((one) => formatFrontend(servicePort.protocol, one)),
  );
}

export class Cluster {
  /** By name of the Service. */
  readonly owned = new Map<string, readonly Forwarding[]>();
  readonly owners = new FrontendOwners();
  readonly #services = new Map<string, Service>();
  readonly #sockets: typeof noSockets;
  #conflicts: string[] = [];

  constructor(sockets = noSockets) {
    this.#sockets = sockets;
  }

  set(...services: readonly Service[]): this {
    for (const of of services) {
      const result = finish(this.owners.set(of, resolve(of, [], context), this.#sockets));
      this.#services.set(of.key, of);
      this.owned.set(of.name, result.forwardings);
      this.#apply(result);
    }
    return this;
  }

  remove({ key, name }: Service): this {
    this.owned.delete(name);
    this.#services.delete(key);
    this.#apply(this.owners.release(key));
    return this;
  }

  #apply({ affected, conflicts, transfers }: Omit<Ownership, 'forwardings'>): void {
    this.#conflicts.push(...conflicts.map(formatConflict));
    for (const transfer of transfers) {
      const name = transfer.service.slice('ns/'.length);
      const next = this.owned.get(name)!.map((one) => {
        return one.key === transfer.forwarding ? transferred(one, transfer) : one;
      });
      this.owned.set(name, next);
    }
    for (const other of new Set(affected)) this.set(...(other ? [this.#services.get(other)!] : []));
  }

  /** What has been reported since the last call. */
  takeConflicts(): string[] {
    return this.#conflicts.splice(0);
  }

  of({ name }: Service): string[] {
    return frontends(this.owned.get(name) ?? []).sort();
  }

  /** Ports there, by name of the Service. */
  at(host: string): Record<string, string[]> {
    const found = [...this.owned].map(([name, of]) => {
      const own = frontends(of).filter((one) => one.includes(` ${host}:`));
      return [name, own.map((one) => one.split(':').at(-1)!).sort()] as const;
    });
    return Object.fromEntries(found.filter(([, own]) => own.length > 0));
  }
}
