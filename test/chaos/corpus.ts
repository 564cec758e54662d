/** Valid inputs of each boundary, which fuzzing starts from. */
import { stringify } from 'yaml';
import { replies } from '../../src/kernel/ops.ts';
import { RecordWriter } from '../../src/kernel/records.ts';
import { kinds, type Raw } from '../fake/api-server-store.ts';
import { encodeEvent, encodeList, encodeObject } from '../fake/protobuf.ts';
import { clusterIp, externalIp, lbVip } from '../lab/addresses.ts';
import {
  BASELINE,
  clientIpAffinity,
  type KubernetesObject,
  service,
  slices,
} from '../lab/objects.ts';
import type { Repetition } from './mutator.ts';

const objects: readonly KubernetesObject[] = [
  ...BASELINE,
  service('web', {
    clusterIp: clusterIp(10),
    vips: [lbVip(1)],
    externalIps: [externalIp(1)],
    ports: [
      { name: 'http', port: 80, nodePort: 30080 },
      { name: 'dns', port: 53, protocol: 'UDP' },
    ],
    spec: {
      ...clientIpAffinity(600),
      loadBalancerSourceRanges: ['192.0.2.0/24', '2001:db8::/32'],
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32000,
      trafficDistribution: 'PreferClose',
    },
  }),
  ...slices('web', [
    'pod-a',
    { at: 'pod-b', ready: false, zone: 'a', hints: { forZones: ['a', 'b'], forNodes: ['node'] } },
  ]),
];

const config = {
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'nftables',
  clusterCIDR: '10.244.0.0/16,fd00:244::/32',
  nodePortAddresses: ['primary', '192.0.2.0/24'],
  bindAddress: '0.0.0.0',
  healthzBindAddress: '0.0.0.0:10256',
  conntrack: { maxPerCore: 32768, tcpEstablishedTimeout: '24h0m0s' },
  detectLocalMode: 'ClusterCIDR',
  featureGates: { AllAlpha: false },
  ipvs: { scheduler: 'rr', excludeCIDRs: ['10.1.0.0/16'], syncPeriod: '30s' },
  iptables: { masqueradeBit: 14, syncPeriod: '30s', minSyncPeriod: '1s' },
  logging: { verbosity: 2, flushFrequency: '5s' },
};

const kubeconfig = {
  apiVersion: 'v1',
  kind: 'Config',
  'current-context': 'a',
  contexts: [{ name: 'a', context: { cluster: 'c', user: 'u', namespace: 'x' } }],
  clusters: [
    {
      name: 'c',
      cluster: {
        server: 'https://192.0.2.1:6443/',
        'certificate-authority-data': 'QUJD',
        'tls-server-name': 'kubernetes',
        'proxy-url': 'http://192.0.2.2:3128',
      },
    },
  ],
  users: [
    { name: 'u', user: { token: 'secret', 'client-certificate-data': 'QUJD', username: 'me' } },
    { name: 'v', user: { tokenFile: '/nowhere/token', as: 'other' } },
  ],
};

const events = objects.map((object, i) => ({
  type: ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK'][i % 4],
  object,
}));
const error = { type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired' } };

function list(items: readonly unknown[]): unknown {
  const metadata = { resourceVersion: '41', continue: 'abc', remainingItemCount: 3 };
  return { kind: 'ServiceList', apiVersion: 'v1', metadata, items };
}

function answers(): Buffer {
  const out = new RecordWriter(replies);
  out.write('generation', { generation: 41 });
  out.write('failed', { op: 1, entry: 2, errno: 22, message: 'no' });
  out.write('dumped', { interrupted: 0, overrun: 0, errno: 0, message: '' });
  return Buffer.from(out.finish());
}

const httpRequests: readonly string[] = [
  'GET /livez HTTP/1.1\r\nHost: 192.0.2.1:10256\r\n\r\n',
  'GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nAccept-Encoding: gzip;q=1, br\r\nConnection: close\r\n\r\n'.repeat(
    3,
  ),
  'HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /healthz?x=1 HTTP/1.1\r\nhost: [::1]\r\n\r\n',
  'PUT /debug/flags/v HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n4',
  'PUT /debug/flags/v HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\n4\r\n0\r\nT: x\r\n\r\n',
  `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(2000)}\r\n\r\n`,
  'GET http://localhost/livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n',
];

const texts: Readonly<Record<string, readonly string[]>> = {
  'watch lines': [
    [...events, error].map((event) => JSON.stringify(event)).join('\n'),
    ...events.map((event) => `${JSON.stringify(event)}\n`),
  ],
  'list bodies': [list(objects), list([]), { items: objects, metadata: {} }].map((body) =>
    JSON.stringify(body),
  ),
  'JSON objects': objects.map((object) => JSON.stringify(object)),
  manifests: [
    objects.map((object) => stringify(object)).join('---\n'),
    ...objects.map((object) => stringify(object)),
    JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }),
    '# anchors\nbase: &base { apiVersion: v1, kind: Service }\nother: { <<: *base, x: !!int "3" }\n',
    '&a\nkind: List\napiVersion: v1\nitems: [*a]\n',
    'kind: List\n? [a]\n: b\n',
    'kind: Service\napiVersion: v1\nmetadata: {name: a}\nspec: &s\n  clusterIPs: *s\n  ports: *s\n',
  ],
  'configuration files': [
    stringify(config),
    JSON.stringify(config),
    `${stringify(config)}nftables: &n\n  syncPeriod: *n\n`,
    `${stringify(config)}? [a]\n: b\n`,
  ],
  'HTTP requests': httpRequests,
  'HTTP ports': httpRequests,
  kubeconfigs: [
    stringify(kubeconfig),
    JSON.stringify(kubeconfig),
    `${stringify(kubeconfig)}preferences: &p\n  p: *p\n`,
    `${stringify(kubeconfig)}? [a]\n: b\n`,
  ],
};

/** The objects as protobuf, if their kind is read. */
function inProtobuf(): Readonly<Record<string, readonly Buffer[]>> {
  const known = objects.flatMap((object) => {
    const found = Object.values(kinds).find(({ kind }) => kind === object.kind);
    if (found === undefined) return [];
    const bytes = encodeObject(found.kind, object as unknown as Raw);
    return [{ ...found, bytes }];
  });
  const frames = known.map(({ apiVersion, kind, bytes }) =>
    encodeEvent('ADDED', apiVersion, kind, bytes),
  );
  const failure = encodeEvent('ERROR', 'v1', 'Status', encodeObject('Status', error.object));
  return {
    'protobuf objects': known.map(({ bytes }) => bytes),
    'protobuf watch frames': [Buffer.concat([...frames, failure]), ...frames, failure],
    'protobuf lists': Object.values(kinds).map(({ apiVersion, kind }) => {
      const items = known.filter((object) => object.kind === kind).map(({ bytes }) => bytes);
      return encodeList(apiVersion, `${kind}List`, { resourceVersion: '41' }, items);
    }),
  };
}

/** What once took memory, or long, for each repetition, in one step from something short. */
const repetitions: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'watch lines': [['{"a":"', 'x', '']],
  'list bodies': [
    ['{', ':', ''],
    ['{"a":"', 'x', ''],
    ['{"items":[{"a":"', 'x', ''],
  ],
  'JSON objects': [['{"spec":{"ports":[', '{},', '{}]}}']],
  // A frame of almost 16 MiB, and the same length of an item.
  'protobuf watch frames': [['\0\xff\0\0', 'x', '']],
  'protobuf lists': [['k8s\0\x12\xff\xff\xff\x7f\x12\xff\xff\xff\x07', 'x', '']],
  'protobuf objects': [['', '\x0a\0', '']],
  manifests: [['a: &s 1\n', 'b: *s\n', '']],
  'configuration files': [['a: &s 1\n', 'b: *s\n', '']],
  kubeconfigs: [['a: &s 1\n', 'b: *s\n', '']],
};

export function repetitionsOf(boundary: string): readonly Repetition[] {
  return (repetitions[boundary] ?? []).map(
    (texts) => texts.map((text) => Buffer.from(text, 'latin1')) as unknown as Repetition,
  );
}

export function corpora(boundary: string): readonly Buffer[] {
  if (boundary.startsWith('protobuf')) return inProtobuf()[boundary]!;
  const found = texts[boundary];
  return found === undefined ? [answers()] : found.map((text) => Buffer.from(text));
}
