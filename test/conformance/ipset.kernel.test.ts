/** Sets of ipset, made by ipset(8): the product only reads and destroys them. */
import { expect, test } from 'vitest';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { createKernel } from './namespace.ts';
import { batch, dumped } from './ops.ts';

const script = `create KUBE-CLUSTER-IP hash:ip,port
add KUBE-CLUSTER-IP 10.96.0.1,tcp:443
create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
add KUBE-NODE-PORT-TCP 30080
add KUBE-NODE-PORT-TCP 30443
create KUBE-NODE-PORT-SCTP-HASH hash:ip,port
add KUBE-NODE-PORT-SCTP-HASH 192.168.0.1,sctp:30999
create KUBE-6-CLUSTER-IP hash:ip,port family inet6
create mine hash:net
create all list:set
add all mine
`;

async function ports(kernel: Kernel, set: string): Promise<number[]> {
  const records = await dumped(kernel, 'ipsetPorts', { kind: 'ipsetPortsDump', set });
  return records.flatMap((record) => {
    const { buffer, byteOffset, byteLength } = record.ports;
    const view = new DataView(buffer, byteOffset, byteLength);
    return Array.from({ length: byteLength / 2 }, (_, i) => view.getUint16(2 * i));
  });
}

test('ipsets are read by name with their references and ports', async () => {
  const { kernel, namespace } = await createKernel();
  expect(await dumped(kernel, 'ipset', { kind: 'ipsetsDump' })).toEqual([]);
  await namespace.run('ipset', ['restore'], script);
  const records = await dumped(kernel, 'ipset', { kind: 'ipsetsDump' });
  const sets = records.map(({ set, type, references }) => [set, type, references]);
  expect(sets).toEqual([
    ['KUBE-CLUSTER-IP', 'hash:ip,port', 0],
    ['KUBE-NODE-PORT-TCP', 'bitmap:port', 0],
    ['KUBE-NODE-PORT-SCTP-HASH', 'hash:ip,port', 0],
    ['KUBE-6-CLUSTER-IP', 'hash:ip,port', 0],
    ['mine', 'hash:net', 1],
    ['all', 'list:set', 0],
  ]);
  expect(await ports(kernel, 'KUBE-NODE-PORT-TCP')).toEqual([30080, 30443]);
  expect(await ports(kernel, 'KUBE-NODE-PORT-SCTP-HASH')).toEqual([30999]);
  expect(await ports(kernel, 'KUBE-6-CLUSTER-IP')).toEqual([]);
  expect(await ports(kernel, 'nowhere')).toEqual([]);
});

test('ipsets are read completely if their members need several messages', async () => {
  const { kernel, namespace } = await createKernel();
  const all = Array.from({ length: 5000 }, (_, i) => 30_000 + i);
  const members = all.map((port) => `add KUBE-NODE-PORT-UDP ${port}\n`);
  const create = 'create KUBE-NODE-PORT-UDP bitmap:port range 0-65535\n';
  await namespace.run('ipset', ['restore'], create + members.join(''));
  expect(await ports(kernel, 'KUBE-NODE-PORT-UDP')).toEqual(all);
});

test('ipsets are destroyed one by one, except those with references', async () => {
  const { kernel, namespace } = await createKernel();
  await namespace.run('ipset', ['restore'], script);
  const names = ['KUBE-CLUSTER-IP', 'nowhere', 'mine', 'KUBE-6-CLUSTER-IP', ''];
  const ops = names.map((set) => ({ kind: 'ipsetDestroy', set }) as const);
  const result = await kernel.apply(batch(...ops));
  expect(result).toMatchObject({
    kind: 'failed',
    partly: true,
    failures: [
      { op: 4, code: 'EINVAL' },
      { op: 2, code: 'EPROTO' },
    ],
  });
  const left = await namespace.run('ipset', ['list', '-name']);
  const expected = ['KUBE-NODE-PORT-TCP', 'KUBE-NODE-PORT-SCTP-HASH', 'mine', 'all'];
  expect(left.trim().split('\n').sort()).toEqual(expected.sort());
});
