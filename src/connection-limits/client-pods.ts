/** Which pods refused clients are, as far as EndpointSlices name them: looked for when one asks. */
import { parseAddress } from '../net/address.ts';
import type { ClusterState } from '../state/store.ts';
import { namespaceOf } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';

export interface ClientPodsOptions {
  readonly clock: Clock;
  readonly state: Pick<ClusterState, 'serviceKeys' | 'slices'>;
  readonly source: {
    readonly lookup: {
      /** See `Lookup.podsOf`. */
      podsOf(
        namespace: string,
        service: string,
        signal: AbortSignal,
      ): Promise<ReadonlyMap<string, string>>;
    };
  };
}

/** How long the source of objects may take, and how long an answer serves. */
const patienceMs = 500;
const keepMs = 60_000;
/** The most clients that are looked for together. */
const clientsMax = 16;

export class ClientPods {
  readonly #options: ClientPodsOptions;
  /** By client; without a name where none is known. */
  readonly #found = new Map<
    string,
    { readonly pod: string | undefined; readonly untilMs: number }
  >();

  constructor(options: ClientPodsOptions) {
    this.#options = options;
  }

  /** `namespace/name`; undefined: not known. */
  of(client: string): string | undefined {
    return this.#found.get(client)?.pod;
  }

  /** Looks for those that were not looked for lately, of the first ones. */
  async find(clients: Iterable<string>): Promise<void> {
    const nowMs = this.#options.clock.now();
    for (const [client, { untilMs }] of this.#found) {
      if (untilMs <= nowMs) this.#found.delete(client);
    }
    const unknown = [...clients].slice(0, clientsMax).filter((one) => !this.#found.has(one));
    if (unknown.length === 0) return;
    const services = await this.#servicesOf(unknown);
    const signal = AbortSignal.timeout(patienceMs);
    const names = await Promise.all(
      [...new Set(services.values())].map(async (key) => {
        const namespace = namespaceOf(key);
        const service = key.slice(namespace.length + 1);
        const { lookup } = this.#options.source;
        // Without an answer, an address alone is named.
        const pods = await lookup.podsOf(namespace, service, signal).catch(() => undefined);
        return [key, { namespace, pods }] as const;
      }),
    );
    const byService = new Map(names);
    for (const client of unknown) {
      const { namespace, pods } = byService.get(services.get(client) ?? '') ?? {};
      const name = pods?.get(client);
      const pod = name === undefined ? undefined : `${namespace}/${name}`;
      this.#found.set(client, { pod, untilMs: nowMs + keepMs });
    }
  }

  /** A Service of which each is an endpoint, by client. */
  async #servicesOf(clients: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const { clock, state } = this.#options;
    const { pause } = new Pacer(clock);
    const wanted = new Map(clients.map((one) => [parseAddress(one)!.latin1, one]));
    const found = new Map<string, string>();
    for (const key of state.serviceKeys()) {
      for (const { addresses, length } of state.slices(key)) {
        const width = addresses.length / length;
        for (let i = 0; i < length; i += 1) {
          const client = wanted.get(addresses.slice(i * width, (i + 1) * width));
          if (client !== undefined && !found.has(client)) found.set(client, key);
        }
        const resting = pause();
        if (resting !== undefined) await resting;
      }
    }
    return found;
  }
}
