/**
 * A fake Kubernetes API server: real HTTP/1.1 and TLS, lists in pages and as streams, watches with
 * bookmarks and selectors, for the resources that a service proxy reads. It can be made to
 * misbehave: `fault` for requests to come, `disturb` for watches that run.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Watched } from '../../src/source/source.ts';
import {
  type Answer,
  compressWrites,
  type Fault,
  failed,
  refuse,
  send,
  sendPart,
} from './api-server-answer.ts';
import { type Bytes, formOf, jsonForm, keepBytes, protobufForm } from './api-server-form.ts';
import { alterQuery, buffer, type Gateway } from './api-server-gateway.ts';
import { streamingListUnbacked } from './api-server-recorded.ts';
import {
  FakeStore,
  kinds,
  parseSelectors,
  type Raw,
  type Selector,
  type StoredObject,
  served,
} from './api-server-store.ts';
import { type Disturbance, FakeWatch } from './api-server-watch.ts';

export interface FaultRule {
  readonly fault: Fault;
  /** Default: all. */
  readonly resource?: Watched;
  /** `page` = a list that continues one; `probe` = one that asks for one object. Default: all. */
  readonly verb?: Verb;
  /** How many requests it meets. Default 1. */
  readonly times?: number;
}

export type Verb = 'list' | 'page' | 'probe' | 'streaming-list' | 'watch';

export interface FakeApiServerOptions {
  /** Default: plain HTTP. `ca`: clients must show a certificate of this authority. */
  readonly tls?: { readonly certificate: string; readonly key: string; readonly ca?: string };
  /**
   * What becomes of `sendInitialEvents`. `refused`: the feature gate is off. `unbacked`: etcd is too
   * old. `ignored`: an ordinary watch. Default: `supported`.
   */
  readonly streamingLists?: 'supported' | 'refused' | 'unbacked' | 'ignored';
  /**
   * What becomes of requests for protobuf. `refused`: 406. `ignored`: the answer is JSON. Default:
   * `supported`.
   */
  readonly protobuf?: 'supported' | 'refused' | 'ignored';
  /** `gzip`: lists that are streams are compressed, as from 1.37 on. Default: they are not. */
  readonly streamCompression?: 'gzip';
  readonly gateway?: Gateway;
  /** Default 60,000, as real servers do it. `never`: as with an old etcd and no events. */
  readonly bookmarkMs?: number | 'never';
  /**
   * What a watch meets that would start from forgotten events: an answer with 410, or an event with
   * it. Default: `event`.
   */
  readonly expired?: 'refused' | 'event';
  /** Events that a watch may start from, for each resource. */
  readonly historyMax?: number;
  /** That of another server of the cluster, which this one follows, perhaps late. */
  readonly leader?: FakeStore;
  /** Resources that are kept in an etcd of their own (--etcd-servers-overrides). */
  readonly stores?: Readonly<Partial<Record<Watched, FakeStore>>>;
  /** Requests for other paths. Default: 404. */
  readonly onRequest?: (request: IncomingMessage, response: ServerResponse) => void;
}

export class FakeApiServer {
  readonly store: FakeStore;
  /** Requests that came, by resource and verb. */
  readonly counts = new Map<string, number>();
  /** Objects from which requests for one chose it. */
  candidates = 0;
  /** Lists that were sent compressed, streams among them. */
  compressed = 0;
  /** User agents and authorizations seen last. */
  lastHeaders: IncomingMessage['headers'] = {};
  /** What `/version` answers. */
  version: unknown = serverVersion('v1.36.2');
  /** Undefined = not required. */
  token: string | undefined;
  /** Resources that this server does not know. */
  readonly absent = new Set<Watched>();
  readonly #options: FakeApiServerOptions;
  readonly #server;
  #port = 0;
  readonly #sockets = new Set<Socket>();
  readonly #watches = new Map(served.map((resource) => [resource, new Set<FakeWatch>()]));
  #rules: { rule: FaultRule; left: number }[] = [];
  /** Snapshots that continue tokens stand for. */
  readonly #pages = new Map<string, { objects: StoredObject[]; version: number }>();

  #nextPage = 0;

  constructor(options: FakeApiServerOptions = {}) {
    this.#options = options;
    this.store = new FakeStore(options.historyMax);
    for (const store of [this.store, ...Object.values(options.stores ?? {})]) {
      store.onEvent = (resource, event) => {
        if (store !== this.#storeOf(resource)) return;
        keepBytes(event);
        for (const watch of this.#watches.get(resource)!) watch.send(event);
      };
    }
    const { tls } = options;
    const listener = (request: IncomingMessage, response: ServerResponse): void => {
      this.#answer(request, response).catch(() => response.destroy());
    };
    this.#server =
      tls === undefined
        ? createServer(listener)
        : createTlsServer(
            {
              cert: tls.certificate,
              key: tls.key,
              ...(tls.ca === undefined ? {} : { ca: tls.ca, requestCert: true }),
              rejectUnauthorized: tls.ca !== undefined,
            },
            listener,
          );
    this.#server.on(tls === undefined ? 'connection' : 'secureConnection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  /** Port 0 = any. Only loopback is served. */
  async listen(port = 0): Promise<void> {
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Serves a connection that was made without the system's sockets. */
  accept(socket: Duplex): void {
    this.#server.emit('connection', socket);
  }

  /** Where it listens, or listened last. */
  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `${this.#options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${this.port}`;
  }

  /** What was sent over connections that are open. */
  get sentBytes(): number {
    return [...this.#sockets].reduce((sum, { bytesWritten }) => sum + bytesWritten, 0);
  }

  /** How many are open. */
  get connections(): number {
    return this.#sockets.size;
  }

  /** Also what `kill -9` of a server looks like to its clients. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const watches of this.#watches.values()) {
      for (const watch of watches) watch.disturb('drop');
    }
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  fault(rule: FaultRule): void {
    this.#rules.push({ rule, left: rule.times ?? 1 });
  }

  /** No request meets a fault any more. */
  heal(): void {
    this.#rules = [];
  }

  /** Does it to each running watch of the resource; returns how many there are. */
  disturb(resource: Watched, disturbance: Disturbance): number {
    const watches = [...this.#watches.get(resource)!];
    for (const watch of watches) watch.disturb(disturbance);
    return watches.length;
  }

  /** See `FakeWatch.endIfSlow`. Returns how many watches it has ended. */
  endSlow(unsentBytesMax: number): number {
    const watches = [...this.#watches.values()].flatMap((one) => [...one]);
    return watches.filter((watch) => watch.endIfSlow(unsentBytesMax)).length;
  }

  watching(resource: Watched): number {
    return this.#watches.get(resource)!.size;
  }

  count(resource: Watched, verb: Verb): number {
    return this.counts.get(`${resource} ${verb}`) ?? 0;
  }

  /** Resolves when the system has taken everything that watches have sent, or they are over. */
  async drained(): Promise<void> {
    for (const watches of this.#watches.values()) {
      for (const watch of [...watches]) await watch.drained();
    }
  }

  /** Continue tokens that are under way are not known any more. */
  expireContinueTokens(): void {
    this.#pages.clear();
  }

  /** The objects as they are now, parsed; what the selectors of a proxy let through. */
  truth(resource: Watched, labelSelector = '', fieldSelector = ''): Raw[] {
    const selects = parseSelectors(labelSelector, fieldSelector);
    const objects = [...this.#storeOf(resource).objects(resource).values()].filter(selects);
    return objects.map(({ json }) => JSON.parse(json));
  }

  #storeOf(resource: Watched): FakeStore {
    return this.#options.stores?.[resource] ?? this.store;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://fake');
    if (this.#options.onRequest === undefined) widen(url);
    const resource = served.find((known) => kinds[known].path === url.pathname);
    if (url.pathname === '/version' && this.#options.onRequest === undefined) {
      if (request.headers.accept === protobufForm.type) {
        refuse({ response, form: protobufForm }, { kind: 'status', status: 406 });
        return;
      }
      await send({ response, form: jsonForm }, [JSON.stringify(this.version)]);
      return;
    }
    if (resource === undefined && this.#options.onRequest !== undefined) {
      this.#options.onRequest(request, response);
      return;
    }
    alterQuery(this.#options.gateway, url);
    buffer(this.#options.gateway, response);
    this.lastHeaders = request.headers;
    const { accept = '' } = request.headers;
    const form = this.#options.protobuf === 'ignored' ? jsonForm : formOf(accept);
    const gzip = request.headers['accept-encoding'] === 'gzip';
    const answer = { response, form, gzip };
    if (this.#options.protobuf === 'refused' && form !== jsonForm) {
      refuse({ response, form: jsonForm }, { kind: 'status', status: 406 });
      return;
    }
    if (this.token !== undefined && request.headers.authorization !== `Bearer ${this.token}`) {
      refuse(answer, { kind: 'status', status: 401 });
      return;
    }
    if (resource === undefined || this.absent.has(resource)) {
      refuse(answer, { kind: 'status', status: 404 });
      return;
    }
    const verb = verbOf(url.searchParams);
    const name = `${resource} ${verb}`;
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
    const fault = this.#nextFault(resource, verb);
    if (fault?.kind === 'late') await new Promise((resolve) => setTimeout(resolve, fault.ms));
    else if (fault?.kind === 'held') await fault.released;
    else if (fault !== undefined && (await failed(fault, answer))) return;
    if (this.#isTooOld(verb, url.searchParams)) {
      refuse(answer, { kind: 'status', status: 504, retryAfterSeconds: 1 });
      return;
    }
    if (verb === 'watch' || verb === 'streaming-list') {
      this.#watch(resource, url.searchParams, answer, fault);
      return;
    }
    const body = this.#list(resource, url.searchParams, answer);
    if (body === undefined) return;
    if (fault?.kind === 'cut' || fault?.kind === 'end') sendPart(answer, body, fault.kind);
    else if ((await send(answer, body)) === 'gzip') this.compressed += 1;
  }

  /** Whether a request asks for what this server does not know yet ("Too large resource version"). */
  #isTooOld(verb: Verb, query: URLSearchParams): boolean {
    const { leader } = this.#options;
    if (leader === undefined || verb === 'watch') return false;
    const least = verb === 'streaming-list' ? leader.version : Number(query.get('resourceVersion'));
    return least > this.store.version;
  }

  #nextFault(resource: Watched, verb: Verb): Fault | undefined {
    const found = this.#rules.find(
      ({ rule }) =>
        (rule.resource ?? resource) === resource && (rule.verb === undefined || rule.verb === verb),
    );
    if (found === undefined) return undefined;
    found.left -= 1;
    if (found.left <= 0) this.#rules = this.#rules.filter((rule) => rule !== found);
    return found.rule.fault;
  }

  /** The body in pieces; undefined when the answer was given. */
  #list(resource: Watched, query: URLSearchParams, answer: Answer): Iterable<Bytes> | undefined {
    const token = query.get('continue') ?? '';
    const snapshot = token === '' ? this.#snapshot(resource, query) : this.#pages.get(token);
    if (snapshot === undefined) {
      refuse(answer, { kind: 'status', status: 410 });
      return undefined;
    }
    this.#pages.delete(token);
    // Served from the watch cache, which knows no pages, as real servers do it.
    const limited = token !== '' || query.get('resourceVersion') !== '0';
    const limit = limited ? Number(query.get('limit') ?? 0) : 0;
    if (limit === 1) this.candidates += snapshot.objects.length;
    const page = limit > 0 ? snapshot.objects.slice(0, limit) : snapshot.objects;
    let next = '';
    if (page.length < snapshot.objects.length) {
      next = Buffer.from(`${resource} ${snapshot.version} ${this.#nextPage++}`).toString('base64');
      const objects = snapshot.objects.slice(page.length);
      this.#pages.set(next, { objects, version: snapshot.version });
    }
    return answer.form.list(resource, page, {
      resourceVersion: String(snapshot.version),
      continue: next,
    });
  }

  #snapshot(resource: Watched, query: URLSearchParams) {
    const selects = selectorOf(query);
    // Without a resourceVersion, etcd is asked, which all servers share.
    const isOfCache = query.has('resourceVersion');
    const store = (isOfCache ? undefined : this.#options.leader) ?? this.#storeOf(resource);
    const objects = [...store.objects(resource).values()].filter(selects);
    return { objects, version: store.version };
  }

  #watch(
    resource: Watched,
    query: URLSearchParams,
    answer: Answer,
    fault: Fault | undefined,
  ): void {
    const { response, form } = answer;
    const { streamingLists = 'supported', bookmarkMs = 60_000 } = this.#options;
    const streaming = query.get('sendInitialEvents') === 'true';
    if (streaming && streamingLists === 'refused') {
      refuse(answer, { kind: 'status', status: 422 });
      return;
    }
    if (streaming && streamingLists === 'unbacked') {
      response.writeHead(200, { 'content-type': form.watchType });
      response.end(form.error(streamingListUnbacked));
      return;
    }
    if (streaming && answer.gzip && this.#options.streamCompression === 'gzip') {
      compressWrites(response);
      this.compressed += 1;
    }
    const version = query.get('resourceVersion') ?? '';
    const watches = this.#watches.get(resource)!;
    const store = this.#storeOf(resource);
    const isAll = streaming || version === '' || version === '0';
    const events = isAll ? [] : store.since(resource, Number(version));
    if (events === undefined && this.#options.expired === 'refused') {
      refuse(answer, { kind: 'status', status: 410 });
      return;
    }
    const watch = new FakeWatch(response, {
      form,
      kind: kinds[resource].kind,
      apiVersion: kinds[resource].apiVersion,
      selects: selectorOf(query),
      bookmarkMs:
        query.get('allowWatchBookmarks') === 'true' && bookmarkMs !== 'never'
          ? bookmarkMs
          : undefined,
      after: Number(version),
      timeoutMs: Number(query.get('timeoutSeconds') ?? 1800) * 1000,
      store,
      resource,
    });
    watches.add(watch);
    response.once('close', () => {
      watch.close();
      watches.delete(watch);
    });
    const objects = [...store.objects(resource).values()];
    if (fault?.kind === 'cut' || fault?.kind === 'end') {
      const half = streaming ? objects.slice(objects.length / 2) : [];
      const disturbance = fault.kind === 'cut' ? 'cut-now' : 'end';
      void watch.sendAll(half).then(() => watch.disturb(disturbance));
      return;
    }
    if (isAll) {
      const endsList = streaming && streamingLists === 'supported';
      void watch.sendAll(objects, endsList ? 'initial-events-end' : undefined);
      return;
    }
    if (events === undefined) watch.disturb('expired');
    else void watch.catchUp(events);
  }
}

/** Makes the path of one namespace that of all, with a selector. */
function widen(url: URL): void {
  const pattern = /^(.*)\/namespaces\/([^/]+)(\/[^/]+)$/;
  const [, group = '', namespace, collection = ''] = pattern.exec(url.pathname) ?? [];
  if (namespace === undefined) return;
  url.pathname = group + collection;
  const others = url.searchParams.get('fieldSelector') ?? '';
  url.searchParams.set('fieldSelector', `${others},metadata.namespace=${namespace}`);
}

function verbOf(query: URLSearchParams): Verb {
  if (query.get('watch') === 'true') {
    return query.get('sendInitialEvents') === 'true' ? 'streaming-list' : 'watch';
  }
  if (query.get('limit') === '1') return 'probe';
  return query.has('continue') ? 'page' : 'list';
}

function selectorOf(query: URLSearchParams): Selector {
  return parseSelectors(query.get('labelSelector') ?? '', query.get('fieldSelector') ?? '');
}

export function serverVersion(gitVersion: string) {
  const [major = '', minor = ''] = gitVersion.slice(1).split('.');
  return { major, minor, gitVersion, goVersion: 'go1.26.3', platform: 'linux/amd64' };
}
