/** The source of Services according to the configuration. */
import type { Config, SourceConfig } from '../config/config.ts';
import { fairleadVersion } from '../config/version.ts';
import { ApiClient, type ClientEvent, type ClientOptions } from '../source/kubernetes/client.ts';
import { podWatch } from '../source/kubernetes/pods.ts';
import { KubernetesSource } from '../source/kubernetes/source.ts';
import { checkDirectory, ManifestSource } from '../source/manifests/source.ts';
import type { WatchPods } from '../source/pods.ts';
import type { Source } from '../source/source.ts';

interface ClusterSource {
  readonly source: Source;
  /** A separate client, so that events never delay watches. Undefined with manifests. */
  readonly openEvents?: () => Promise<ApiClient>;
  /** Another one, for reviews of tokens. Undefined with manifests. */
  readonly openReviews?: () => Promise<ApiClient>;
  /** Absent with manifests: the pods are not run by a kubelet. */
  readonly watchPods?: WatchPods;
}

/**
 * Rejects with a one-line Error if a source can never work: a missing kubeconfig, no cluster at
 * all. It does not query the API server, which may start later.
 */
export async function checkSource(source: SourceConfig): Promise<void> {
  if (source.kind === 'manifests') return checkDirectory(source.directory);
  const client = await ApiClient.open({ ...accessOf(source), observer: () => {} });
  await client.close();
}

/** `nodeName`: the Node to deliver.  */
export function clusterSource(
  { serviceProxyName: proxyName, source }: Pick<Config, 'serviceProxyName' | 'source'>,
  nodeName: string,
  observer: (event: ClientEvent) => void = () => {},
): ClusterSource {
  if (source.kind === 'manifests') {
    return { source: new ManifestSource({ directory: source.directory, nodeName, proxyName }) };
  }
  const options: ClientOptions = { ...accessOf(source), observer };
  return {
    source: new KubernetesSource({ ...options, nodeName, proxyName }),
    openEvents: () => ApiClient.open(options),
    // The HTTP thread bounds the number of reviews.
    openReviews: () => ApiClient.open({ ...options, qps: -1 }),
    watchPods: podWatch({ ...options, nodeName }),
  };
}

function accessOf(
  source: Extract<SourceConfig, { kind: 'kubernetes' }>,
): Omit<ClientOptions, 'observer'> {
  const { kubeconfigPath, masterUrl, contentTypes, qps, burst } = source;
  const userAgent = `fairlead/${fairleadVersion.slice(1)}`;
  return { kubeconfigPath, masterUrl, contentTypes, qps, burst, userAgent };
}
