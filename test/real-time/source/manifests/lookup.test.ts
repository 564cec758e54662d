import { describe, expect, it } from 'vitest';
import { ManifestLookup, parseSelector } from '../../../../src/source/manifests/lookup.ts';
import { temporaryDirectory } from '../kubernetes/setup.ts';

const files = {
  'services.yaml': `apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web, labels: {app: web, tier: front}}
---
apiVersion: v1
kind: Service
metadata: {name: db, labels: {app: db}}
`,
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

  it('returns Services by labels', async () => {
    const keys = async (selector: string, namespace = '') => [
      ...(await lookup().servicesWith(selector, namespace, signal)),
    ];
    expect(await keys('app=web')).toEqual(['shop/web']);
    expect(await keys('app')).toEqual(['shop/web', 'default/db']);
    expect(await keys('app', 'shop')).toEqual(['shop/web']);
    await expect(keys('app ~ web')).rejects.toMatchObject({ fault: 'question' });
  });

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

describe('a label selector', () => {
  const labels = { app: 'web', 'example.com/tier': 'front', empty: '' };

  it.each([
    ['', true],
    ['app=web', true],
    ['app == web, example.com/tier=front', true],
    ['app=web,example.com/tier=back', false],
    ['app!=web', false],
    ['other!=web', true],
    ['empty=', true],
    ['app', true],
    ['!app', false],
    ['!other', true],
    ['app in (db, web)', true],
    ['app in (db),empty', false],
    ['app notin (db,web)', false],
    ['other notin (db)', true],
  ])('with %j matches: %j', (selector, isChosen) => {
    expect(parseSelector(selector)(labels)).toBe(isChosen);
  });

  it.each(['=web', 'app=web tier=front', 'app in web', 'a b', 'app=(x)'])(
    'with %j is rejected',
    (text) => {
      expect(() => parseSelector(text)).toThrow('is not a label selector');
    },
  );
});
