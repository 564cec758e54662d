/** Downloads through a Service run across the switch from kube-proxy, and are not cut. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { builtModes } from '../../src/modes/index.ts';
import { iptablesMode } from '../../src/modes/iptables/mode.ts';
import { mixedRules, nftablesRules, restoreText } from '../conformance/kube-proxy-rules.ts';
import { clusterIp, FAMILIES, type Family, POD_A_IP, POD_B_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE, service, settings, slices } from '../lab/objects.ts';
import { answerMs } from '../lab/pace.ts';
import { serverOf } from '../lab/who-answers.ts';
import { until } from '../process/program.ts';
import { kubeProxyAddresses, untilTold } from './downloads.ts';
import { fairlead, type LogLine } from './fairlead-proxy.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

const vip = clusterIp(10);

const programs = { IPv4: 'iptables', IPv6: 'ip6tables' } as const;

async function iptables(backend: 'nft' | 'legacy', policy: 'ACCEPT' | 'DROP'): Promise<void> {
  for (const family of FAMILIES) {
    const rules = mixedRules(kubeProxyAddresses(family), policy);
    const program = `${programs[family]}-${backend}-restore`;
    await lab.node.run([program], restoreText(rules, ['kube-proxy', 'others']));
  }
}

/** All rules that packets may meet. */
async function allRules(): Promise<string> {
  const texts = [await lab.node.run(['nft', 'list', 'ruleset'])];
  for (const family of FAMILIES)
    texts.push(await lab.node.run([`${programs[family]}-legacy-save`]));
  return texts.join('');
}

/** `lab.reset` knows nothing of these tables. */
async function emptyLegacy(): Promise<void> {
  const tables = ['nat', 'filter', 'mangle'].map((table) => `*${table}\nCOMMIT\n`);
  for (const family of FAMILIES) {
    await lab.node.run([`${programs[family]}-legacy-restore`], tables.join(''));
  }
}

async function nftables(): Promise<void> {
  for (const family of FAMILIES) {
    const rules = nftablesRules(family === 'IPv4' ? 'ip' : 'ip6', kubeProxyAddresses(family));
    await lab.node.run(['nft', '-f', '-'], rules);
  }
}

function attempt(family: Family) {
  const to = { address: vip[family], port: 80 };
  return { protocol: 'TCP', to, timeoutMs: answerMs } as const;
}

/** Both families from outside the cluster, and from a pod. */
const clients = (['client', 'pod-a'] as const).flatMap((actor) =>
  FAMILIES.map((family) => ({ actor, family, flow: `download ${family}` })),
);

test.each([
  ["kube-proxy's iptables mode", () => iptables('nft', 'ACCEPT'), 'KUBE-SVC'],
  ["kube-proxy's iptables mode where FORWARD drops", () => iptables('nft', 'DROP'), 'KUBE-SVC'],
  ['its iptables mode by iptables-legacy', () => iptables('legacy', 'ACCEPT'), 'KUBE-SVC'],
  ["kube-proxy's nftables mode", nftables, 'service-ULMVA6XW-shop'],
])('downloads survive the switch from %s', async (_, program, trace) => {
  const { actors, node } = lab;
  for (const family of FAMILIES) {
    await actors['pod-a'].listen('TCP', POD_A_IP[family], 8080);
    await actors['pod-b'].listen('TCP', POD_B_IP[family], 8080);
  }
  await program();
  expect(await allRules()).toContain(trace);

  const servers = await Promise.all(
    clients.map(async ({ actor, family, flow }) =>
      serverOf(await actors[actor].open(flow, attempt(family), { download: 'endless' })),
    ),
  );
  for (const server of servers) expect(['pod-a', 'pod-b']).toContain(server);

  const lines: LogLine[] = [];
  const proxy = fairlead('nftables', { log: (line) => lines.push(line) });
  const objects = [...BASELINE, service('web'), ...slices('web', ['pod-a', 'pod-b'])];
  const running = await proxy.start(node, settings, objects);
  await untilTold(lines, 'Took over from kube-proxy; removed its rules', 2);
  expect(await allRules()).not.toContain(trace);

  for (const { actor, family } of clients) {
    const tally = await actors[actor].connect(attempt(family), 16);
    for (const { outcome } of tally) expect(['pod-a', 'pod-b']).toContain(serverOf(outcome));
  }
  const ends = clients.map(async ({ actor, flow }) =>
    serverOf(await actors[actor].resume(flow, answerMs)),
  );
  expect(await Promise.all(ends)).toEqual(servers);
  await running.stop();
  await proxy.cleanup(node);
  await emptyLegacy();
  await lab.reset();
});

test('downloads survive the switch between our modes, and back', async () => {
  const { actors, node } = lab;
  for (const family of FAMILIES) {
    await actors['pod-a'].listen('TCP', POD_A_IP[family], 8080);
    await actors['pod-b'].listen('TCP', POD_B_IP[family], 8080);
  }
  const lines: LogLine[] = [];
  const modes = new Map([...builtModes(), ['iptables', iptablesMode()] as const]);
  const proxy = fairlead('nftables', { modes, log: (line) => lines.push(line) });
  const objects = [...BASELINE, service('web'), ...slices('web', ['pod-a', 'pod-b'])];
  const running = await proxy.start(node, settings, objects);
  const connect = async (): Promise<void> => {
    for (const { actor, family } of clients) {
      const tally = await actors[actor].connect(attempt(family), 16);
      for (const { outcome } of tally) expect(['pod-a', 'pod-b']).toContain(serverOf(outcome));
    }
  };
  const open = (name: string): Promise<string[]> =>
    Promise.all(
      clients.map(async ({ actor, family, flow }) => {
        const download = { download: 'endless' } as const;
        return serverOf(await actors[actor].open(flow + name, attempt(family), download));
      }),
    );
  const resume = (name: string): Promise<string[]> =>
    Promise.all(
      clients.map(async ({ actor, flow }) => {
        return serverOf(await actors[actor].resume(flow + name, answerMs));
      }),
    );
  const replaced = 'Took over from another mode; removed its objects';

  const first = await open(' of nftables');
  await running.switchTo('iptables');
  await untilTold(lines, replaced, 1);
  const ruleset = () => node.run(['nft', 'list', 'ruleset']);
  // The sign in kube-proxy's table goes last.
  await until(async () => !(await ruleset()).includes('fairlead'), 'mode nftables is gone');
  expect(await ruleset()).toContain('KUBE-SVC');
  await connect();
  const second = await open(' of iptables');
  await running.switchTo('nftables');
  // Its rules of each family go by themselves.
  await untilTold(lines, replaced, 3);
  const inNftables = await node.run(['nft', 'list', 'ruleset']);
  expect(inNftables).toContain('table ip6 fairlead');
  expect(inNftables).not.toContain('KUBE-S');
  await connect();
  for (const server of [...first, ...second]) expect(['pod-a', 'pod-b']).toContain(server);
  expect(await resume(' of nftables')).toEqual(first);
  expect(await resume(' of iptables')).toEqual(second);
  await running.stop();
  await proxy.cleanup(node);
  await lab.reset();
});
