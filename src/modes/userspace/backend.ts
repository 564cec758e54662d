/** Mode userspace for one family: sockets for frontends, addresses that all share. */
import type { Kernel } from '../../kernel/kernel.ts';
import type { Family } from '../../net/address.ts';
import { formatFrontend } from '../../state/conflict.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Backend, FixedRepair, Objects } from '../backend.ts';
import type { Environment, ModeConfig } from '../mode.ts';
import { boundAddresses } from '../own-addresses.ts';
import { servedFrontends } from '../sockets/frontends.ts';
import type { Sockets } from '../sockets/switchboard.ts';
import { BatchWriter } from './batch-writer.ts';
import { LingeringAddresses } from './lingering.ts';
import { hasLink } from './link.ts';
import {
  addressesOf,
  boundAddress,
  type UserspaceObjects,
  UserspaceObservation,
} from './observation.ts';

interface UserspaceTypes extends UserspaceObjects {
  readonly found: UserspaceObservation;
  readonly writer: BatchWriter;
}

export class UserspaceBackend implements Backend<UserspaceTypes> {
  readonly family: Family;
  readonly late: LingeringAddresses;
  readonly #config: ModeConfig;
  readonly #sockets: Sockets;

  constructor(config: ModeConfig, sockets: Sockets) {
    this.family = config.family;
    this.#config = config;
    this.#sockets = sockets;
    this.late = new LingeringAddresses(sockets);
  }

  twin(): UserspaceBackend {
    return new UserspaceBackend(this.#config, this.#sockets);
  }

  describe(forwarding: Forwarding, environment: Environment): readonly string[] {
    return this.objects(forwarding, environment).frontends.map(
      (frontend) => `socket ${formatFrontend(frontend.protocol, frontend)}`,
    );
  }

  objects(forwarding: Forwarding, environment: Environment): Objects<UserspaceTypes> {
    return {
      frontends: servedFrontends(forwarding, { config: this.#config, environment }),
      shared: boundAddresses(forwarding, environment).map(({ bytes }) => boundAddress(bytes)),
      bytes: 0,
    };
  }

  /** Nothing: all that the environment changes belongs to Forwardings. */
  ofEnvironment(): readonly never[] {
    return [];
  }

  writer(): BatchWriter {
    return new BatchWriter(this.family, this.#sockets, this.late);
  }

  async read(kernel: Kernel): Promise<UserspaceObservation> {
    return new UserspaceObservation({
      hasLink: await hasLink(kernel),
      addresses: await addressesOf(kernel, this.family),
      sockets: this.#sockets.frontends(this.family),
      isLingering: (id) => this.late.has(id),
    });
  }

  async repairFixed(
    { intact }: UserspaceObservation,
    writer: BatchWriter,
  ): Promise<FixedRepair<BatchWriter>> {
    if (!intact) writer.addLink();
    return { drift: { missing: intact ? 0 : 1, wrong: 0, unwanted: 0 } };
  }
}
