import { describe, expect, it } from 'vitest';
import { ManifestLookup } from '../../../../src/source/manifests/lookup.ts';
import { temporaryDirectory } from '../kubernetes/setup.ts';

const files = {
  'pods.json': JSON.stringify({
    ...{ apiVersion: 'v1', kind: 'Pod', metadata: { namespace: 'shop', name: 'web-1' } },
    spec: { nodeName: 'node-a' },
    status: { podIP: '10.0.0.1', podIPs: [{ ip: '10.0.0.1' }, { ip: 'fd00::1' }] },
  }),
  'slices.yaml': `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: web-x, labels: {kubernetes.io/service-name: web}}
endpoints:
  - {addresses: [10.0.0.2], nodeName: node-b, targetRef: {kind: Pod, name: web-2}}
  - {addresses: [10.0.0.3], targetRef: {kind: Node, name: web-3}}
`,
  'notes.txt': 'no manifest',
};

const { signal } = new AbortController();

describe('the lookup in manifests', () => {
  const lookup = () => new ManifestLookup(temporaryDirectory(files));

  it('returns the addresses of a pod, from the pod or an EndpointSlice', async () => {
    const addresses = ['10.0.0.1', 'fd00::1'];
    expect(await lookup().pod('shop', 'web-1', signal)).toEqual({ addresses, nodeName: 'node-a' });
    const other = { addresses: ['10.0.0.2'], nodeName: 'node-b' };
    expect(await lookup().pod('shop', 'web-2', signal)).toEqual(other);
    await expect(lookup().pod('shop', 'web-3', signal)).rejects.toMatchObject({ fault: 'absence' });
  });

  it('returns the pods that are endpoints of a Service', async () => {
    expect([...(await lookup().podsOf('shop', 'web', signal))]).toEqual([['10.0.0.2', 'web-2']]);
    expect([...(await lookup().podsOf('shop', 'db', signal))]).toEqual([]);
  });

  it('reports the file, the line and the reason of an unreadable file', async () => {
    const broken = new ManifestLookup(temporaryDirectory({ 'a.yaml': 'a: 1\nb: [' }));
    await expect(broken.pod('shop', 'web', signal)).rejects.toMatchObject({
      fault: 'source',
      message: expect.stringMatching(/a\.yaml:2: /) as string,
    });
  });
});
