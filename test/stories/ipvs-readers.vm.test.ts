/** What mode ipvs has in the kernel, as ipvsadm(8) and ip(8) read it, and what drains there. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { ipvsMode } from '../../src/modes/ipvs/mode.ts';
import { formatEndpoint } from '../../src/net/address.ts';
import { noPause } from '../../src/time/pacer.ts';
import { FAMILIES, type Family, hostPort, POD_A_IP, POD_B_IP, POD_C_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE, settings, slices } from '../lab/objects.ts';
import { paced } from '../lab/pace.ts';
import { frontends, reachable, vip } from './common.ts';
import { fairlead } from './fairlead-proxy.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

/** The input of ipvsadm that would create a virtual service, and its real servers with weights. */
async function virtualServices(): Promise<Map<string, string[]>> {
  const services = new Map<string, string[]>();
  for (const line of (await lab.node.run(['ipvsadm', '-Sn'])).split('\n')) {
    const [, kind, service, rest] = /^-([Aa]) -t (\S+) (.*)$/.exec(line.trim()) ?? [];
    if (service === undefined) continue;
    if (kind === 'A') services.set(service, []);
    else services.get(service)!.push(rest!.trim());
  }
  for (const servers of services.values()) servers.sort();
  return services;
}

function realServers(weights: readonly (readonly [Record<Family, string>, number])[]) {
  return (family: Family): string[] =>
    weights.map(([ip, weight]) => `-r ${hostPort(ip[family], 8080)} -m -w ${weight}`).sort();
}

test('ipvsadm lists each frontend with its endpoints, and ip each virtual address', async () => {
  const proxy = fairlead('ipvs');
  const objects = [...BASELINE, reachable(), ...slices('web', ['pod-a', 'pod-b', 'pod-c'])];
  const running = await proxy.start(lab.node, settings, objects);
  const found = await virtualServices();
  const expected = realServers([
    [POD_A_IP, 1],
    [POD_B_IP, 1],
    [POD_C_IP, 1],
  ]);
  const bound = await lab.node.run(['ip', '-o', 'addr', 'show', 'dev', 'kube-ipvs0']);
  for (const [name, { addresses, port }] of Object.entries(frontends)) {
    for (const family of FAMILIES) {
      const address = addresses[family]!;
      expect(found.get(hostPort(address, port))).toEqual(expected(family));
      if (name !== 'nodePort')
        expect(bound).toMatch(` ${address}/${family === 'IPv4' ? 32 : 128} `);
    }
  }
  await running.apply(BASELINE);
  expect(await virtualServices()).toEqual(new Map());
  const left = await lab.node.run(['ip', '-o', 'addr', 'show', 'dev', 'kube-ipvs0']);
  expect(left.match(/inet6? (?!fe80)\S+/g)).toBeNull();
  await running.stop();
  await proxy.cleanup(lab.node);
  await lab.reset();
});

test('counts of IPVS are reported by frontend and endpoint', async () => {
  const { client } = lab.actors;
  for (const family of FAMILIES) {
    await lab.actors['pod-a'].listen('TCP', POD_A_IP[family], 8080);
  }
  const proxy = fairlead('ipvs');
  const objects = [...BASELINE, reachable(), ...slices('web', ['pod-a'])];
  const running = await proxy.start(lab.node, settings, objects);
  await lab.node.run(['ipvsadm', '-A', '-t', '192.0.2.200:80', '-s', 'rr']);
  const kernel = openKernel({ netns: lab.node.namespacePath });
  for (const family of FAMILIES) {
    const to = { address: vip[family], port: 80 };
    await client.connect({ protocol: 'TCP', to, timeoutMs: paced(3000) }, 3);
    const told = async (): Promise<string[]> => {
      const texts: string[] = [];
      await ipvsMode.trafficCounts!(kernel, family, noPause, ({ count, destination, of }) => {
        const { address, port } = destination;
        const end = of.kind === 'endpoint' ? ` -> ${of.endpoint}` : '';
        texts.push(`${formatEndpoint(address!.bytes, port!)}${end}: ${count}`);
        return '';
      });
      return texts.sort();
    };
    const frontend = hostPort(vip[family], 80);
    const wanted = [`${frontend} -> ${hostPort(POD_A_IP[family], 8080)}: 3`, `${frontend}: 3`];
    // The kernel adds counts up every two seconds, in the middle of the connections, too.
    const endMs = performance.now() + paced(10_000);
    let texts = await told();
    while (texts.join() !== wanted.join() && performance.now() < endMs) {
      await sleep(paced(200));
      texts = await told();
    }
    expect(texts).toEqual(wanted);
  }
  kernel.close();
  await running.stop();
  await proxy.cleanup(lab.node);
  await lab.reset();
});

test('a removed endpoint drains through a restart, and is deleted with its last connection', async () => {
  const { client } = lab.actors;
  for (const family of FAMILIES) {
    await lab.actors['pod-a'].listen('TCP', POD_A_IP[family], 8080);
    await lab.actors['pod-b'].listen('TCP', POD_B_IP[family], 8080);
  }
  const proxy = fairlead('ipvs');
  const withA = [...BASELINE, reachable(), ...slices('web', ['pod-a'])];
  const withB = [...BASELINE, reachable(), ...slices('web', ['pod-b'])];
  const first = await proxy.start(lab.node, settings, withA);
  for (const family of FAMILIES) {
    const to = { address: vip[family], port: 80 };
    const attempt = { protocol: 'TCP', to, timeoutMs: paced(3000) } as const;
    expect(await client.open(family, attempt)).toMatchObject({ by: 'pod-a' });
  }
  await first.apply(withB);
  await first.stop();
  const second = await proxy.start(lab.node, settings, withB);

  const draining = realServers([
    [POD_A_IP, 0],
    [POD_B_IP, 1],
  ]);
  const drained = realServers([[POD_B_IP, 1]]);
  const service = (family: Family): string => hostPort(vip[family], 80);
  for (const family of FAMILIES) {
    expect((await virtualServices()).get(service(family))).toEqual(draining(family));
    expect(await client.resume(family, paced(3000))).toMatchObject({ by: 'pod-a' });
    await client.close(family);
  }
  // The kernel keeps a connection that was reset for some seconds.
  const endMs = performance.now() + paced(30_000);
  const isDrained = async (): Promise<boolean> => {
    const found = await virtualServices();
    return FAMILIES.every((family) => found.get(service(family))?.length === 1);
  };
  while (!(await isDrained()) && performance.now() < endMs) await sleep(paced(200));
  for (const family of FAMILIES) {
    expect((await virtualServices()).get(service(family))).toEqual(drained(family));
  }
  await second.stop();
  await proxy.cleanup(lab.node);
  await lab.reset();
});
