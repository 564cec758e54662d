/** The product, the fake API server and a network namespace, put together for a benchmark. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { FakeApi } from '../../test/fake/api-server-process.ts';
import type { Size } from './cluster.ts';
import { inNamespace, type Namespace } from './namespace.ts';
import type { ProbeReport } from './probe.ts';
import { Product } from './product.ts';
import { asJavaScript } from './strip.ts';

const root = resolve(import.meta.dirname, '..', '..');

export interface Start {
  /** The time from the start of the process until all was programmed. */
  readonly programmedMs: number;
  readonly listedMs: number;
  readonly report: ProbeReport;
}

/** Compiles the product: what is measured is what is shipped. */
export function buildProduct(): void {
  execFileSync('sh', ['scripts/build-program'], { cwd: root, stdio: 'pipe' });
  buildProbe();
}

function buildProbe(): void {
  const to = join(root, 'build', 'bench');
  mkdirSync(to, { recursive: true });
  for (const name of ['probe', 'longest-turn', 'stats', 'collections']) {
    writeFileSync(join(to, `${name}.js`), asJavaScript(join(import.meta.dirname, `${name}.ts`)));
  }
}

/** Runs `work` with a cluster of this size in a fake API server. */
export function withCluster<T>(
  size: Size,
  work: (api: FakeApi, namespace: Namespace) => Promise<T>,
): Promise<T> {
  return inNamespace('api', async (namespace) => {
    namespace.run('ip', ['link', 'set', 'lo', 'up']);
    const server = await FakeApi.start(namespace);
    try {
      await server.ask({ do: 'apply', object: node });
      await server.ask({ do: 'populate', ...size });
      return await work(server, namespace);
    } finally {
      await server.close();
    }
  });
}

export const node = {
  kind: 'Node',
  metadata: { name: 'node-1' },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
};

/** The media types of the forms. */
export const contentTypes = {
  protobuf: 'application/vnd.kubernetes.protobuf',
  JSON: 'application/json',
} as const;
export type Form = keyof typeof contentTypes;
export const forms = Object.keys(contentTypes) as readonly Form[];

/** Runs `work` with a product that has programmed the cluster. */
export async function withProduct<T>(
  api: { readonly kubeconfig: string },
  namespace: Namespace,
  work: (product: Product, start: Start) => Promise<T>,
  form: Form = 'protobuf',
): Promise<T> {
  const flags = [`--kube-api-content-type=${contentTypes[form]}`];
  const product = new Product(namespace, api.kubeconfig, flags);
  try {
    const programmedMs = await product.programmedMs;
    const report = await product.settled();
    return await work(product, { programmedMs, listedMs: product.listedMs, report });
  } finally {
    await product.stop();
  }
}
