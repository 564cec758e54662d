/** What a process of mode userspace leaves to the next one, and to other modes. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { clusterIp, FAMILIES } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE, type KubernetesObject, service, slices } from '../lab/objects.ts';
import { answerMs } from '../lab/pace.ts';
import { until } from '../process/program.ts';
import { NODE_PORT } from './common.ts';
import { Downloads, objects, settings, untilTold, vip } from './downloads.ts';
import { fairleadInside, type KillableProxy } from './fairlead-inside.ts';
import type { LogLine } from './fairlead-proxy.ts';

let lab: Lab;
let downloads: Downloads;
beforeAll(async () => {
  lab = await createLab();
  downloads = new Downloads(lab);
});
afterAll(() => lab.close());

const other = clusterIp(11);
const others = [...BASELINE, service('other', { clusterIp: other }), ...slices('other', ['pod-b'])];
const lines: LogLine[] = [];
const proxy = fairleadInside('userspace', { log: (line) => lines.push(line) });

function start(wanted: readonly KubernetesObject[]): Promise<KillableProxy> {
  lines.length = 0;
  return proxy.start(lab.node, settings, wanted);
}

/** Addresses of the link, sorted; undefined when there is no link. */
async function bound(): Promise<string[] | undefined> {
  const output = await lab.node.run(['ip', '-json', 'addr', 'show']);
  const links = JSON.parse(output) as {
    readonly ifname: string;
    readonly addr_info: readonly { readonly local: string }[];
  }[];
  const link = links.find(({ ifname }) => ifname === 'fairlead0');
  return link?.addr_info.map(({ local }) => local).sort();
}

function addressesOf(...some: readonly (typeof vip)[]): string[] {
  return some.flatMap((each) => FAMILIES.map((family) => each[family])).sort();
}

test('after kill -9 the next process continues to serve, and removes addresses of deleted Services', async () => {
  await downloads.listen();
  const killed = await start([...objects, ...others.slice(BASELINE.length)]);
  await downloads.connect();
  await killed.kill();
  expect(await bound()).toEqual(addressesOf(vip, other));
  const again = await start(objects);
  expect(await bound()).toEqual(addressesOf(vip));
  await downloads.connect();
  await again.stop();
  expect(await bound()).toEqual(addressesOf(vip));
  await proxy.cleanup(lab.node);
  expect(await bound()).toBeUndefined();
  await lab.reset();
});

test('other modes take over from userspace, and it from them, while the process runs', async () => {
  await downloads.listen();
  const running = await start(objects);
  const replaced = 'Took over from another mode; removed its objects';
  for (const [mode, removals] of [
    ['nftables', 1],
    // Its rules of each family go by themselves.
    ['iptables', 2],
  ] as const) {
    lines.length = 0;
    await running.switchTo(mode);
    await untilTold(lines, replaced);
    expect(await bound()).toBeUndefined();
    await downloads.connect();
    expect(await lab.node.run(['ss', '-Htln', 'sport', '=', ':80'])).not.toContain(vip.IPv4);

    lines.length = 0;
    await running.switchTo('userspace');
    await untilTold(lines, replaced, removals);
    const rules = () => lab.node.run(['nft', 'list', 'ruleset']);
    // The sign in kube-proxy's table goes last.
    await until(async () => !/fairlead|KUBE-SERVICES/.test(await rules()), `${mode} is gone`);
    expect(await bound()).toEqual(addressesOf(vip));
    await downloads.connect();
  }
  await running.stop();
  await proxy.cleanup(lab.node);
  await lab.reset();
});

test('a node whose kernel has no netfilter falls back to userspace, and the log has the reason', async () => {
  await downloads.listen();
  for (const [mode, ...steps] of [
    ['ipvs', 'ipvs to iptables', 'iptables to userspace'],
    ['nftables', 'nftables to iptables', 'iptables to userspace'],
    ['iptables', 'iptables to userspace'],
  ] as const) {
    const told: LogLine[] = [];
    const bare = fairleadInside(mode, { log: (line) => told.push(line), netfilter: 'absent' });
    const running = await bare.start(lab.node, settings, objects);
    await downloads.connect();
    const fallbacks = told.filter(({ msg }) => msg === 'Falling back to another mode');
    expect(fallbacks.map(({ from, to }) => `${from} to ${to}`)).toEqual(steps);
    for (const { reason } of fallbacks) expect(reason).toContain('nf_tables');
    await running.stop();
    const advice = 'Configuration may be incomplete or incorrect';
    const isTrouble = ({ level, msg }: LogLine): boolean => level !== 'info' && msg !== advice;
    expect(told.filter(isTrouble)).toEqual(fallbacks);
    expect(await lab.node.run(['nft', 'list', 'ruleset'])).toBe('');
    await bare.cleanup(lab.node);
  }
  await lab.reset();
});

test('without CAP_NET_BIND_SERVICE mode userspace serves all Services except ports below 1024', async () => {
  await downloads.listen();
  const told: LogLine[] = [];
  const log = (line: LogLine): number => told.push(line);
  const without = 'net_bind_service';
  const poor = fairleadInside('userspace', { log, without, errors: 'are told' });
  const high = service('web', { ports: [{ port: 8080 }] });
  const low = service('low', { clusterIp: other });
  const wanted = [...objects.filter(({ kind }) => kind !== 'Service'), high, low];
  const running = await poor.start(lab.node, settings, [...wanted, ...slices('low', ['pod-b'])]);
  await downloads.connect(8080);
  expect(await bound()).toEqual(addressesOf(vip));
  const refused = told.filter(
    ({ msg }) => msg === 'Kernel rejected Service port; continuing without it',
  );
  const reasons = FAMILIES.map((family) => {
    const at = family === 'IPv4' ? other.IPv4 : `[${other.IPv6}]`;
    const words = 'permission denied (EACCES): ports below 1024 need CAP_NET_BIND_SERVICE';
    return `listen on TCP ${at}:80: ${words}`;
  });
  expect(new Set(refused.map(({ service: name }) => name))).toEqual(new Set(['default/low']));
  expect(new Set(refused.map(({ err }) => err))).toEqual(new Set(reasons));
  await running.stop();
  await poor.cleanup(lab.node);
  await lab.reset();
});

test('node ports answer on 127.0.0.1, too, with iptables.localhostNodePorts', async () => {
  await downloads.listen();
  const wanted = [
    ...objects.filter(({ kind }) => kind !== 'Service'),
    service('web', { ports: [{ port: 80, nodePort: NODE_PORT }] }),
  ];
  const to = { address: '127.0.0.1', port: NODE_PORT };
  const attempt = { protocol: 'TCP', to, timeoutMs: answerMs } as const;
  for (const [localhostNodePorts, kind] of [
    [true, 'answered'],
    [false, 'reset'],
  ] as const) {
    const running = await proxy.start(lab.node, { ...settings, localhostNodePorts }, wanted);
    const tally = await lab.actors.node.connect(attempt, 4);
    expect(tally.map(({ outcome }) => outcome.kind)).toEqual([kind]);
    await running.stop();
  }
  await proxy.cleanup(lab.node);
  await lab.reset();
});
