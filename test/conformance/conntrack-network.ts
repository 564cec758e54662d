/** A client, a node that translates, and servers, each in a namespace; real packets. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { onTestFinished } from 'vitest';
import { type Conntrack, openConntrack } from '../../src/kernel/conntrack.ts';
import type { ConntrackEntries } from '../../src/kernel/conntrack-entries.ts';
import { createNamespace, type Namespace } from './namespace.ts';

export const serverAddresses = ['10.2.0.2', '10.2.0.3', 'fd02::2', 'fd02::3'] as const;
/** Servers answer at this UDP port, with their own address. */
export const serverPort = 5353;

export interface ConntrackNetwork {
  readonly client: Namespace;
  readonly node: Namespace;
  readonly server: Namespace;
  readonly conntrack: Conntrack;
}

/** Conntrack of a namespace, closed when the test ends. */
export function conntrackOf(namespace: Namespace): Conntrack {
  const conntrack = openConntrack({ netns: namespace.path });
  onTestFinished(() => conntrack.close());
  return conntrack;
}

/**
 * client 10.1.0.2, fd01::2 - node 10.1.0.1, fd01::1, 10.2.0.1, fd02::1 - `serverAddresses`.
 * Packets to other addresses go to the node and no further.
 */
export async function createNetwork(): Promise<ConntrackNetwork> {
  const [client, node, server] = [
    await createNamespace(),
    await createNamespace(),
    await createNamespace(),
  ];
  // Link-local addresses must be usable immediately, because neighbour discovery uses them.
  const noDetection = ['-qw', 'net.ipv6.conf.default.accept_dad=0'];
  for (const namespace of [client, node, server]) await namespace.run('sysctl', noDetection);
  await connect(node, client, 1);
  await connect(node, server, 2);
  await server.run('ip', ['address', 'add', '10.2.0.3/24', 'dev', 'eth0']);
  await server.run('ip', ['address', 'add', 'fd02::3/64', 'dev', 'eth0', 'nodad']);
  const forwarding = ['net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'];
  await node.run('sysctl', ['-qw', ...forwarding]);
  return { client, node, server, conntrack: conntrackOf(node) };
}

async function connect(node: Namespace, other: Namespace, number: number): Promise<void> {
  const [ours, theirs] = [`eth${number}`, 'eth0'];
  const peer = ['type', 'veth', 'peer', 'name', theirs, 'netns', other.name];
  await node.run('ip', ['link', 'add', ours, ...peer]);
  for (const [namespace, link, host] of [
    [node, ours, 1],
    [other, theirs, 2],
  ] as const) {
    const address = ['address', 'add', 'dev', link];
    await namespace.run('ip', [...address, `10.${number}.0.${host}/24`]);
    await namespace.run('ip', [...address, `fd0${number}::${host}/64`, 'nodad']);
    await namespace.run('ip', ['link', 'set', link, 'up']);
    await namespace.run('ip', ['link', 'set', 'lo', 'up']);
  }
  await other.run('ip', ['route', 'add', 'default', 'via', `10.${number}.0.1`]);
  await other.run('ip', ['route', 'add', 'default', 'via', `fd0${number}::1`]);
}

/** Runs a script of Node in the namespace until the test ends; resolves with its first line. */
async function start(namespace: Namespace, script: string, ...args: string[]) {
  const exec = ['netns', 'exec', namespace.name, process.execPath, '-e', script, ...args];
  const child = spawn('ip', exec, { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => end(child));
  await once(child.stdout, 'data');
  return child;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

const serverScript = `
  const dgram = require('node:dgram');
  const [port, ...addresses] = process.argv.slice(1);
  let open = 0;
  for (const address of addresses) {
    const socket = dgram.createSocket(address.includes(':') ? 'udp6' : 'udp4');
    socket.on('message', (_, peer) => socket.send(address, peer.port, peer.address));
    socket.bind(Number(port), address, () => {
      open += 1;
      if (open === addresses.length) console.log('ready');
    });
  }
`;

/** UDP servers at all `serverAddresses`. */
export async function startServers({ server }: ConntrackNetwork): Promise<void> {
  await start(server, serverScript, String(serverPort), ...serverAddresses);
}

const clientScript = `
  const dgram = require('node:dgram');
  const readline = require('node:readline');
  const [own, address, port] = process.argv.slice(1);
  const socket = dgram.createSocket(address.includes(':') ? 'udp6' : 'udp4');
  let answered = () => {};
  socket.on('message', (text) => answered(String(text)));
  socket.on('error', () => {});
  socket.bind(Number(own), () => console.log('ready'));
  readline.createInterface({ input: process.stdin }).on('line', (waitMs) => {
    const timer = setTimeout(() => answered('silence'), Number(waitMs));
    answered = (text) => {
      clearTimeout(timer);
      answered = () => {};
      console.log(text);
    };
    socket.send('?', Number(port), address);
  });
`;

/**
 * Opens a UDP socket of the client. Each call of the result asks once, and gives who answered, or
 * `silence` after the given time.
 */
export async function startClient(
  { client }: ConntrackNetwork,
  ownPort: number,
  address: string,
  port: number,
): Promise<(waitMs?: number) => Promise<string>> {
  const child = await start(client, clientScript, String(ownPort), address, String(port));
  return async (waitMs = 20_000) => {
    child.stdin.write(`${waitMs}\n`);
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    return line.toString().trim();
  };
}

/** One line for each entry, as `listed` gives. */
export function texts(entries: ConntrackEntries): string[] {
  return Array.from({ length: entries.length }, (_, i) => `${entries.text(i)} ${entries.id(i)}`)
    .map((text) => text.replaceAll(/[[\]]/g, ''))
    .sort();
}

/** What conntrack(8) lists: `UDP SOURCE:PORT > DESTINATION:PORT, reply ... ID`, sorted. */
export async function listed(
  namespace: Namespace,
  protocol: 'UDP' | 'TCP' | 'SCTP',
  family: 'ipv4' | 'ipv6' = 'ipv4',
): Promise<string[]> {
  const args = ['-L', '-f', family, '-p', protocol.toLowerCase(), '-o', 'extended,id'];
  const output = await namespace.run('conntrack', args);
  return output
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const all = (name: string): string[] =>
        [...line.matchAll(new RegExp(` ${name}=(\\S+)`, 'g'))].map((match) => match[1]!);
      const [from, replyFrom] = all('src').map((ip, i) => `${ip}:${all('sport')[i]}`);
      const [to, replyTo] = all('dst').map((ip, i) => `${ip}:${all('dport')[i]}`);
      return `${protocol} ${from} > ${to}, reply ${replyFrom} > ${replyTo} ${all('id')[0]}`;
    })
    .sort();
}
