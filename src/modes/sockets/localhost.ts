/**
 * Sockets for TCP node ports on loopback addresses, in addition to a mode's rules (KEP-6032).
 * Rules cannot open these: the kernel never routes ::1, and 127.0.0.1 only with route_localnet. A
 * port that cannot be opened is reported and retried; nothing else waits for it.
 */
import { type Family, formatAddress, parseAddress } from '../../net/address.ts';
import { allPaths, isRefusal } from '../../state/paths.ts';
import type { Forwarding, ServicePortName } from '../../state/types.ts';
import type { ModeConfig } from '../mode.ts';
import type { Descriptors } from './descriptors.ts';
import { type ServedFrontend, servedFrontends } from './frontends.ts';
import { Switchboard } from './switchboard.ts';

export type LocalhostEvent =
  | {
      readonly kind: 'refused';
      readonly family: Family;
      readonly servicePort: ServicePortName;
      readonly message: string;
      readonly retryMs: number;
      /** It was refused before, too. */
      readonly isKnown: boolean;
    }
  | { readonly kind: 'restored'; readonly family: Family; readonly servicePort: ServicePortName };

type Config = Pick<ModeConfig, 'family' | 'localDetector'>;

interface DesiredPort {
  /** Of the Forwarding. */
  readonly key: string;
  readonly servicePort: ServicePortName;
  readonly frontend: ServedFrontend;
}

const retryMs = 10_000;

const loopback = { IPv4: parseAddress('127.0.0.1')!, IPv6: parseAddress('::1')! } as const;

export class LocalhostListeners {
  readonly #sockets: Switchboard;
  readonly #observer: (event: LocalhostEvent) => void;
  /** By frontend id, as the keys of all that follow. */
  readonly #desired = new Map<string, DesiredPort>();
  readonly #opening = new Set<string>();
  readonly #refused = new Set<string>();
  /** Ports that a former engine desired, and this one has not reported yet. */
  readonly #stale = new Set<string>();
  #retry: NodeJS.Timeout | undefined;

  constructor(observer: (event: LocalhostEvent) => void, descriptors?: Descriptors) {
    this.#sockets = new Switchboard(descriptors);
    this.#observer = observer;
  }

  /** Nothing is being opened. */
  get idle(): boolean {
    return this.#opening.size === 0;
  }

  /** How many sockets listen. */
  count(family: Family): number {
    return [...this.#sockets.frontends(family)].length;
  }

  /**
   * An engine starts. With `isReported` it reports all that is in force again, until `settled`:
   * listeners stay until then. Otherwise all sockets of the family are closed.
   */
  begin(family: Family, isReported: boolean): void {
    for (const [id, { frontend }] of this.#desired) {
      if (frontend.address.family !== family) continue;
      if (isReported) this.#stale.add(id);
      else this.#forget(id);
    }
  }

  /** Follows what is in force in one family. */
  follower(config: Config) {
    return {
      changed: (...change: [Forwarding | undefined, Forwarding | undefined]): void =>
        this.#changed(config, ...change),
      settled: (): void => this.#settled(config.family),
    };
  }

  #changed(config: Config, previous: Forwarding | undefined, next: Forwarding | undefined): void {
    this.#sockets.changed(previous, next);
    const before = previous === undefined ? [] : frontendsOf(previous, config);
    const after = next === undefined ? [] : frontendsOf(next, config);
    const kept = new Set(after.map(({ id }) => id));
    for (const { id } of before) {
      const desired = this.#desired.get(id);
      // It may have another owner already.
      if (desired === undefined || kept.has(id)) continue;
      if (desired.key === previous!.key) this.#forget(id);
    }
    for (const frontend of after) {
      this.#stale.delete(frontend.id);
      const { key, servicePort } = next!;
      this.#desired.set(frontend.id, { key, servicePort, frontend });
      this.#settle(frontend.id);
    }
  }

  /** All that is in force in this family has been reported. */
  #settled(family: Family): void {
    for (const id of this.#stale) {
      if (this.#desired.get(id)?.frontend.address.family === family) this.#forget(id);
    }
  }

  /** What listens for a Forwarding. */
  describe(config: Config, forwarding: Forwarding): readonly string[] {
    return frontendsOf(forwarding, config).flatMap(({ id, address, port }) =>
      this.#sockets.get(id) === undefined
        ? []
        : [`socket TCP ${formatAddress(address.bytes)} port ${port}`],
    );
  }

  /** Ends connections, too. */
  close(): void {
    clearTimeout(this.#retry);
    this.#desired.clear();
    this.#sockets.closeAll();
  }

  #forget(id: string): void {
    this.#desired.delete(id);
    this.#stale.delete(id);
    this.#refused.delete(id);
    this.#sockets.close(id);
  }

  #settle(id: string): void {
    const desired = this.#desired.get(id)?.frontend;
    const served = this.#sockets.get(id);
    if (desired === undefined) this.#sockets.close(id);
    else if (served === undefined) void this.#open(id);
    else this.#sockets.update(desired);
  }

  async #open(id: string): Promise<void> {
    if (this.#opening.has(id)) return;
    const { frontend, servicePort } = this.#desired.get(id)!;
    this.#opening.add(id);
    const refusal = await this.#sockets.open(frontend);
    this.#opening.delete(id);
    const { family } = frontend.address;
    if (refusal === undefined) {
      if (this.#refused.delete(id)) this.#observer({ kind: 'restored', family, servicePort });
      this.#settle(id);
    } else if (this.#desired.has(id)) {
      const { message } = refusal;
      const isKnown = this.#refused.has(id);
      this.#observer({ kind: 'refused', family, servicePort, message, retryMs, isKnown });
      this.#refused.add(id);
      this.#scheduleRetry();
    }
  }

  #scheduleRetry(): void {
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      for (const id of this.#refused) this.#settle(id);
    }, retryMs).unref();
  }
}

/** Every client of these sockets is the node itself. */
function frontendsOf(forwarding: Forwarding, config: Config): ServedFrontend[] {
  if (forwarding.servicePort.protocol !== 'TCP') return [];
  const frontends = forwarding.frontends.flatMap((frontend) => {
    if (frontend.address !== undefined) return [];
    const { paths } = frontend;
    return { ...frontend, paths: isRefusal(paths.node.to) ? paths : allPaths.outside };
  });
  const nodePortAddresses = [loopback[config.family]];
  return servedFrontends(
    { ...forwarding, frontends },
    {
      config: { ...config, localhostNodePorts: false },
      environment: { serviceCIDRs: [], nodePortAddresses },
    },
  );
}
