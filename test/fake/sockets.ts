/** Sockets of mode userspace that are only recorded and not opened. They can be of SCTP, too. */
import { ModePlanner } from '../../src/modes/planner.ts';
import type { ProxyMode } from '../../src/modes/proxy-mode.ts';
import { Balancer } from '../../src/modes/sockets/balancer.ts';
import { frontendId, type ServedFrontend } from '../../src/modes/sockets/frontends.ts';
import { Memories } from '../../src/modes/sockets/memory.ts';
import type { Refusal, Sockets } from '../../src/modes/sockets/switchboard.ts';
import { Traffic } from '../../src/modes/sockets/traffic.ts';
import { UserspaceBackend, type UserspaceTypes } from '../../src/modes/userspace/backend.ts';
import { userspaceMode } from '../../src/modes/userspace/mode.ts';
import type { Family } from '../../src/net/address.ts';
import { EndpointList } from '../../src/net/endpoint-list.ts';
import { address } from '../unit/state/build.ts';
import type { Packet } from './nft-packet.ts';

export class WrittenSockets implements Sockets {
  readonly #open = new Map<string, ServedFrontend>();
  /** How many of the next sockets are refused. */
  refusals = 0;

  get(id: string): ServedFrontend | undefined {
    return this.#open.get(id);
  }

  *frontends(family: Family): Generator<ServedFrontend> {
    for (const one of this.#open.values()) if (one.address.family === family) yield one;
  }

  async untilLocal(): Promise<void> {}

  async open(frontend: ServedFrontend): Promise<Refusal | undefined> {
    this.refusals -= 1;
    if (this.refusals >= 0) return { code: 'EADDRINUSE', message: 'taken', isLasting: false };
    this.#open.set(frontend.id, frontend);
    return undefined;
  }

  update(frontend: ServedFrontend): void {
    this.#open.set(frontend.id, frontend);
  }

  close(id: string): void {
    this.#open.delete(id);
  }

  isBusy(): boolean {
    return false;
  }

  closeAll(): void {
    this.#open.clear();
  }

  /** Where connections of the client lead, perhaps nowhere; undefined: no socket listens. */
  poolOf(
    { daddr, dport, protocol }: Pick<Packet, 'daddr' | 'dport' | 'protocol'>,
    client: string,
  ): EndpointList | undefined {
    const to = address(daddr);
    const frontend = this.get(frontendId(to, protocol, dport));
    if (frontend === undefined) return undefined;
    const first = new Balancer(frontend, new Memories(), new Traffic()).first(client);
    return first?.pool ?? EndpointList.empty[to.family];
  }

  texts(): string[] {
    return [...this.#open.values()].map(({ claimKind: _, ...one }) => JSON.stringify(one)).sort();
  }
}

/** The mode with these sockets. */
export function userspaceWith(sockets: WrittenSockets): ProxyMode {
  const mode = userspaceMode();
  return {
    ...mode,
    planner: (config, environment) =>
      new ModePlanner<UserspaceTypes>({
        ...{ family: config.family, environment, bindsAddresses: true },
        backend: () => new UserspaceBackend(config, sockets),
      }),
    cleanup: (kernel) => {
      sockets.closeAll();
      return mode.cleanup(kernel);
    },
    close: () => sockets.closeAll(),
  };
}
