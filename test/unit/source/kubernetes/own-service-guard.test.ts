import { expect, it } from 'vitest';
import { ownServiceAdvice } from '../../../../src/source/kubernetes/client.ts';

const inPod = { KUBERNETES_PORT: 'tcp://10.96.0.1:443', KUBERNETES_SERVICE_HOST: '10.96.0.1' };

it.each([
  ['https://10.96.0.1:443', inPod],
  ['https://10.96.0.1', inPod],
  ['https://[fd00::1]:443', { KUBERNETES_PORT: 'tcp://[fd00::1]:443' }],
  ['https://kubernetes.default.svc:443', {}],
  ['https://kubernetes.default.svc.cluster.local', {}],
  ['https://kubernetes', inPod],
])('the server %s is recognised as reached through its own Service', (server, environment) => {
  const advice = ownServiceAdvice(new URL(server), environment);
  expect(advice).toMatch(/^\S+ is Service kubernetes, .* KUBERNETES_SERVICE_HOST/);
});

it.each([
  ['https://10.0.0.1:6443', inPod],
  ['https://10.0.0.1:6443', { ...inPod, KUBERNETES_SERVICE_HOST: '10.0.0.1' }],
  ['https://kubernetes.example.com:6443', inPod],
  ['https://10.96.0.1:443', {}],
  ['https://10.96.0.1:443', { KUBERNETES_PORT: 'nonsense' }],
])('the server %s is not recognised as reached through its own Service', (server, environment) => {
  expect(ownServiceAdvice(new URL(server), environment)).toBeUndefined();
});
