/**
 * All sockets of the mode: what listens now, and the connections that are carried. They belong to
 * the process, and outlive the planners that come and go with the configuration.
 */
import { getSystemErrorMessage } from 'node:util';
import { type Family, formatAddress } from '../../net/address.ts';
import type { Protocol } from '../../net/protocol.ts';
import { formatFrontend } from '../../state/conflict.ts';
import { Balancer } from './balancer.ts';
import { Connections, type Endpoint } from './connection.ts';
import { frontendId, type ServedFrontend } from './frontends.ts';
import type { Listener } from './listener.ts';
import { Memories } from './memory.ts';
import { TCPListener } from './tcp-listener.ts';
import { UDPListener } from './udp-listener.ts';

/** Why nothing listens. */
export interface Refusal {
  /** Symbolic errno. */
  readonly code: string;
  readonly message: string;
  /** The next attempt would end the same. */
  readonly isLasting: boolean;
}

/** What batches and planners have to do with sockets. */
export type Sockets = Pick<
  Switchboard,
  'get' | 'frontends' | 'open' | 'update' | 'close' | 'isBusy'
>;

/** Names the address and port, which the words of a system call need not do. */
function refusalOf(frontend: ServedFrontend, error: NodeJS.ErrnoException): Refusal {
  const { protocol, port } = frontend;
  const { code = 'EIO', errno, message } = error;
  const words = errno === undefined ? message : getSystemErrorMessage(errno);
  const isPrivileged = code === 'EACCES' && port < 1024;
  const hint = isPrivileged ? ': ports below 1024 need CAP_NET_BIND_SERVICE' : '';
  const said = `listen on ${formatFrontend(protocol, frontend)}: ${words} (${code})${hint}`;
  return { code, message: said, isLasting: false };
}

export class Switchboard {
  readonly #listeners = new Map<string, Listener>();
  readonly #connections = new Connections();
  readonly #memories = new Memories();

  get(id: string): ServedFrontend | undefined {
    return this.#listeners.get(id)?.frontend;
  }

  /** What listens for a family. */
  *frontends(family: Family): Generator<ServedFrontend> {
    for (const { frontend } of this.#listeners.values()) {
      if (frontend.address.family === family) yield frontend;
    }
  }

  /** Listens; what listens already is left alone. Undefined = it does. */
  async open(frontend: ServedFrontend): Promise<Refusal | undefined> {
    if (this.#listeners.has(frontend.id)) return undefined;
    if (frontend.protocol === 'SCTP') {
      const message = 'mode userspace has no sockets for SCTP';
      return { code: 'EPROTONOSUPPORT', message, isLasting: true };
    }
    try {
      this.#listeners.set(frontend.id, await this.#listen(frontend, frontend.protocol));
      return undefined;
    } catch (error) {
      return refusalOf(frontend, error as NodeJS.ErrnoException);
    }
  }

  update(frontend: ServedFrontend): void {
    this.#listeners.get(frontend.id)?.update(frontend);
  }

  close(id: string): void {
    this.#listeners.get(id)?.close();
    this.#listeners.delete(id);
  }

  /** Whether connections to this address are carried. */
  isBusy(bytes: Uint8Array): boolean {
    return this.#connections.isAnyTo(formatAddress(bytes));
  }

  /** Ends all, connections too. */
  closeAll(): void {
    for (const id of [...this.#listeners.keys()]) this.close(id);
    this.#connections.endAll();
  }

  async #listen(frontend: ServedFrontend, protocol: Exclude<Protocol, 'SCTP'>): Promise<Listener> {
    const isOwn = ({ pool, index }: Endpoint): boolean => {
      const address = { family: pool.family, bytes: pool.address(index) };
      return this.#listeners.has(frontendId(address, protocol, pool.port(index)));
    };
    const balancer = new Balancer(frontend, this.#memories);
    try {
      return protocol === 'TCP'
        ? await TCPListener.open(balancer, this.#connections, isOwn)
        : await UDPListener.open(balancer, isOwn);
    } catch (error) {
      balancer.close();
      throw error;
    }
  }
}
