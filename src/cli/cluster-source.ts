/** Where a configuration says that Services come from. */
import type { SourceConfig } from '../config/config.ts';
import { fairleadVersion } from '../config/version.ts';
import { ApiClient, type ClientOptions, type Exchange } from '../source/kubernetes/client.ts';
import { podWatch } from '../source/kubernetes/pods.ts';
import { KubernetesSource } from '../source/kubernetes/source.ts';
import { ManifestSource } from '../source/manifests/source.ts';
import type { WatchPods } from '../source/pods.ts';
import type { Source } from '../source/source.ts';

interface ClusterSource {
  readonly source: Source;
  /** A client of their own: events never take the watches' turns. Manifests have nobody to tell. */
  readonly openEvents?: () => Promise<ApiClient>;
  /** Absent with manifests: no kubelet runs these pods. */
  readonly watchPods?: WatchPods;
}

/** `nodeName`: whose Node is delivered. `observer` is told of each request. */
export function clusterSource(
  source: SourceConfig,
  nodeName: string,
  observer: (exchange: Exchange) => void = () => {},
): ClusterSource {
  if (source.kind === 'manifests') {
    return { source: new ManifestSource({ directory: source.directory, nodeName }) };
  }
  const { kubeconfigPath, masterUrl, contentTypes, qps, burst } = source;
  const userAgent = `fairlead/${fairleadVersion.slice(1)}`;
  const access = { kubeconfigPath, masterUrl, contentTypes, qps, burst };
  const options: ClientOptions = { ...access, userAgent, observer };
  return {
    source: new KubernetesSource({ ...options, nodeName }),
    openEvents: () => ApiClient.open(options),
    watchPods: podWatch({ ...options, nodeName }),
  };
}
