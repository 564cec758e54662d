/** A node that is configured to use ipvs, on kernels with IPVS and without. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { askKernel } from '../lab/ask-kernel.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { Downloads, objects, settings, vip } from './downloads.ts';
import { fairlead, type LogLine } from './fairlead-proxy.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

async function hasIPVS(): Promise<boolean> {
  try {
    await askKernel(lab.node, (kernel) => kernel.dump({ kind: 'ipvsInfoGet' }));
    return true;
  } catch (error) {
    expect(error).toMatchObject({ code: 'EPROTONOSUPPORT' });
    return false;
  }
}

test('mode ipvs runs if the kernel has IPVS; otherwise iptables does, and the log has the reason', async () => {
  const { node } = lab;
  const downloads = new Downloads(lab);
  await downloads.listen();
  const lines: LogLine[] = [];
  const proxy = fairlead('ipvs', { log: (line) => lines.push(line) });
  const running = await proxy.start(node, settings, objects);
  await downloads.connect();
  const fallbacks = lines.filter((line) => JSON.stringify(line).includes('ip_vs'));
  if (await hasIPVS()) {
    expect(fallbacks).toEqual([]);
    expect(await node.run(['ipvsadm', '-Ln'])).toContain(`${vip.IPv4}:80`);
  } else {
    expect(fallbacks).toHaveLength(1);
    expect(fallbacks[0]).toMatchObject({ from: 'ipvs', to: 'iptables' });
    expect(await node.run(['iptables-save', '-t', 'nat'])).toContain(`-d ${vip.IPv4}/32`);
  }
  await running.stop();
  await proxy.cleanup(node);
  await lab.reset();
});
