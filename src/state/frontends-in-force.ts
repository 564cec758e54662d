/** Which Forwarding has each frontend in the kernel, for one family. */
import type { Address, AddressKey, Family } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';
import { type FrontendKey, frontendKey, nodePortKey, rangeKey } from './frontend-key.ts';
import { hasPort, rangeIn } from './port-range.ts';
import type { Forwarding, ForwardingsByKey, Frontend, ServicePortName } from './types.ts';

/** The Service port of a packet. Unknown fields are empty. */
export interface ServedPort {
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

/** Forwardings by their frontends. */
export type Holders = ReadonlyMap<FrontendKey, Forwarding>;

/** An address of frontends. */
interface Used {
  /** Who was the last to get a frontend there. */
  by: ServicePortName;
  frontends: number;
}

/** Of the families that are served. */
export type FrontendsByFamily = Readonly<Partial<Record<Family, FrontendsInForce>>>;

export class FrontendsInForce {
  readonly family: Family;
  readonly #holders = { TCP: newHolders(), UDP: newHolders(), SCTP: newHolders() } as const;
  readonly #addresses = new Map<AddressKey, Used>();

  constructor(family: Family) {
    this.family = family;
  }

  /** All frontends of the protocol. The Map follows what is in force. */
  of(protocol: Protocol): Holders {
    return this.#holders[protocol];
  }

  /** A change has come into force. */
  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    if (previous === next) return;
    const { protocol } = (next ?? previous)!.servicePort;
    const holders = this.#holders[protocol];
    const after = previous && new Set(next?.frontends.map(frontendKey));
    for (const frontend of previous?.frontends ?? []) {
      const key = frontendKey(frontend);
      // Another one may have taken it already.
      if (after!.has(key) || holders.get(key)?.key !== previous!.key) continue;
      holders.delete(key);
      if (frontend.address !== undefined) this.#forget(frontend.address);
    }
    for (const frontend of next?.frontends ?? []) {
      const key = frontendKey(frontend);
      const before = holders.get(key);
      holders.set(key, next!);
      const { address } = frontend;
      if (address === undefined || before?.key === next!.key) continue;
      const { frontends = 0 } = this.#addresses.get(address.key) ?? {};
      const added = before === undefined ? 1 : 0;
      this.#addresses.set(address.key, { by: next!.servicePort, frontends: frontends + added });
    }
  }

  #forget({ key }: Address): void {
    const used = this.#addresses.get(key)!;
    if (used.frontends === 1) this.#addresses.delete(key);
    else used.frontends -= 1;
  }

  /** The first port of the range that has the destination's; itself if there is none. */
  firstOf<D extends Pick<Frontend, 'address' | 'port'> & { protocol: Protocol }>(
    destination: D,
  ): D {
    const { port, protocol } = destination;
    const [holders, key] = [this.#holders[protocol], frontendKey(destination)];
    const range = holders.has(key) ? undefined : rangeOf(holders, key, port);
    return range === undefined ? destination : { ...destination, port: rangeIn(range)!.port };
  }

  /** An address that has no frontend is an address of the node with a node port. */
  at({ address, port, protocol }: Destination): ServedPort {
    const { family } = this;
    const by = port === undefined && address && this.#addresses.get(address.key)?.by;
    if (by) return { family, namespace: by.namespace, service: by.name, port: '', protocol: '' };
    const holder = port === undefined ? undefined : this.holder(protocol, { address, port });
    if (holder !== undefined) return servedPortOf(holder);
    return { family, namespace: '', service: '', port: '', protocol: protocol ?? '' };
  }

  /** Node ports have no address of their own: theirs is any that no Service has with this port. */
  holder(
    protocol: Protocol | undefined,
    { address, port }: Pick<Frontend, 'address' | 'port'>,
  ): Forwarding | undefined {
    const holders = protocol && this.#holders[protocol];
    if (holders === undefined) return undefined;
    const key = frontendKey({ address, port });
    return holders.get(key) ?? rangeOf(holders, key, port) ?? holders.get(nodePortKey(port));
  }
}

/** The Forwarding with a range of ports that has this one, at the address of the key. */
export function rangeOf(holders: Holders, key: FrontendKey, port: number): Forwarding | undefined {
  const found = holders.get(rangeKey(key));
  const range = found && rangeIn(found);
  return range && hasPort(range, port) ? found : undefined;
}

export function servedPortOf({ family, servicePort }: Forwarding): ServedPort {
  const { namespace, name: service, port, protocol } = servicePort;
  return { family, namespace, service, port, protocol };
}

/** The same for the same Service port and family. */
export function servedPortKey({ family, namespace, service, port, protocol }: ServedPort): string {
  return [family, namespace, service, port, protocol].join('/');
}

function newHolders(): Map<FrontendKey, Forwarding> {
  return new Map();
}
