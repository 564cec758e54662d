/**
 * The other lower bound of a start: a Node process that reads the same lists over TLS at the same
 * time up to the end of each, and does nothing with them.
 *
 *     node bare-read.ts KUBECONFIG CONTENT-TYPE
 */
import { ApiClient } from '../../src/source/kubernetes/client.ts';

const [kubeconfigPath = '', contentType = ''] = process.argv.slice(2);
const client = await ApiClient.open({
  kubeconfigPath,
  masterUrl: '',
  qps: -1,
  burst: 1,
  userAgent: 'fairlead-bench',
  contentTypes: { contentType, acceptContentTypes: '' },
});
const query = {
  watch: 'true',
  allowWatchBookmarks: 'true',
  sendInitialEvents: 'true',
  resourceVersionMatch: 'NotOlderThan',
};
const paths = ['/api/v1/services', '/apis/discovery.k8s.io/v1/endpointslices'];
await Promise.all(paths.map(readToBookmark));
process.exit(0);

async function readToBookmark(path: string): Promise<void> {
  const { signal } = new AbortController();
  const { body } = await client.get(path, query, signal);
  for await (const chunk of body) {
    if (chunk.subarray(-300).includes('initial-events-end')) return;
  }
}
