/**
 * How long does it take to write a cluster to IPVS, to read it back, and to change one destination?
 * It measures only the edge to the kernel, and ipvsadm(8) with the same content. Needs a kernel
 * with IPVS: `npm run test:vm -- --only 6.12 -- node bench/main.ts ipvs-load`.
 */
import { isKernelError } from '../src/kernel/errors.ts';
import { IP_VS_CONN_F } from '../src/kernel/ipvs-ops.ts';
import type { Kernel } from '../src/kernel/kernel.ts';
import { openKernel } from '../src/kernel/native-kernel.ts';
import { type KernelOp, kernelOps } from '../src/kernel/ops.ts';
import { RecordWriter } from '../src/kernel/records.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { number, ratio, summarise, table } from './lib/stats.ts';
import { timed } from './lib/timed.ts';

const sizes: readonly Size[] = [
  { services: 1000, endpoints: 10 },
  { services: 5000, endpoints: 10 },
];
const changes = 200;

const head = ['cluster', 'load', 'ipvsadm -R', 'ratio', 'read', 'ipvsadm -Sn', 'change p50', 'p99'];

export async function ipvsLoad(): Promise<string> {
  const rows: string[][] = [];
  try {
    for (const size of sizes) rows.push(await row(size));
  } catch (error) {
    if (!isKernelError(error, 'EPROTONOSUPPORT')) throw error;
    return 'IPVS: not measured, this kernel has none';
  }
  return `IPVS by netlink beside ipvsadm; ms, one run\n\n${table(head, rows)}`;
}

async function row(size: Size): Promise<string[]> {
  const ours = await inNamespace('ipvs-ours', (namespace) => measure(namespace, size));
  const theirs = await inNamespace('ipvs-theirs', async (namespace) => {
    namespace.run('ip', ['link', 'set', 'lo', 'up']);
    const text = script(size);
    const load = await timed(() => namespace.run('ipvsadm', ['-R'], text));
    return { load, read: await timed(() => namespace.run('ipvsadm', ['-Sn'])) };
  });
  const { p50, p99 } = summarise(ours.changes);
  const times = [number(ours.load), number(theirs.load), ratio(ours.load, theirs.load)];
  const reads = [number(ours.read), number(theirs.read)];
  return [sizeName(size), ...times, ...reads, number(p50), number(p99)];
}

async function measure(namespace: Namespace, size: Size) {
  namespace.run('ip', ['link', 'set', 'lo', 'up']);
  const kernel = openKernel({ netns: namespace.path });
  try {
    // Fails early without IPVS. A kernel that has it as a module loads it.
    await kernel.dump({ kind: 'ipvsInfoGet' });
    const load = await timed(() => apply(kernel, clusterOps(size)));
    const all = { family: 0, protocol: 0, address: new Uint8Array(0), port: 0 };
    const read = await timed(() => kernel.dump({ kind: 'destinationsDump', ...all }));
    const addition = destination(size.services - 1, 0);
    const deletion = { ...addition, kind: 'destinationDelete' } as const;
    const times: number[] = [];
    for (let i = 0; i < changes; i += 1) {
      times.push(await timed(() => apply(kernel, [i % 2 === 0 ? deletion : addition])));
    }
    return { load, read, changes: times };
  } finally {
    kernel.close();
  }
}

function* clusterOps(size: Size): Generator<KernelOp> {
  const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, prefixLength: 32 };
  for (let i = 0; i < size.services; i += 1) {
    yield { kind: 'virtualServiceAdd', ...service(i), ...settings };
    for (let j = 0; j < size.endpoints; j += 1) yield destination(i, j);
  }
}

function service(index: number) {
  const address = Uint8Array.of(10, 96, index >> 8, index & 0xff);
  return { family: 2, protocol: 6, address, port: 80 };
}

function destination(of: number, index: number): Extract<KernelOp, { kind: 'destinationAdd' }> {
  const server = Uint8Array.of(10, 128 + index, of >> 8, of & 0xff);
  const limits = { upperThreshold: 0, lowerThreshold: 0 };
  const settings = { forwarding: IP_VS_CONN_F.MASQ, weight: 1, ...limits };
  const key = { ...service(of), destination: server, destinationPort: 8080 };
  return { kind: 'destinationAdd', ...key, ...settings };
}

async function apply(kernel: Kernel, ops: Iterable<KernelOp>): Promise<void> {
  const writer = new RecordWriter(kernelOps);
  for (const op of ops) writer.write(op.kind, op as never);
  const result = await kernel.apply(writer.finish());
  if (result.kind === 'failed') throw new Error(`refused: ${JSON.stringify(result.failures[0])}`);
}

/** The same content for ipvsadm -R. */
function script(size: Size): string {
  const lines: string[] = [];
  for (let i = 0; i < size.services; i += 1) {
    const vip = `10.96.${i >> 8}.${i & 0xff}:80`;
    lines.push(`-A -t ${vip} -s rr`);
    for (let j = 0; j < size.endpoints; j += 1) {
      lines.push(`-a -t ${vip} -r 10.${128 + j}.${i >> 8}.${i & 0xff}:8080 -m -w 1`);
    }
  }
  return `${lines.join('\n')}\n`;
}
