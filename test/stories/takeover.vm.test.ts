/** Downloads through IPVS of kube-proxy's run on when nftables mode takes over. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FAMILIES, POD_B_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { allFromB, Downloads, objects, settings, untilTold, vip } from './downloads.ts';
import { fairlead, type LogLine } from './fairlead-proxy.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

function at(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

/** As kube-proxy's ipvs mode does, without its rules. */
async function kubeProxy(): Promise<void> {
  const { node } = lab;
  await node.run(['ip', 'link', 'add', 'kube-ipvs0', 'type', 'dummy']);
  await node.run(['sysctl', '-q', '-w', 'net.ipv4.vs.conntrack=1']);
  await node.run(['sysctl', '-q', '-w', 'net.ipv4.vs.expire_nodest_conn=1']);
  for (const family of FAMILIES) {
    await node.run(['ip', 'address', 'add', vip[family], 'dev', 'kube-ipvs0']);
    const [from, to] = [at(vip[family], 80), at(POD_B_IP[family], 8080)];
    await node.run(['ipvsadm', '-A', '-t', from, '-s', 'rr']);
    await node.run(['ipvsadm', '-a', '-t', from, '-r', to, '-m', '-w', '1']);
    // No Service uses this one.
    await node.run(['ipvsadm', '-A', '-t', at(vip[family], 81), '-s', 'rr']);
  }
  await node.run(['ipset', 'create', 'KUBE-6-CLUSTER-IP', 'hash:ip,port', 'family', 'inet6']);
}

test("downloads survive the switch from kube-proxy's ipvs mode", async () => {
  const { node } = lab;
  const downloads = new Downloads(lab);
  await downloads.listen();
  await kubeProxy();
  expect(await downloads.open('')).toEqual(allFromB);

  const lines: LogLine[] = [];
  const proxy = fairlead('nftables', { log: (line) => lines.push(line) });
  const running = await proxy.start(node, settings, objects);
  await untilTold(
    lines,
    "Removed kube-proxy's IPVS services, except those with active connections",
  );
  const left = await node.run(['ipvsadm', '-Ln']);
  expect(left).toContain(at(vip.IPv4, 80));
  expect(left).not.toContain(at(vip.IPv4, 81));
  expect(await node.run(['ipset', 'list', '-name'])).toBe('');
  await downloads.connect();
  expect(await downloads.resume('')).toEqual(allFromB);
  await running.stop();
  await proxy.cleanup(node);
  await node.run(['ipvsadm', '-C']);
  await node.run(['ip', 'link', 'delete', 'kube-ipvs0']);
  await lab.reset();
});
