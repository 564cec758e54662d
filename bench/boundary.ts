/**
 * What does an element cost on each side of the boundary, compared with its cost in the kernel? The
 * load is a whole cluster, planned and encoded, in one transaction.
 */
import { loadAddon } from '../src/kernel/addon.ts';
import { openKernel } from '../src/kernel/native-kernel.ts';
import { replies } from '../src/kernel/ops.ts';
import { readRecords } from '../src/kernel/records.ts';
import { nftablesMode } from '../src/modes/nftables/mode.ts';
import { resolve } from '../src/state/resolve.ts';
import { ClusterState } from '../src/state/store.ts';
import type { Forwarding } from '../src/state/types.ts';
import { noPause } from '../src/time/pacer.ts';
import { objects, sizeName } from './lib/cluster.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { config, environment } from './lib/rig.ts';
import { number, table } from './lib/stats.ts';

const size = { services: 8000, endpoints: 30 };

export async function boundary(): Promise<string> {
  const forwardings = resolveAll();
  const elements = size.services * size.endpoints;
  // The second round shows what a warm process pays.
  let rows: string[][] = [];
  for (const round of ['first', 'second']) {
    const planner = nftablesMode.planner(config, environment);
    const startedMs = performance.now();
    for (const forwarding of forwardings) planner.change(undefined, forwarding);
    const batch = planner.take();
    const planNs = ((performance.now() - startedMs) * 1e6) / elements;
    const { encodeUs, kernelUs } = await apply(batch!.ops);
    const each = (us: number): string => `${number((us * 1000) / elements)} ns`;
    rows = [...rows, [round, `${number(planNs)} ns`, each(encodeUs), each(kernelUs)]];
  }
  const head = ['round', 'TypeScript: plan and write ops', 'C++: ops to netlink', 'kernel'];
  return `Boundary, ${sizeName(size)}, for each element\n\n${table(head, rows)}`;
}

function resolveAll(): Forwarding[] {
  const state = new ClusterState();
  for (const change of objects(size)) state.apply(change);
  const context = { zone: '', nodeAddresses: [], externalIPsEnabled: true };
  return [...state.serviceKeys()].flatMap((key) =>
    resolve(state.service(key)!, state.slices(key), context),
  );
}

async function apply(ops: Uint8Array): Promise<{ encodeUs: number; kernelUs: number }> {
  return inNamespace('boundary', async (namespace) => {
    const { Socket } = loadAddon();
    const socket = new Socket({ netns: namespace.path });
    try {
      await writeFixedObjects(namespace);
      for (const reply of readRecords(replies, await socket.submit(ops))) {
        if (reply.kind === 'committed') return reply;
        throw new Error(`the kernel refused: ${JSON.stringify(reply)}`);
      }
      throw new Error('the kernel did not answer');
    } finally {
      socket.close();
    }
  });
}

async function writeFixedObjects(namespace: Namespace): Promise<void> {
  const kernel = openKernel({ netns: namespace.path });
  const planner = nftablesMode.planner(config, environment);
  const found = await planner.observe(kernel, noPause);
  await found.repair(noPause);
  await kernel.apply(planner.take()!.ops);
  kernel.close();
}
