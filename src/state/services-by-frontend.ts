/** Which Service port has a frontend in the kernel. */
import type { Address, AddressKey, Family } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';
import { frontendKey, nodePortKey } from './frontend-key.ts';
import type { Forwarding, ForwardingsByKey } from './types.ts';

/** The Service port of a packet. Unknown fields are empty. */
export interface Whom {
  readonly family: Family;
  readonly namespace: string;
  readonly service: string;
  /** The name of the Service's port. */
  readonly port: string;
  readonly protocol: string;
}

/** The Forwardings that are in force. */
export interface ProgrammedFamily {
  readonly family: Family;
  readonly inForce: ForwardingsByKey;
}

/** What a client connects to. */
export interface Destination {
  /** Undefined for a node port, at whatever address. */
  readonly address: Address | undefined;
  /** Undefined: any of the address. */
  readonly port: number | undefined;
  readonly protocol: Protocol | undefined;
}

export class ServicesByFrontend {
  readonly #family: Family;
  readonly #ports = new Map<string, Whom>();
  readonly #addresses = new Map<AddressKey, Whom>();

  /** `pause` yields to the event loop when it returns a promise. */
  static async from(
    family: Family,
    forwardings: Iterable<Forwarding>,
    pause: () => Promise<void> | undefined,
  ): Promise<ServicesByFrontend> {
    const services = new ServicesByFrontend(family);
    for (const forwarding of forwardings) {
      services.#add(forwarding);
      const rest = pause();
      if (rest !== undefined) await rest;
    }
    return services;
  }

  private constructor(family: Family) {
    this.#family = family;
  }

  #add({ servicePort, frontends }: Forwarding): void {
    const { namespace, name: service, port, protocol } = servicePort;
    const family = this.#family;
    const whom = { family, namespace, service, port, protocol };
    const whole = { family, namespace, service, port: '', protocol: '' };
    for (const frontend of frontends) {
      this.#ports.set(`${protocol} ${frontendKey(frontend)}`, whom);
      if (frontend.address !== undefined) this.#addresses.set(frontend.address.key, whole);
    }
  }

  /** An address that has no frontend is an address of the node with a node port. */
  at({ address, port, protocol }: Destination): Whom {
    const unknown = { namespace: '', service: '', port: '', protocol: protocol ?? '' };
    const none = { family: this.#family, ...unknown };
    if (port === undefined) {
      return (address && this.#addresses.get(address.key)) ?? none;
    }
    return (
      this.#ports.get(`${protocol} ${frontendKey({ address, port })}`) ??
      this.#ports.get(`${protocol} ${nodePortKey(port)}`) ??
      none
    );
  }
}
