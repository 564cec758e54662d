/** The proxy takes over: never before its own rules are in the kernel, and were read back. */
import { expect, it, onTestFinished } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { resources } from '../../../src/state/change.ts';
import { quiet } from '../sync/double.ts';
import { ClosableKernel, configOf, Running, web } from './running.ts';

const table = 'kube-proxy';

function withKubeProxy(): ClosableKernel {
  const kernel = new ClosableKernel();
  const writer = new RecordWriter(nftOps);
  writer.write('tableAdd', { family: NFPROTO.IPv4, table, comment: 'rules for kube-proxy' });
  kernel.foreign(writer.finish());
  return kernel;
}

async function running(kernel: ClosableKernel): Promise<Running> {
  const app = new Running(await configOf('--manifests=/anywhere'));
  await app.start({ kernel });
  onTestFinished(() => app.stop());
  return app;
}

it("kube-proxy's table is removed when Fairlead's is in force, and not before", async () => {
  const kernel = withKubeProxy();
  const app = await running(kernel);
  app.source.say(...web);
  await app.clock.pass(100_000);
  expect(kernel.table(NFPROTO.IPv4, table)).toBeDefined();
  app.source.listed(...resources);
  await app.clock.pass(1000);
  expect(kernel.table(NFPROTO.IPv4, table)).toBeUndefined();
  const started = app.logged.indexOf('Kernel state verified');
  const removed = app.logged.indexOf('Took over from kube-proxy; removed its rules');
  expect(started).toBeGreaterThanOrEqual(0);
  expect(removed).toBeGreaterThan(started);
  const metrics = await (await app.get('metrics', '/metrics')).text();
  expect(metrics).toContain('fairlead_takeover_removed_total{kind="tables"} 1\n');
});

it("the takeover waits while the kernel's state differs from the programmed one", async () => {
  const kernel = withKubeProxy();
  kernel.failNext({ code: 'ENOMEM', times: Number.POSITIVE_INFINITY });
  const app = await running(kernel);
  app.source.say(...web);
  app.source.listed(...resources);
  await app.clock.pass(100_000);
  expect(kernel.table(NFPROTO.IPv4, table)).toBeDefined();
  kernel.heal();
  await app.clock.pass(100_000);
  expect(kernel.table(NFPROTO.IPv4, 'fairlead')).toBeDefined();
  expect(kernel.table(NFPROTO.IPv4, table)).toBeUndefined();
});

it('the takeover waits while another program undoes changes, until these are repaired', async () => {
  const kernel = withKubeProxy();
  const app = await running(kernel);
  // Deletes our table as soon as it is there, once.
  const { apply } = kernel;
  let undone = false;
  let soundAtRemoval: boolean | undefined;
  kernel.apply = async (ops) => {
    const before = kernel.table(NFPROTO.IPv4, table);
    const result = await apply.call(kernel, ops);
    if (before !== undefined && kernel.table(NFPROTO.IPv4, table) === undefined) {
      soundAtRemoval = kernel.table(NFPROTO.IPv4, 'fairlead') !== undefined;
    }
    if (!undone && kernel.table(NFPROTO.IPv4, 'fairlead') !== undefined) {
      undone = true;
      const writer = new RecordWriter(nftOps);
      writer.write('tableDelete', { family: NFPROTO.IPv4, table: 'fairlead' });
      kernel.foreign(writer.finish());
    }
    return result;
  };
  app.source.say(...web);
  app.source.listed(...resources);
  await app.clock.pass(60_000);
  await quiet();
  expect([undone, soundAtRemoval]).toEqual([true, true]);
  expect(kernel.elements(NFPROTO.IPv4, 'fairlead', 'services')).toHaveLength(1);
});
