/**
 * How does this version compare with another one, and with kube-proxy, as seen from outside? Each
 * runs with the same clusters in the fake API server, one after the other. A client finds out when
 * Services work by connecting to them. OLD names the folder of a built checkout of another version,
 * KUBE_PROXY kube-proxy's binary.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { FakeApi } from '../test/fake/api-server-process.ts';
import { processStatus } from '../test/lab/process-status.ts';
import { buildPrograms, Stage } from './connect.ts';
import { buildProduct, contentTypes, node } from './lib/api-rig.ts';
import { type Size, sizeName, sizes } from './lib/cluster.ts';
import type { Extent } from './lib/extent.ts';
import { KubeProxy } from './lib/kube-proxy.ts';
import { MarkedCluster, NotInTime } from './lib/marked-cluster.ts';
import { withChildrenMs } from './lib/processor-time.ts';
import { Product } from './lib/product.ts';
import { number, summarise, table } from './lib/stats.ts';

/** Without `--whole`, kube-proxy has only these: it takes minutes for the others. */
const smallSizes = 2;
const changes = 10;
const attemptEveryMs = 1;
/** After the start, until memory is read: garbage is collected after ten seconds without work. */
const restMs = 40_000;
/** A proxy that takes longer is not measured further. */
const longestMs = 180_000;

interface Running {
  readonly pid: number;
  stop(): Promise<void>;
}

interface Contender {
  readonly name: string;
  readonly sizes: readonly Size[];
  readonly start: (stage: Stage, api: FakeApi) => Running;
}

interface Measured {
  readonly startMs: number;
  readonly startCpuMs: number;
  readonly residentMB: number;
  readonly anonymousMB: number;
  readonly changeMs: number;
  readonly restartMs: number;
  readonly restartCpuMs: number;
}

export async function versions(extent: Extent): Promise<string> {
  buildProduct();
  buildPrograms();
  const contenders = contendersOf(extent);
  const rows: string[][] = [];
  for (const size of sizes) {
    for (const contender of contenders.filter((one) => one.sizes.includes(size))) {
      rows.push([sizeName(size), contender.name, ...cells(await measure(contender, size))]);
    }
  }
  const head = ['cluster', '', 'start', 'CPU', 'resident', 'anonymous', 'change', 'restart', 'CPU'];
  const what =
    `From the start of a process until a Service works, memory ${restMs / 1000} s later, from a new ` +
    `Service to its first connection (median of ${changes}), and from a restart until a Service ` +
    'works that came meanwhile; ms, MB';
  return [what, table(head, rows)].join('\n\n');
}

function contendersOf(extent: Extent): readonly Contender[] {
  const { KUBE_PROXY, OLD } = process.env;
  const product = (name: string, checkout?: string): Contender => ({
    name,
    sizes,
    start: (stage, api) => startProduct(stage, api, checkout),
  });
  const peer: Contender = {
    name: 'kube-proxy',
    sizes: extent === 'whole' ? sizes : sizes.slice(0, smallSizes),
    start: ({ node }, { kubeconfig }) =>
      new KubeProxy(KUBE_PROXY!, node, kubeconfig, 'nftables', contentTypes.protobuf),
  };
  return [
    product('Fairlead'),
    ...(OLD === undefined ? [] : [product('before', OLD)]),
    ...(KUBE_PROXY === undefined ? [] : [peer]),
  ];
}

function startProduct({ node }: Stage, { kubeconfig }: FakeApi, checkout?: string): Running {
  const options = checkout === undefined ? {} : { checkout };
  const product = new Product(node, kubeconfig, [], { isProbed: false, ...options });
  // When a Service works is found by packets.
  product.programmedMs.catch(() => {});
  return product;
}

/** Undefined: it was not in time. */
async function measure(contender: Contender, size: Size): Promise<Measured | undefined> {
  const stage = new Stage();
  let api: FakeApi | undefined;
  let proxy: Running | undefined;
  try {
    await stage.ready();
    stage.node.run('ip', ['link', 'set', 'lo', 'up']);
    api = await FakeApi.start(stage.node);
    await api.ask({ do: 'apply', object: node });
    await api.ask({ do: 'populate', ...size });
    const cluster = new MarkedCluster(stage, api, attemptEveryMs);
    /** Starts the proxy, and waits until a Service works that no proxy has seen yet. */
    const start = async () => {
      const clusterIP = await cluster.add();
      const startedMs = performance.now();
      proxy = contender.start(stage, api!);
      const tookMs = (await cluster.works(clusterIP, longestMs)) - startedMs;
      return { tookMs, cpuMs: withChildrenMs(proxy.pid) };
    };
    const first = await start();
    await sleep(restMs);
    const status = processStatus(proxy!.pid);
    const changeMs: number[] = [];
    for (let i = 0; i < changes; i += 1) changeMs.push(await cluster.mark(longestMs));
    await proxy!.stop();
    const again = await start();
    return {
      startMs: first.tookMs,
      startCpuMs: first.cpuMs,
      residentMB: status('VmRSS') / 1024,
      anonymousMB: status('RssAnon') / 1024,
      changeMs: summarise(changeMs).p50,
      restartMs: again.tookMs,
      restartCpuMs: again.cpuMs,
    };
  } catch (error) {
    if (!(error instanceof NotInTime)) throw error;
    return undefined;
  } finally {
    await proxy?.stop();
    await api?.close();
    stage.close();
  }
}

function cells(measured: Measured | undefined): string[] {
  if (measured === undefined) return [`> ${number(longestMs)}`, ...Array<string>(6).fill('–')];
  return [
    measured.startMs,
    measured.startCpuMs,
    measured.residentMB,
    measured.anonymousMB,
    measured.changeMs,
    measured.restartMs,
    measured.restartCpuMs,
  ].map(number);
}
