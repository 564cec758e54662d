/**
 * Sockets that listen, and those of their connections. They belong to the process, and stay when a
 * change of configuration replaces planners.
 */
import { getSystemErrorMessage } from 'node:util';
import { untilLocal } from '../../kernel/local-routes.ts';
import { Address, type Family, formatAddress } from '../../net/address.ts';
import type { Protocol } from '../../net/protocol.ts';
import { formatFrontend } from '../../state/conflict.ts';
import { endedBy } from '../../state/endings.ts';
import { type Forwarding, forwardingId } from '../../state/types.ts';
import { Balancer } from './balancer.ts';
import { Connections, type Endpoint } from './connection.ts';
import { type Claim, Descriptors } from './descriptors.ts';
import { frontendId, type Listener, type ServedFrontend } from './frontends.ts';
import { Memories } from './memory.ts';
import { TCPListener } from './tcp-listener.ts';
import { Traffic } from './traffic.ts';
import { UDPListener } from './udp-listener.ts';

/** Why a socket could not be opened. */
export interface Refusal {
  /** Symbolic errno. */
  readonly code: string;
  readonly message: string;
  /** Another attempt would fail too. */
  readonly isLasting: boolean;
}

/** What batches and planners need of the Switchboard. */
export type Sockets = Pick<
  Switchboard,
  'get' | 'frontends' | 'untilLocal' | 'open' | 'update' | 'close' | 'isBusy'
>;

/** The error of a system call, with the address and port that it may not name. */
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
  /** Those of listeners, with the same keys. */
  readonly #claims = new Map<string, Claim>();
  readonly #descriptors: Descriptors;
  readonly #connections = new Connections();
  readonly #memories = new Memories();
  readonly traffic = new Traffic();

  constructor(descriptors = new Descriptors()) {
    this.#descriptors = descriptors;
  }

  get(id: string): ServedFrontend | undefined {
    return this.#listeners.get(id)?.frontend;
  }

  /** The frontends of a family that sockets listen for. */
  *frontends(family: Family): Generator<ServedFrontend> {
    for (const { frontend } of this.#listeners.values()) {
      if (frontend.address.family === family) yield frontend;
    }
  }

  /** Waits for IPv6 addresses that have just been bound; see `kernel/local-routes.ts`. */
  readonly untilLocal = untilLocal;

  /** Opens a socket for the frontend, unless it has one. Resolves to undefined on success. */
  async open(frontend: ServedFrontend): Promise<Refusal | undefined> {
    if (this.#listeners.has(frontend.id)) return undefined;
    if (frontend.protocol === 'SCTP') {
      const message = 'there are no sockets for SCTP';
      return { code: 'EPROTONOSUPPORT', message, isLasting: true };
    }
    const claim = this.#descriptors.listen();
    if (claim === undefined) return this.#noRoom(frontend);
    try {
      this.#listeners.set(frontend.id, await this.#listen(frontend, frontend.protocol));
      this.#claims.set(frontend.id, claim);
      return undefined;
    } catch (error) {
      claim.giveBack();
      return refusalOf(frontend, error as NodeJS.ErrnoException);
    }
  }

  update(frontend: ServedFrontend): void {
    this.#listeners.get(frontend.id)?.update(frontend);
  }

  close(id: string): void {
    this.#listeners.get(id)?.close();
    this.#listeners.delete(id);
    this.#claims.get(id)?.giveBack();
    this.#claims.delete(id);
  }

  /** A change is in force: connections whose endpoint has gone are ended, where that is asked. */
  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const gone = endedBy(previous, next);
    if (gone === undefined || next === undefined) return;
    this.#connections.endTo(forwardingId(next.family, next.key), gone);
  }

  /** Whether there are connections to this address. */
  isBusy(bytes: Uint8Array): boolean {
    return this.#connections.isAnyTo(formatAddress(bytes));
  }

  /** Closes all sockets, also those of connections. */
  closeAll(): void {
    for (const id of [...this.#listeners.keys()]) this.close(id);
    this.#connections.endAll();
  }

  #noRoom({ protocol, ...at }: ServedFrontend): Refusal {
    const { all } = this.#descriptors.max;
    const words = `sockets may use ${all} file descriptors, and do: raise the limit of open files`;
    const message = `listen on ${formatFrontend(protocol, at)}: ${words}`;
    return { code: 'EMFILE', message, isLasting: false };
  }

  async #listen(frontend: ServedFrontend, protocol: Exclude<Protocol, 'SCTP'>): Promise<Listener> {
    const [connections, descriptors] = [this.#connections, this.#descriptors];
    const { buffers } = descriptors;
    const balancer = new Balancer(frontend, this.#memories, this.traffic);
    const listens = (address: Address | undefined, port: number): boolean =>
      address !== undefined && this.#listeners.has(frontendId(address, protocol, port));
    const leadsBack = ({ pool, index }: Endpoint, client: string): boolean => {
      const address = Address.from(pool.address(index));
      const port = pool.port(index);
      if (listens(address, port)) return true;
      // To the node that the client is, whose node port leads here.
      const isSamePort = balancer.frontend.claimKind === 'nodePort' && port === frontend.port;
      return isSamePort && client === formatAddress(address.bytes);
    };
    try {
      return protocol === 'TCP'
        ? await TCPListener.open(balancer, { buffers, connections, descriptors, leadsBack })
        : await UDPListener.open(balancer, { descriptors, leadsBack, listens });
    } catch (error) {
      balancer.close();
      throw error;
    }
  }
}
