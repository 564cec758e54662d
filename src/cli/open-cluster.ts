/** The cluster, for commands that only read it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import { interfaceAddresses } from '../host/interfaces.ts';
import { nodeName } from '../host/node-name.ts';
import type { ModeFacts } from '../modes/mode.ts';
import { ShadowCluster } from '../tools/shadow/cluster.ts';
import { clusterSource } from './cluster-source.ts';
import { terminal } from './terminal.ts';

/** How long to wait for its lists. */
const listsLongestMs = 60_000;
const pollMs = 20;

interface OpenCluster {
  readonly cluster: ShadowCluster;
  /** Stops watching it. */
  close(): Promise<void>;
}

/** Resolves once everything is listed. Rejects if that takes too long, or is impossible. */
export async function openCluster(
  config: Config,
  mode: Pick<ModeFacts, 'name' | 'link'>,
): Promise<OpenCluster> {
  const cluster = new ShadowCluster({ config, mode, interfaces: interfaceAddresses });
  const ending = new AbortController();
  const following = follow(config, cluster, ending.signal);
  const close = async (): Promise<void> => {
    ending.abort();
    await following.catch(() => {});
  };
  try {
    await Promise.race([listed(cluster), following]);
    return { cluster, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Until `signal` aborts. */
function follow(config: Config, cluster: ShadowCluster, signal: AbortSignal): Promise<void> {
  const { source } = clusterSource(config, nodeName(config.hostnameOverride));
  const sink = {
    change: cluster.apply.bind(cluster),
    synced: cluster.synced.bind(cluster),
    problem: ({ subject, reason }: { subject: string; reason: string }) =>
      void terminal.stderr.write(`fairlead: ${subject}: ${reason}\n`),
    listed: () => {},
  };
  return source.run(sink, signal);
}

async function listed(cluster: ShadowCluster): Promise<void> {
  const untilMs = performance.now() + listsLongestMs;
  while (!cluster.isKnown) {
    if (performance.now() > untilMs) {
      throw new Error('Services, EndpointSlices or the Node were not listed within a minute');
    }
    await sleep(pollMs);
  }
}
