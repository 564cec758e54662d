/** What processes that follow an API server need for the same changes. */
import { join } from 'node:path';
import { AskedProcess } from '../../test/lab/asked-process.ts';
import { contentTypes } from './api-rig.ts';
import { KubeProxy } from './kube-proxy.ts';
import type { Namespace } from './namespace.ts';
import { type ProcessorTime, processorTime } from './processor-time.ts';
import { Product } from './product.ts';

const reader = join(import.meta.dirname, 'bare-read.ts');
const type = contentTypes.protobuf;

interface Follower {
  readonly pid: number;
  stop(): Promise<void>;
}

/**
 * Runs `work` with each, one after the other: the product without a probe, a process that reads the
 * same bytes and does nothing with them, and kube-proxy if KUBE_PROXY names its binary. `services`:
 * how many there are.
 */
export async function eachFollower<T>(
  kubeconfig: string,
  namespace: Namespace,
  services: number,
  work: (pid: number) => Promise<T>,
): Promise<ReadonlyMap<string, T>> {
  const { KUBE_PROXY } = process.env;
  const starts: Record<string, () => Promise<Follower>> = {
    Fairlead: async () => {
      const flags = [`--kube-api-content-type=${type}`];
      const product = new Product(namespace, kubeconfig, flags, { isProbed: false });
      await product.programmedMs;
      return product;
    },
    'bare reader': async () => {
      const bare = new AskedProcess(reader, [kubeconfig, type, '--follow'], namespace);
      await bare.line();
      return { pid: bare.pid, stop: () => bare.close() };
    },
    ...(KUBE_PROXY !== undefined && {
      'kube-proxy': async () => {
        const proxy = new KubeProxy(KUBE_PROXY, namespace, kubeconfig, 'nftables', type);
        await proxy.programmed(services);
        return proxy;
      },
    }),
  };
  const found = new Map<string, T>();
  for (const [name, start] of Object.entries(starts)) {
    const follower = await start();
    found.set(name, await work(follower.pid).finally(() => follower.stop()));
  }
  return found;
}

/** What the process used during `work`. */
export async function used(pid: number, work: () => Promise<unknown>): Promise<ProcessorTime> {
  const before = processorTime(pid);
  await work();
  const { all, main, ofV8 } = processorTime(pid);
  return { all: all - before.all, main: main - before.main, ofV8: ofV8 - before.ofV8 };
}
