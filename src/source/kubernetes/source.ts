import type { Resource } from '../../state/change.ts';
import { requestBackoff } from '../../time/backoff.ts';
import { pause, systemClock } from '../../time/clock.ts';
import { Pacer, readingSliceMs } from '../../time/pacer.ts';
import { proxyNameLabel } from '../decode/names.ts';
import { decodeContext } from '../decode.ts';
import type { Condition, ServerVersion, Source, SourceSink } from '../source.ts';
import { ApiClient, type ClientOptions } from './client.ts';
import { Delivery } from './delivery.ts';
import { json } from './encoding.ts';
import { readJson } from './json-body.ts';
import { ApiLookup } from './lookup.ts';
import { protobuf } from './protobuf/encoding.ts';
import { StringCache } from './protobuf/string-cache.ts';
import { Reflector, type Target } from './reflector.ts';
import { defaultTiming, type ReflectorTiming } from './timing.ts';

export interface KubernetesSourceOptions extends ClientOptions {
  /** This node's name: only its Node is watched, and endpoints on it are local. */
  readonly nodeName: string;
  /** The label of Services for this proxy; default: they have none. */
  readonly proxyName?: string;
  readonly timing?: Partial<ReflectorTiming>;
}

const unasked: Condition = { silenceMs: undefined, missingMs: undefined, failure: undefined };

/**
 * In one namespace, the server looks up this name, which need not exist. To list one object across
 * all namespaces, it copies a list of all (its cacher, in WaitUntilFreshAndGetList).
 */
const oneName = { fieldSelector: 'metadata.name=fairlead' };

/** Behaviour document 4.1. */
function targets(
  nodeName: string,
  proxyName: string,
): (Target & { readonly resource: Resource })[] {
  return [
    {
      resource: 'services',
      path: '/api/v1/services',
      query: {
        labelSelector: proxyName === '' ? `!${proxyNameLabel}` : `${proxyNameLabel}=${proxyName}`,
        fieldSelector: 'spec.clusterIP!=None',
      },
      part: { path: '/api/v1/namespaces/default/services', query: oneName },
      presence: 'required',
    },
    {
      resource: 'endpointslices',
      path: '/apis/discovery.k8s.io/v1/endpointslices',
      query: { labelSelector: '!service.kubernetes.io/headless' },
      part: {
        path: '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices',
        query: oneName,
      },
      presence: 'required',
    },
    {
      resource: 'nodes',
      path: '/api/v1/nodes',
      query: { fieldSelector: `metadata.name=${nodeName}` },
      presence: 'required',
    },
    {
      // Since Kubernetes 1.33; older roles do not grant it.
      resource: 'servicecidrs',
      path: '/apis/networking.k8s.io/v1/servicecidrs',
      query: {},
      presence: 'optional',
    },
  ];
}

/** Services, EndpointSlices, the Node and ServiceCIDRs from an API server. */
export class KubernetesSource implements Source {
  readonly lookup: ApiLookup;
  readonly #options: KubernetesSourceOptions;
  readonly #timing: ReflectorTiming;
  readonly #reflectors = new Map<Resource, Reflector>();
  readonly #deliveries = new Map<Resource, Delivery>();
  readonly #version: ServerVersionProbe;
  #server: string | undefined;

  constructor(options: KubernetesSourceOptions) {
    this.#options = options;
    this.lookup = new ApiLookup(options);
    this.#timing = { ...defaultTiming, ...options.timing };
    this.#version = new ServerVersionProbe(this.#timing);
  }

  /**
   * Rejects if the configuration cannot work. It waits for a server that does not answer, or whose
   * name cannot be resolved yet.
   */
  async run(sink: SourceSink, signal: AbortSignal): Promise<void> {
    const onProtobufRefused = (reason: string): void =>
      sink.problem({ subject: 'the API server', field: undefined, reason });
    const client = await ApiClient.open({ ...this.#options, onProtobufRefused });
    this.#server = client.server;
    const ending = new AbortController();
    const stopped = AbortSignal.any([signal, ending.signal]);
    const running = [...this.#start(client, sink, stopped), this.#version.run(client, stopped)];
    try {
      await Promise.all(running);
    } finally {
      ending.abort();
      await Promise.allSettled(running);
      client.close();
      await this.lookup.close();
    }
  }

  readAgain(): void {
    for (const reflector of this.#reflectors.values()) reflector.readAgain();
  }

  condition(resource: Resource): Condition {
    return this.#reflectors.get(resource)?.condition ?? unasked;
  }

  revision(resource: Resource, key: string): string | undefined {
    return this.#deliveries.get(resource)?.revision(key);
  }

  server(): string | undefined {
    return this.#server;
  }

  serverVersion(): ServerVersion | undefined {
    return this.#version.version;
  }

  #start(client: ApiClient, sink: SourceSink, signal: AbortSignal): Promise<void>[] {
    const { nodeName, proxyName = '' } = this.#options;
    const context = decodeContext(nodeName, proxyName);
    const pacer = new Pacer(systemClock, readingSliceMs);
    const strings = new StringCache();
    return targets(nodeName, proxyName).map((target) => {
      const delivery = new Delivery(target.resource, context, sink);
      const reflector = new Reflector(target, {
        client,
        delivery,
        encodings: { json, protobuf: protobuf(target.resource, context, strings) },
        sink,
        pacer,
        timing: this.#timing,
        wentBack: (lostAtMs) => {
          for (const other of this.#reflectors.values()) other.listAgain(lostAtMs);
        },
      });
      this.#reflectors.set(target.resource, reflector);
      this.#deliveries.set(target.resource, delivery);
      return reflector.run(signal);
    });
  }
}

const bytesMax = 64 * 1024;
const charactersMax = 128;

/** The version of the API server. It is read periodically, because control planes are upgraded. */
class ServerVersionProbe {
  readonly #timing: ReflectorTiming;
  #version: ServerVersion | undefined;

  constructor(timing: ReflectorTiming) {
    this.#timing = timing;
  }

  /** The version as last read; undefined = not read yet. */
  get version(): ServerVersion | undefined {
    return this.#version;
  }

  /** Reads until `signal` aborts. Never rejects: after a failure it tries again. */
  async run(client: Pick<ApiClient, 'getJSON'>, signal: AbortSignal): Promise<void> {
    const { backoffBaseMs, backoffMaxMs, probeMs } = this.#timing;
    const backoff = requestBackoff(backoffBaseMs, backoffMaxMs);
    while (!signal.aborted) {
      const version = await this.#ask(client, signal);
      if (version !== undefined) {
        this.#version = version;
        backoff.reset();
      }
      await pause(version === undefined ? backoff.failed() : probeMs, signal);
    }
  }

  async #ask(
    client: Pick<ApiClient, 'getJSON'>,
    signal: AbortSignal,
  ): Promise<ServerVersion | undefined> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(this.#timing.probeMaxMs)]);
    try {
      return decode(await readJson(await client.getJSON('/version', limit), bytesMax));
    } catch {
      // Watches report problems of the server.
      return undefined;
    }
  }
}

/** Undefined if it is not the answer of an API server. */
function decode(raw: unknown): ServerVersion | undefined {
  const given = (raw ?? {}) as Readonly<Record<string, unknown>>;
  const text = (field: string): string => {
    const value = given[field];
    return typeof value === 'string' ? value.slice(0, charactersMax) : '';
  };
  const [gitVersion, major, minor] = [text('gitVersion'), text('major'), text('minor')];
  if (!/^v\d+\.\d+\./.test(gitVersion)) return undefined;
  return { gitVersion, major, minor, platform: text('platform') };
}
