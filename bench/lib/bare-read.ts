/**
 * The other lower bound: a Node process that reads the same lists over TLS at the same time up to
 * the end of each, and does nothing with them. With `--follow` it then prints a line, and reads the
 * changes until its standard input ends.
 *
 *     node bare-read.ts KUBECONFIG CONTENT-TYPE [--follow]
 */
import { ApiClient } from '../../src/source/kubernetes/client.ts';

const [kubeconfigPath = '', contentType = '', follow] = process.argv.slice(2);
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
await Promise.all(paths.map((path) => new Promise<void>((listed) => void read(path, listed))));
if (follow === undefined) process.exit(0);
console.log('listed');
process.stdin.once('end', () => process.exit(0)).resume();

async function read(path: string, listed: () => void): Promise<void> {
  const { body } = await client.get(path, query, new AbortController().signal);
  for await (const chunk of body) if (chunk.subarray(-300).includes('initial-events-end')) listed();
}
