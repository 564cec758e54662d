/**
 * How late is a change in the shape that SIG Scalability loads at 5,000 nodes: 8,250 Services of 10
 * endpoints, 50 pods a second? From the time that the object names to the kernel's acknowledgement.
 * KUBE_APISERVER and ETCD name programs for the same with a real API server, KUBE_PROXY one to
 * compare with, by its own metric, whose buckets are coarse.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { processStatus } from '../test/lab/process-status.ts';
import { buildProduct, contentTypes, withCluster, withProduct } from './lib/api-rig.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import type { Extent } from './lib/extent.ts';
import { KubeProxy } from './lib/kube-proxy.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { withChildrenMs } from './lib/processor-time.ts';
import type { Product } from './lib/product.ts';
import { RealApi } from './lib/real-api.ts';
import { number, table } from './lib/stats.ts';

const size: Size = { services: 8250, endpoints: 10 };
const perSecond = 50;
const warmSeconds = 10;
const secondsOf = { usual: 30, whole: 300 } as const satisfies Record<Extent, number>;
/** kube-proxy may be behind by that much. */
const peerRestMs = 20_000;

/** Replaces an endpoint in one slice after the other, at that rate. */
type Churn = (seconds: number) => Promise<unknown>;

export async function cl2Load(extent: Extent): Promise<string> {
  buildProduct();
  const seconds = secondsOf[extent];
  const rows = await withCluster(size, (api, namespace) => {
    const churn: Churn = (seconds) => api.ask({ do: 'churn', perSecond, seconds });
    return each('fake', api.kubeconfig, namespace, churn, seconds);
  });
  if (process.env.KUBE_APISERVER !== undefined) rows.push(...(await beside(seconds)));
  const what = `${sizeName(size)}, ${perSecond} pods a second, for ${seconds} s; ms`;
  const head = ['API server', '', 'p50', 'p99', 'server p99', 'max', '% of a core', 'resident MB'];
  return `${what}\n\n${table(head, rows)}`;
}

function beside(seconds: number): Promise<string[][]> {
  return inNamespace('real-api', async (namespace) => {
    namespace.run('ip', ['link', 'set', 'lo', 'up']);
    const api = await RealApi.start(namespace);
    try {
      await api.ask({ do: 'load', ...size });
      const churn: Churn = (seconds) =>
        api.ask({ do: 'change', count: perSecond * seconds, perSecond });
      return await each('real', api.kubeconfig, namespace, churn, seconds);
    } finally {
      await api.close();
    }
  });
}

async function each(
  server: string,
  kubeconfig: string,
  namespace: Namespace,
  churn: Churn,
  seconds: number,
): Promise<string[][]> {
  const own = await withProduct({ kubeconfig }, namespace, (product) =>
    row(product, churn, seconds),
  );
  const rows = [[server, 'Fairlead', ...own]];
  const { KUBE_PROXY } = process.env;
  if (KUBE_PROXY === undefined) return rows;
  namespace.run('nft', ['flush', 'ruleset']);
  const type = contentTypes.protobuf;
  const peer = new KubeProxy(KUBE_PROXY, namespace, kubeconfig, 'nftables', type);
  try {
    await peer.programmed(size.services);
    rows.push([server, 'kube-proxy', ...(await peerRow(peer, churn, seconds))]);
  } finally {
    await peer.stop();
  }
  return rows;
}

async function row(product: Product, churn: Churn, seconds: number): Promise<string[]> {
  await churn(warmSeconds);
  await product.reset('split');
  const beforeMs = withChildrenMs(product.pid);
  await churn(seconds);
  const { rssMB, server, triggerToAck } = await product.settled();
  const share = (withChildrenMs(product.pid) - beforeMs) / (10 * seconds);
  const { max, p50, p99 } = triggerToAck;
  return [p50, p99, server.p99, max, share, rssMB].map(number);
}

async function peerRow(peer: KubeProxy, churn: Churn, seconds: number): Promise<string[]> {
  await churn(warmSeconds);
  await sleep(peerRestMs);
  peer.reset();
  const beforeMs = withChildrenMs(peer.pid);
  await churn(seconds);
  const share = (withChildrenMs(peer.pid) - beforeMs) / (10 * seconds);
  await sleep(peerRestMs);
  const { quantileMs } = peer.programming();
  const [p50, p99, max] = [0.5, 0.99, 1].map((q) => `≤ ${number(quantileMs(q))}`);
  return [p50!, p99!, '', max!, number(share), number(processStatus(peer.pid)('VmRSS') / 1024)];
}
