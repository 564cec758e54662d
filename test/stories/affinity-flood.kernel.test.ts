/** Session affinity in mode nftables: its maps after packets of any source, and of old flows. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Actor } from '../lab/actor.ts';
import {
  ABYSS_IP,
  CLIENT_IP,
  CLIENT_OTHER_IP,
  clusterIp,
  nowhere,
  POD_A_IP,
} from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE, clientIpAffinity, service, settings, slices } from '../lab/objects.ts';
import { untilReleased } from '../lab/owners.ts';
import { answerMs, hangsMs, paced } from '../lab/pace.ts';
import { serverOf } from '../lab/who-answers.ts';
import { cleanup, fairlead } from './fairlead-proxy.ts';

/** What the kernel lets packets put into a set without a size of its own. */
const clientsMax = 65_535;
/** Most are put where their packets would; the rest sends them, which takes longer. */
const spoofed = { known: 60_000, sending: 10_000 };

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

/** `n` is less than 131,072; all are in networks for benchmarks (RFC 2544). */
const spoofedAddress = (n: number): string =>
  ['198', 18 + (n >> 16), (n >> 8) & 255, n & 255].join('.');

/** Sends a datagram from each of the addresses that come by standard input. */
const flooder = `
  const { createSocket } = require('node:dgram');
  const { readFileSync } = require('node:fs');
  const [host, port] = process.argv.slice(1);
  const sources = readFileSync(0, 'utf8').split(' ');
  const go = () => {
    const source = sources.pop();
    if (source === undefined) return;
    const socket = createSocket('udp4').on('error', (error) => { throw error; });
    socket.bind(0, source, () => socket.send('x', port, host, () => { socket.close(); go(); }));
  };
  for (let i = 0; i < 64; i += 1) go();
`;

const [flooded, other] = [clusterIp(10), clusterIp(11)];
const ports = [{ port: 53, protocol: 'UDP' as const }];

const spec = clientIpAffinity(600);
const objects = [
  ...BASELINE,
  service('web', { clusterIp: flooded, ports, spec }),
  service('shop', { clusterIp: other, spec }),
  ...slices('web', ['pod-a'], { ports: [{ port: 8080, protocol: 'UDP' }] }),
  ...slices('shop', ['pod-a']),
];

/** So that a client reaches pod-a only by its affinity. */
const elsewhere = Array.from({ length: 20_000 }, (_, n) => ({ at: nowhere(n) }));

async function fill(): Promise<void> {
  const known = Array.from({ length: spoofed.known }, (_, n) => spoofedAddress(n));
  const elements = known.map((source) => `${source} timeout 10m : ${POD_A_IP.IPv4} . 8080`);
  const map = 'ip fairlead affinity-default/web/udp/';
  await lab.node.run(['nft', '-f', '-'], `add element ${map} { ${elements.join(', ')} }`);
}

async function sendSpoofed(client: Actor): Promise<void> {
  await client.run(['ip', 'route', 'add', 'local', '198.18.0.0/15', 'dev', 'lo']);
  const sending = Array.from({ length: spoofed.sending }, (_, n) =>
    spoofedAddress(spoofed.known + n),
  );
  await client.run([process.execPath, '-e', flooder, flooded.IPv4, '53'], sending.join(' '));
}

/** How many clients a Service port has. */
async function clientsIn(path: string): Promise<number> {
  const list = ['nft', 'list', 'map', 'ip', 'fairlead', `affinity-default/${path}`];
  return (await lab.node.run(list)).match(/ timeout /g)?.length ?? 0;
}

/** Who answers four connections to the other Service. */
async function answers(from: string): Promise<unknown> {
  const to = { address: other.IPv4, port: 80 };
  const attempt = { protocol: 'TCP', from: { address: from }, to, timeoutMs: answerMs } as const;
  const tally = await lab.actors.client.connect(attempt, 4);
  return tally.map(({ count, outcome }) => [count, serverOf(outcome)]);
}

const allByPodA = [[4, 'pod-a']];

test('a client that sends again to an endpoint that has gone is not bound to it again', async () => {
  const silent = slices('web', [{ at: ABYSS_IP }], { ports: [{ port: 8080, protocol: 'UDP' }] });
  const web = service('web', { clusterIp: flooded, ports, spec });
  const own = { ...settings, ownTables: false };
  const proxy = await fairlead('nftables').start(lab.node, own, [...BASELINE, web, ...silent]);
  const boundBy = async (port: number): Promise<number> => {
    const [from, to] = [CLIENT_IP.IPv4, flooded.IPv4].map((address) => ({ address, port: 53 }));
    const attempt = { protocol: 'UDP', from: { ...from!, port }, to: to!, timeoutMs: paced(100) };
    await lab.actors.client.connect(attempt as never, 1);
    return clientsIn('web/udp/');
  };
  expect(await boundBy(5001)).toBe(1);
  // As if the endpoint had gone.
  await lab.node.run(['nft', 'flush map ip fairlead affinity-default/web/udp/']);
  expect(await boundBy(5001)).toBe(0);
  expect(await boundBy(5002)).toBe(1);
  await proxy.stop();
  await cleanup(lab.node);
});

test('70,000 spoofed clients of one Service do not affect the session affinity of another', async () => {
  const { client, 'pod-a': server } = lab.actors;
  await server.listen('TCP', POD_A_IP.IPv4, 8080);
  const first = await fairlead('nftables').start(lab.node, settings, objects);
  expect(await answers(CLIENT_IP.IPv4)).toEqual(allByPodA);
  await first.stop();
  await untilReleased(lab.node);
  await fill();
  // No other program may write while it runs; and it adopts the affinity of others.
  const proxy = await fairlead('nftables').start(lab.node, settings, objects);
  await sendSpoofed(client);
  // The last datagrams may still be on their way when the process that sent them has ended.
  await expect.poll(() => clientsIn('web/udp/'), { timeout: hangsMs }).toBe(clientsMax);
  expect(await answers(CLIENT_OTHER_IP.IPv4)).toEqual(allByPodA);
  expect(await clientsIn('shop/tcp/')).toBe(2);
  await proxy.apply([...objects, ...slices('shop', elsewhere, { suffix: '-more' })]);
  expect(await answers(CLIENT_IP.IPv4)).toEqual(allByPodA);
  expect(await answers(CLIENT_OTHER_IP.IPv4)).toEqual(allByPodA);
  await proxy.stop();
});
