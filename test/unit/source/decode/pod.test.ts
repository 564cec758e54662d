/** The source addresses of a pod's packets. */
import { expect, it } from 'vitest';
import { podHash } from '../../../../src/source/decode/endpoint-columns.ts';
import {
  keyIn,
  podNames,
  podOfSlices,
  readPod,
  serviceOfSlice,
} from '../../../../src/source/decode/pod.ts';

const endpoint = (kind: string, name: unknown, nodeName: unknown, ...addresses: unknown[]) => {
  return { addresses, nodeName, targetRef: { kind, name } };
};
const slices = [
  {
    endpoints: [
      endpoint('Pod', 'a', 'node-1', '10.0.0.1'),
      endpoint('Pod', 'b', undefined, '10.0.0.2', '', 7),
      endpoint('Node', 'a', 'node-9', '10.0.0.9'),
      endpoint('Pod', '', 'node-9', '10.0.0.8'),
      { addresses: ['10.0.0.7'] },
      { targetRef: { kind: 'Pod', name: 'a' }, addresses: 'none' },
    ],
  },
  { endpoints: null },
  { endpoints: [endpoint('Pod', 'a', 5, 'fd00::0:1', 'nowhere')] },
];

it('has all addresses of its status, each once', () => {
  const status = { podIPs: [{ ip: '10.0.0.1' }, { ip: 'fd00::1' }, {}], podIP: '10.0.0.1' };
  const found = { addresses: ['10.0.0.1', 'fd00::1'], nodeName: 'node-1' };
  expect(readPod({ spec: { nodeName: 'node-1' }, status })).toEqual(found);
  expect(readPod({ status: { podIP: '10.0.0.1' } })).toEqual({
    ...{ addresses: ['10.0.0.1'], nodeName: '' },
  });
});

it('is found in the slices that name it, and it alone', () => {
  expect(podOfSlices(slices, 'a')).toEqual({
    ...{ addresses: ['10.0.0.1', 'fd00::0:1', 'nowhere'], nodeName: 'node-1' },
  });
  expect(podOfSlices(slices, 'b')).toEqual({ addresses: ['10.0.0.2'], nodeName: '' });
  expect(podOfSlices(slices, 'c')).toBeUndefined();
  expect([...podNames(slices)]).toEqual([
    ['10.0.0.1', 'a'],
    ['10.0.0.2', 'b'],
    ['fd00::1', 'a'],
  ]);
});

it('and slices are in the namespace that they name, or in the default one', () => {
  const labels = { 'kubernetes.io/service-name': 'web' };
  const objects = [{}, { namespace: 'shop' }].map((of) => ({
    metadata: { ...of, name: 'x', labels },
  }));
  expect(objects.map(keyIn)).toEqual(['default/x', 'shop/x']);
  expect(objects.map(serviceOfSlice)).toEqual(['default/web', 'shop/web']);
});

it('has the number that FNV-1a gives to its name', () => {
  const numberOf = (text: string) => podHash(Buffer.from(text));
  expect(['', 'a', 'foobar'].map(numberOf)).toEqual([0, 0xe40c292c, 0xbf9cf968]);
  expect(podHash(Buffer.from('-foobar-'), 1, 7)).toBe(0xbf9cf968);
});
