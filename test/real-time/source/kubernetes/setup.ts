import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { onTestFinished } from 'vitest';
import { decodeChange, decodeContext } from '../../../../src/source/decode.ts';
import {
  KubernetesSource,
  type KubernetesSourceOptions,
} from '../../../../src/source/kubernetes/source.ts';
import { type Resource, resources } from '../../../../src/state/change.ts';
import { FakeApiServer, type FakeApiServerOptions } from '../../../fake/api-server.ts';
import type { Fault } from '../../../fake/api-server-answer.ts';
import { freePort } from '../../../unit/free-port.ts';
import { Recorder } from '../../../unit/source/recorder.ts';
import { until } from '../../until.ts';
import { hasty } from './timing.ts';

export { hasty, impatient } from './timing.ts';

/** What is asked for: protobuf as by default, and JSON in a project of tests of its own. */
export const contentTypes = {
  contentType: process.env.FAIRLEAD_CONTENT_TYPE ?? 'application/vnd.kubernetes.protobuf',
  acceptContentTypes: '',
};

export const asksProtobuf = contentTypes.contentType.endsWith('protobuf');

export function temporaryDirectory(files: Readonly<Record<string, string>> = {}): string {
  const path = mkdtempSync(join(tmpdir(), 'fairlead-source-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text);
  return path;
}

/** At a port that stays its own while it is closed. */
export async function startServer(options: FakeApiServerOptions = {}): Promise<FakeApiServer> {
  const server = new FakeApiServer({ bookmarkMs: 100, ...options });
  await server.listen(await freePort());
  onTestFinished(() => server.close());
  return server;
}

/** A server that has what `populate` adds. */
export async function startCluster(
  services = 20,
  options: FakeApiServerOptions = {},
): Promise<FakeApiServer> {
  const server = await startServer(options);
  populate(server, services);
  return server;
}

/** Services, their slices, a node and a ServiceCIDR; Zürich is for cuts inside a character. */
export function populate(server: FakeApiServer, services = 20): void {
  const { store } = server;
  store.apply({ kind: 'Node', metadata: { name: 'here' } });
  store.apply({ kind: 'Node', metadata: { name: 'there' } });
  store.apply({
    kind: 'ServiceCIDR',
    metadata: { name: 'kubernetes' },
    spec: { cidrs: ['10.96.0.0/16'] },
  });
  for (let i = 0; i < services; i += 1) {
    store.apply({
      kind: 'Service',
      metadata: { namespace: 'shop', name: `s${i}`, annotations: { city: 'Zürich' } },
      spec: { clusterIP: `10.96.1.${i}`, ports: [{ name: 'http', port: 80 }] },
    });
    setEndpoints(server, `s${i}`, [`10.0.${i}.1`, `10.0.${i}.2`]);
  }
}

export function setEndpoints(
  { store }: Pick<FakeApiServer, 'store'>,
  service: string,
  addresses: string[],
): void {
  store.apply({
    kind: 'EndpointSlice',
    metadata: {
      namespace: 'shop',
      name: `${service}-1`,
      labels: { 'kubernetes.io/service-name': service },
      annotations: { city: 'Zürich' },
    },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: addresses.map((address) => ({ addresses: [address], zone: 'Genève' })),
  });
}

/** A change that must not be missed. */
export function change(server: FakeApiServer, i: number): void {
  setEndpoints(server, `s${i}`, [`10.9.${i}.${(server.store.version % 250) + 1}`]);
}

/** The running watches of the resource do not see what happens from now on. */
export function blind(server: FakeApiServer, resource: Resource): void {
  server.disturb(resource, 'stall');
}

export function isGone({ kind }: { readonly kind: string }): boolean {
  return kind.endsWith('-gone');
}

/** What may happen to a request. */
export const faults: readonly (readonly [string, Fault])[] = [
  ['drops the connection', { kind: 'drop' }],
  ['does not answer', { kind: 'stall' }],
  ['answers late', { kind: 'late', ms: 200 }],
  ['cuts the body inside a character', { kind: 'cut' }],
  ['ends the body too soon', { kind: 'end' }],
  ['says 410', { kind: 'status', status: 410 }],
  ['says 429', { kind: 'status', status: 429, retryAfterSeconds: 0 }],
  ['says 500', { kind: 'status', status: 500 }],
  ['says 503', { kind: 'status', status: 503 }],
  ['says 401', { kind: 'status', status: 401 }],
  ['sends HTML', { kind: 'foreign', body: '<html>\n<body>login</body>\n</html>\n' }],
  ['sends other JSON', { kind: 'foreign', body: '{"ok":true}\n' }],
  ['sends an empty list of something', { kind: 'foreign', body: '{"items":[]}' }],
];

export interface Lab {
  readonly sink: Recorder;
  readonly source: KubernetesSource;
  /** Waits until what was delivered is what the server holds. */
  converged(): Promise<void>;
  stop(): Promise<void>;
}

/** Runs a source against the server until the test ends. */
export function startSource(
  server: FakeApiServer,
  options: Partial<KubernetesSourceOptions> = {},
): Lab & { readonly ended: Promise<void> } {
  const source = new KubernetesSource({
    nodeName: 'here',
    kubeconfigPath: '',
    masterUrl: server.url,
    qps: -1,
    burst: 10,
    userAgent: 'fairlead/test',
    contentTypes,
    timing: hasty,
    ...options,
  });
  const sink = new Recorder();
  const controller = new AbortController();
  const ended = source.run(sink, controller.signal);
  const stop = async (): Promise<void> => {
    controller.abort();
    await ended.catch(() => {});
  };
  onTestFinished(stop);
  const converged = (): Promise<void> =>
    Promise.race([
      until(
        `as the server has it; problems: ${JSON.stringify(sink.problems)}`,
        () =>
          sink.syncedResources.length === 4 && isDeepStrictEqual(delivered(sink), truth(server)),
      ),
      ended.then(() => Promise.reject(new Error('the source ended'))),
    ]);
  return { sink, source, ended, converged, stop };
}

function delivered(sink: Recorder): unknown[] {
  return sink.names().map((name) => sink.state.get(name));
}

/** What a proxy should know, from what the server holds. */
function truth(server: FakeApiServer): unknown[] {
  const selectors = {
    services: ['!service.kubernetes.io/service-proxy-name', 'spec.clusterIP!=None'],
    endpointslices: ['!service.kubernetes.io/headless', ''],
    nodes: ['', 'metadata.name=here'],
    servicecidrs: ['', ''],
  } as const;
  const context = decodeContext('here');
  const sink = new Recorder();
  for (const resource of resources) {
    if (server.absent.has(resource)) continue;
    for (const raw of server.truth(resource, ...selectors[resource])) {
      const { change: found } = decodeChange(resource, raw, context);
      if (found !== undefined) sink.change(found);
    }
  }
  return delivered(sink);
}

/** A kubeconfig whose token is in a file. */
export function tokenAccess(url: string, token: string) {
  const directory = temporaryDirectory({
    token,
    kubeconfig: `apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: fake, user: proxy}}]
clusters: [{name: fake, cluster: {server: ${url}}}]
users: [{name: proxy, user: {tokenFile: token}}]
`,
  });
  return {
    files: { write: (text: string) => writeFileSync(join(directory, 'token'), text) },
    options: { kubeconfigPath: join(directory, 'kubeconfig'), masterUrl: '' },
  };
}
