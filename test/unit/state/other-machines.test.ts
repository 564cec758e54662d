import { expect, it } from 'vitest';
import { OtherMachines } from '../../../src/state/other-machines.ts';
import { address, cidr, ready, readyLocal, slice } from './build.ts';

const podCIDRs = [cidr('10.244.0.0/16')];
const place = (node: string) => ({ node, zone: '' });

const keys = (...texts: string[]) => new Set(texts.map((text) => address(text).key));

it('are endpoints in kube-system outside the blocks of pods that name another node', () => {
  const machines = new OtherMachines(podCIDRs);
  const ofSystem = { service: 'kube-system/agent' };
  const endpoints = {
    '192.168.0.2': ready,
    '10.244.2.2': ready,
    '192.168.0.1': readyLocal,
    '203.0.113.9': ready,
  };
  const places = [place('b'), place('b'), place('a'), place('')];
  machines.add(slice(endpoints, { ...ofSystem, places }));
  expect(machines.keys).toEqual(keys('192.168.0.2'));
  machines.add(slice(endpoints, ofSystem));
  machines.add(slice({ 'fd00:1::2': ready }, { ...ofSystem, places: [place('b')] }));
  expect(machines.keys).toEqual(keys('192.168.0.2'));
});

it('are not what tenants write of them', () => {
  const machines = new OtherMachines(podCIDRs);
  const { keys: before } = machines;
  for (const service of ['ns/web', 'default/web', 'kube-system-2/kubernetes', 'ns/kubernetes']) {
    machines.add(slice({ '192.168.0.2': ready }, { service, places: [place('b')] }));
  }
  expect(machines.keys).toBe(before);
});

it('stay while any slice has them, in the same set until one comes or goes', () => {
  const machines = new OtherMachines(podCIDRs);
  const service = 'kube-system/agent';
  const one = slice({ '192.168.0.2': ready }, { service, places: [place('b')] });
  machines.add(one);
  const { keys: before } = machines;
  machines.add({ ...one, key: 'ns/web-2' });
  machines.remove(one);
  expect(machines.keys).toBe(before);
  machines.remove({ ...one, key: 'ns/web-2' });
  expect(machines.keys).toEqual(keys());
});
