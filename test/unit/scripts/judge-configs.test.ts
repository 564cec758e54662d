/** Kinds of files that people have, in `test/unit/config/real-files`, and what becomes of each. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { judgeFolder } from '../../../scripts/judge-configs.ts';

it('names for each file the document that is taken, or the reason, and the sources that fit', () => {
  const folder = join(import.meta.dirname, '../config/real-files');
  const found = judgeFolder(folder).map(({ convert, file, validate }) => [file, validate, convert]);
  expect(found).toEqual([
    [
      'daemonset-bundle.yaml',
      '1: Error: there is no KubeProxyConfiguration in the file: it has ServiceAccount kub',
      'flags',
    ],
    [
      'empty-string-in-a-list.yaml',
      '1: nodePortAddresses (line 3): "": must be a valid CIDR, or one of "primary", "loca',
      '1: error: apiVersion:: is neither a flag nor the value of one',
    ],
    ['former-fields.yaml', '0: the file is valid', 'kubeadm'],
    ['helm-values.yaml', '0: config (line 3), in the file, is valid', 'kubeadm'],
    ['k3s-config.yaml', '1: kind: no kind is given; it must be "KubeProxyConfiguration"', 'k3s'],
    [
      'kube-proxy.service',
      '1: (line 2): yaml: Unexpected scalar at node end, at: Description=kube-proxy',
      'flags',
    ],
    [
      'kubectl-list.json',
      '0: config.conf of ConfigMap kube-system/kube-proxy, in the file, is valid',
      'kubeadm',
    ],
    ['minikube-kubeadm.yaml', '0: document 4 (line 13), in the file, is valid', 'kubeadm'],
    [
      'nothing.yaml',
      '1: kind (line 2): no kind "Service" is registered for version "v1"; it must be "Kub',
      '1: error: apiVersion:: is neither a flag nor the value of one',
    ],
    ['ovhcloud.json', '1: kind: no kind is given; it must be "KubeProxyConfiguration"', 'ovhcloud'],
    [
      'template.yaml.tpl',
      '1: (line 3): is a template, with {{ .Values.podCIDR }}: render it first',
      '1: error: apiVersion:: is neither a flag nor the value of one',
    ],
  ]);
});
