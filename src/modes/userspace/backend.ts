/** Mode userspace for one family: sockets for frontends, addresses that all share. */
import type { Kernel } from '../../kernel/kernel.ts';
import type { Family } from '../../net/address.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Backend, FixedRepair, LateDeletions, Objects } from '../backend.ts';
import { binary } from '../elements.ts';
import type { Environment, ModeConfig } from '../mode.ts';
import { boundAddresses } from '../own-addresses.ts';
import { BatchWriter } from './batch-writer.ts';
import { type ServedFrontend, servedFrontends } from './frontends.ts';
import { hasLink } from './link.ts';
import {
  addressesOf,
  type BoundAddress,
  boundAddress,
  UserspaceObservation,
} from './observation.ts';
import type { Sockets } from './switchboard.ts';

export interface UserspaceTypes {
  readonly frontend: ServedFrontend;
  readonly held: ServedFrontend;
  readonly shared: BoundAddress;
  readonly found: UserspaceObservation;
  readonly writer: BatchWriter;
}

/** Addresses that nobody wants, but that carry connections yet. */
export class LingeringAddresses implements LateDeletions<UserspaceTypes> {
  readonly #sockets: Sockets;
  readonly #addresses = new Map<string, Uint8Array>();

  constructor(sockets: Sockets) {
    this.#sockets = sockets;
  }

  get isAny(): boolean {
    return this.#addresses.size > 0;
  }

  has(id: string): boolean {
    return this.#addresses.has(id);
  }

  /** Connections end in peace. Returns whether the address has to wait for any. */
  keep(key: Uint8Array): boolean {
    const isBusy = this.#sockets.isBusy(key);
    if (isBusy) this.#addresses.set(binary(key), key);
    return isBusy;
  }

  /** The address is wanted again. Returns whether it was still there. */
  revive(id: string): boolean {
    return this.#addresses.delete(id);
  }

  /** What is there is read again after a failure. */
  confirm(): void {}
  rollback(): void {}

  write(_kernel: Kernel, writer: BatchWriter): string[] {
    const idle = [...this.#addresses].filter(([, key]) => !this.#sockets.isBusy(key));
    for (const [id, key] of idle) {
      this.#addresses.delete(id);
      writer.unbind(key);
    }
    return idle.map(([id]) => id);
  }
}

export class UserspaceBackend implements Backend<UserspaceTypes> {
  readonly family: Family;
  readonly bindsAddresses = true;
  readonly late: LingeringAddresses;
  readonly #config: ModeConfig;
  readonly #sockets: Sockets;

  constructor(config: ModeConfig, sockets: Sockets) {
    this.family = config.family;
    this.#config = config;
    this.#sockets = sockets;
    this.late = new LingeringAddresses(sockets);
  }

  objects(forwarding: Forwarding, environment: Environment): Objects<UserspaceTypes> {
    return {
      frontends: servedFrontends(forwarding, { config: this.#config, environment }),
      shared: boundAddresses(forwarding, environment).map(({ bytes }) => boundAddress(bytes)),
      bytes: 0,
    };
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

  async repairFixed({ intact }: UserspaceObservation, writer: BatchWriter): Promise<FixedRepair> {
    if (!intact) writer.addLink();
    return { drift: { missing: intact ? 0 : 1, wrong: 0, unwanted: 0 } };
  }
}
