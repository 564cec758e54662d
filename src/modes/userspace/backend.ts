/** Mode userspace for one family: sockets for frontends, addresses that all share. */
import type { KernelReader } from '../../kernel/kernel.ts';
import { formatFrontend } from '../../state/conflict.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Backend, ObjectOf, RepairPart, WriteLater } from '../backend.ts';
import type { Environment, ModeConfig } from '../mode.ts';
import { boundAddresses } from '../own-addresses.ts';
import { servedFrontends } from '../sockets/frontends.ts';
import type { Sockets } from '../sockets/switchboard.ts';
import { UserspaceBatchWriter } from './batch-writer.ts';
import { LingeringAddresses } from './lingering.ts';
import { hasLink } from './link.ts';
import {
  addressesOf,
  boundAddress,
  type UserspaceObjects,
  UserspaceObservation,
} from './observation.ts';

export interface UserspaceTypes extends UserspaceObjects {
  readonly found: UserspaceObservation;
  readonly writer: UserspaceBatchWriter;
}

export class UserspaceBackend implements Backend<UserspaceTypes> {
  readonly #config: ModeConfig;
  readonly #sockets: Sockets;
  readonly #lingering: LingeringAddresses;

  constructor(config: ModeConfig, sockets: Sockets) {
    this.#config = config;
    this.#sockets = sockets;
    this.#lingering = new LingeringAddresses(sockets);
  }

  describe(forwarding: Forwarding, environment: Environment): readonly string[] {
    return servedFrontends(forwarding, { config: this.#config, environment }).map(
      (frontend) => `socket ${formatFrontend(frontend.protocol, frontend)}`,
    );
  }

  objects(forwarding: Forwarding, environment: Environment): ObjectOf<UserspaceTypes>[] {
    return [
      ...boundAddresses(forwarding, environment).map(({ bytes }) => boundAddress(bytes)),
      ...servedFrontends(forwarding, { config: this.#config, environment }),
    ];
  }

  /** Nothing: all that the environment changes belongs to Forwardings. */
  ofEnvironment(): readonly never[] {
    return [];
  }

  writer(): UserspaceBatchWriter {
    return new UserspaceBatchWriter(this.#config.family, this.#sockets, this.#lingering);
  }

  async read(kernel: KernelReader): Promise<UserspaceObservation> {
    return new UserspaceObservation({
      hasLink: await hasLink(kernel),
      addresses: await addressesOf(kernel, this.#config.family),
      sockets: this.#sockets.frontends(this.#config.family),
      isLingering: (id) => this.#lingering.has(id),
    });
  }

  get deferred(): WriteLater<UserspaceBatchWriter> | undefined {
    return this.#lingering.isAny ? this.#unbindIdle : undefined;
  }

  readonly #unbindIdle: WriteLater<UserspaceBatchWriter> = (_kernel, writer) => {
    const idle = this.#lingering.takeIdle();
    for (const [, key] of idle) writer.unbind(key);
    return idle.map(([id]) => id);
  };

  async repairFixed(
    { hasLink }: UserspaceObservation,
    { drift, writer }: RepairPart<UserspaceTypes>,
  ): Promise<undefined> {
    if (hasLink) return undefined;
    writer.addLink();
    drift.missing += 1;
    return undefined;
  }
}
