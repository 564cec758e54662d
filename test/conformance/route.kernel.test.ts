/** Links and addresses, read back by ip(8). A bridge stands in for the dummy device, which needs
 * no more than its name either. */
import { expect, test } from 'vitest';
import type { KernelOp } from '../../src/kernel/ops.ts';
import { IFA_F } from '../../src/kernel/route-ops.ts';
import { formatAddress } from '../../src/net/address.ts';
import { until } from '../process/program.ts';
import { createKernel, createNamespace, type Namespace } from './namespace.ts';
import { applied, batch, dumped } from './ops.ts';
import { AF, addAddresses, addLink, deleteAddresses } from './single-cases.ts';

/** IFF_*: flags of a link (linux/if.h). */
const IFF = { UP: 0x1, LOOPBACK: 0x8 } as const;

/** The addresses of a link, as ip(8) lists them, without the one that the kernel itself makes. */
async function listed(namespace: Namespace, link = 'vips'): Promise<string[]> {
  const output = await namespace.run('ip', ['-brief', 'address', 'show', 'dev', link]);
  const words = output.trim().split(/\s+/).slice(2);
  return words.filter((word) => !word.startsWith('fe80:')).sort();
}

test('a link and its addresses are created and deleted in one buffer, in its order', async () => {
  const { kernel, namespace } = await createKernel();
  const vips = [addAddresses('vips', '10.96.0.10', '10.96.0.11'), addAddresses('vips', 'fd00::10')];
  await applied(kernel, addLink, ...vips);
  expect(await listed(namespace)).toEqual(['10.96.0.10/32', '10.96.0.11/32', 'fd00::10/128']);
  await applied(kernel, deleteAddresses('vips', '10.96.0.10'), deleteAddresses('vips', 'fd00::10'));
  expect(await listed(namespace)).toEqual(['10.96.0.11/32']);
  await applied(kernel, { kind: 'linkDelete', link: 'vips' });
  await expect(namespace.run('ip', ['link', 'show', 'vips'])).rejects.toThrow('does not exist');
});

test('a link that was recreated with the same name gets the addresses that follow', async () => {
  const { kernel, namespace } = await createKernel();
  const deletion = { kind: 'linkDelete', link: 'vips' } as const;
  await applied(
    kernel,
    addLink,
    addAddresses('vips', '10.0.0.1'),
    deletion,
    addLink,
    addAddresses('vips', '10.0.0.2'),
  );
  expect(await listed(namespace)).toEqual(['10.0.0.2/32']);
});

test('addresses are deleted by the index of a link, too, with their flags', async () => {
  const { kernel, namespace } = await createKernel();
  await applied(kernel, addLink);
  await namespace.run('ip', ['link', 'set', 'vips', 'up']);
  const link = JSON.parse(await namespace.run('ip', ['-json', 'link', 'show', 'vips']));
  const { ifindex: index } = (link as { ifindex: number }[])[0]!;
  const flags = IFA_F.NODAD;
  await applied(kernel, { ...addAddresses('', 'fd00::1'), index, flags });
  expect(await listed(namespace)).toEqual(['fd00::1/128']);
  const shown = await namespace.run('ip', ['address', 'show', 'dev', 'vips']);
  expect(shown).toContain('inet6 fd00::1/128 scope global nodad');
});

test('each failure names its op and entry, and the others are applied', async () => {
  const { kernel, namespace } = await createKernel();
  const ops: KernelOp[] = [
    addLink,
    addAddresses('vips', '10.0.0.1', '10.0.0.2', '10.0.0.1', '10.0.0.3'),
    addAddresses('absent', '10.0.0.4'),
    deleteAddresses('vips', '10.0.0.9', '10.0.0.2'),
    { ...addLink, link: 'other', type: 'no-such-type' },
    { ...addLink, link: 'a-name-of-17-byte' },
    addLink,
    { kind: 'linkDelete', link: 'absent' },
    addAddresses('vips', '10.0.0.5'),
  ];
  const result = await kernel.apply(batch(...ops));
  expect(result).toMatchObject({ kind: 'failed', partly: true });
  const failures = result.kind === 'failed' ? result.failures : [];
  const found = failures.map(({ op, entry, code }) => [op, entry, code]);
  expect(found.sort()).toEqual([
    [1, 2, 'EEXIST'],
    [2, undefined, 'ENODEV'],
    [3, 0, 'EADDRNOTAVAIL'],
    [4, undefined, 'EOPNOTSUPP'],
    [5, undefined, 'EINVAL'],
    [7, undefined, 'ENODEV'],
  ]);
  expect(failures[0]!.message).not.toBe('');
  expect(await listed(namespace)).toEqual(['10.0.0.1/32', '10.0.0.3/32', '10.0.0.5/32']);
});

test('thousands of failures are all reported, for any size of the receive buffer', async () => {
  const { kernel, namespace } = await createKernel({ receiveBufferBytes: 4096 });
  const texts = Array.from({ length: 3000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`);
  await applied(kernel, addLink, addAddresses('vips', ...texts));
  expect(await listed(namespace)).toHaveLength(3000);
  const result = await kernel.apply(batch(addAddresses('vips', ...texts)));
  const failures = result.kind === 'failed' ? result.failures : [];
  const entries = failures.map(({ op, entry, code }) => `${op} ${entry} ${code}`);
  expect(entries).toEqual(texts.map((_, i) => `0 ${i} EEXIST`));
  expect(result).toMatchObject({ partly: false });
});

test('runs of several families keep their order, and stop at the first that fails', async () => {
  const { kernel, namespace } = await createKernel();
  const inTable = { family: AF.INET, table: 't' } as const;
  const addTable = { kind: 'tableAdd', ...inTable, comment: '' } as const;
  const badTable = { kind: 'chainDelete', ...inTable, chain: 'absent' } as const;
  const result = await kernel.apply(
    batch(
      addTable,
      addLink,
      addAddresses('vips', '10.0.0.1'),
      badTable,
      addAddresses('vips', '10.0.0.2'),
    ),
  );
  expect(result).toMatchObject({
    kind: 'failed',
    partly: true,
    failures: [{ op: 3, code: 'ENOENT' }],
  });
  expect(await listed(namespace)).toEqual(['10.0.0.1/32']);
  expect(await namespace.run('nft', ['list', 'tables'])).toBe('table ip t\n');
  const refused = await kernel.apply(batch(addAddresses('vips', '10.0.0.1'), badTable));
  expect(refused).toMatchObject({ partly: false, failures: [{ op: 0, code: 'EEXIST' }] });
});

test('links and addresses are read, and missing ones return no records', async () => {
  const { kernel, namespace } = await createKernel();
  await namespace.run('ip', ['address', 'add', '127.0.0.2/8', 'dev', 'lo']);
  await namespace.run('ip', ['link', 'set', 'lo', 'up']);
  await applied(
    kernel,
    addLink,
    addAddresses('vips', '10.96.0.10', '10.96.0.11'),
    addAddresses('vips', 'fd00::10'),
  );
  const [link] = await dumped(kernel, 'link', { kind: 'linkGet', link: 'vips' });
  const index = Number(await namespace.run('cat', ['/sys/class/net/vips/ifindex']));
  expect(link).toEqual({
    kind: 'link',
    link: 'vips',
    index,
    type: 'bridge',
    flags: expect.any(Number),
    master: 0,
    leaves: 0,
  });
  expect(link!.flags & IFF.UP).toBe(0);
  const [loopback] = await dumped(kernel, 'link', { kind: 'linkGet', link: 'lo' });
  expect(loopback).toMatchObject({ index: 1, type: '' });
  expect(loopback!.flags & (IFF.UP | IFF.LOOPBACK)).toBe(IFF.UP | IFF.LOOPBACK);

  const texts = async (family: number, name: string): Promise<string[]> => {
    const request = { kind: 'addressesDump', family, link: name } as const;
    const records = await dumped(kernel, 'address', request);
    return records.map(
      (each) => `${each.index} ${formatAddress(each.address)}/${each.prefixLength} ${each.scope}`,
    );
  };
  const ours = [`${index} 10.96.0.10/32 0`, `${index} 10.96.0.11/32 0`];
  expect(await texts(AF.INET, 'vips')).toEqual(ours);
  expect(await texts(AF.INET6, 'vips')).toEqual([`${index} fd00::10/128 0`]);
  expect(await texts(0, 'vips')).toEqual([...ours, `${index} fd00::10/128 0`]);
  const host = ['1 127.0.0.1/8 254', '1 127.0.0.2/8 254'];
  expect((await texts(AF.INET, '')).sort()).toEqual([...host, ...ours].sort());
  expect(await texts(0, 'absent')).toEqual([]);
  expect(await dumped(kernel, 'link', { kind: 'linkGet', link: 'absent' })).toEqual([]);
});

test('thousands of addresses are read', async () => {
  const { kernel, namespace } = await createKernel();
  const lines = Array.from({ length: 5000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`);
  const script = lines.map((text) => `address add ${text}/32 dev lo\n`).join('');
  await namespace.run('ip', ['-batch', '-'], script);
  const request = { kind: 'addressesDump', family: 0, link: 'lo' } as const;
  const records = await dumped(kernel, 'address', request);
  expect(records.map(({ address }) => formatAddress(address))).toEqual(lines);
});

test('all links are listed, with their bridges, and which lead elsewhere', async () => {
  const { kernel, namespace } = await createKernel();
  const other = await createNamespace();
  const peer = ['peer', 'name', 'eth0', 'netns', other.name];
  await namespace.run('ip', ['link', 'add', 'br0', 'type', 'bridge']);
  await namespace.run('ip', ['link', 'add', 'pod', 'type', 'veth', ...peer]);
  await namespace.run('ip', ['link', 'set', 'pod', 'master', 'br0']);
  const links = await dumped(kernel, 'link', { kind: 'linksDump' });
  const named = (name: string) => links.find(({ link }) => link === name);
  expect(links.map(({ link }) => link).sort()).toEqual(['br0', 'lo', 'pod']);
  expect(named('pod')).toMatchObject({ type: 'veth', master: named('br0')!.index, leaves: 1 });
  expect(named('br0')).toMatchObject({ type: 'bridge', master: 0, leaves: 0 });
});

test('neighbours are read that the kernel asks for a link-layer address in vain', async () => {
  const { kernel, namespace } = await createKernel();
  const neighbour = (address: string, ...state: string[]) =>
    namespace.run('ip', ['neigh', 'add', address, 'dev', 'br0', ...state]);
  await namespace.run('ip', ['link', 'add', 'br0', 'up', 'type', 'bridge']);
  await neighbour('192.0.2.7', 'nud', 'failed');
  await neighbour('192.0.2.8', 'lladdr', '02:00:00:00:00:01', 'nud', 'permanent');
  await neighbour('fd00::9', 'nud', 'incomplete');
  const found = await dumped(kernel, 'deadNeighbour', { kind: 'deadNeighboursDump' });
  const index = Number(await namespace.run('cat', ['/sys/class/net/br0/ifindex']));
  expect(found.map((one) => [one.index, formatAddress(one.address)])).toEqual([
    [index, '192.0.2.7'],
    [index, 'fd00::9'],
  ]);
});

test('a watch of links reports those that are added and removed, and nothing else', async () => {
  const { kernel, namespace } = await createKernel();
  let told = 0;
  const ended = (error: Error): void => expect.unreachable(error.message);
  const changed = (): void => {
    told += 1;
  };
  const stop = kernel.watchLinks!({ changed, ended });
  await until(async () => told > 0, 'the watch has begun');
  let before = told;
  await namespace.run('ip', ['link', 'add', 'br0', 'type', 'bridge']);
  await until(async () => told > before, 'it was told of the link');
  before = told;
  await namespace.run('ip', ['link', 'del', 'br0']);
  await until(async () => told > before, 'it was told of its end');
  stop();
});
