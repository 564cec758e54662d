/**
 * Client, node and server, connected by two links that the node forwards between, in both families.
 * All are pods of the cluster. See test/lab/native/traffic.cc for the traffic.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Family } from '../../src/net/address.ts';
import { buildTraffic } from '../../test/lab/native/build.ts';
import { Namespace } from './namespace.ts';

export type Kind = 'connect' | 'packets' | 'flows' | 'stream' | 'ask';

/** Ports of the server. Those of the Service are at `servicePorts`. */
export const serverPorts = { requests: 8080, stream: 8081, packets: 8082 } as const;
export const servicePorts = { requests: 80, stream: 81, packets: 82 } as const;

const portOf: Readonly<Record<Kind, keyof typeof serverPorts>> = {
  connect: 'requests',
  ask: 'requests',
  stream: 'stream',
  packets: 'packets',
  flows: 'packets',
};

export const endpoints = { IPv4: '11.254.0.1', IPv6: 'fd00:11:ffff::1' } as const;
export const clusterIPs = { IPv4: '10.111.0.1', IPv6: 'fd00:96::f:1' } as const;
/** Pods have addresses of these. */
export const clusterCIDRs = '11.0.0.0/8,fd00:11::/32';

/** The node's own addresses on the links. */
const gateways = {
  client: { IPv4: '11.255.0.254', IPv6: 'fd00:11:fffe::fe' },
  server: { IPv4: '11.254.0.254', IPv6: 'fd00:11:ffff::fe' },
} as const;
const clients = { IPv4: '11.255.0.2', IPv6: 'fd00:11:fffe::2' } as const;

/** What was measured in one go. */
export interface Measured {
  readonly perSecond: number;
  /** NaN where nothing has an answer. */
  readonly p50Us: number;
  /** The processor time of the machine for each (connection, packet, request, byte). */
  readonly processorUs: number;
}

export class PathStage {
  readonly node: Namespace;
  readonly client: Namespace;
  readonly #server: Namespace;
  readonly #serving;

  constructor(purpose: string) {
    this.node = new Namespace(`${purpose}-node`);
    this.client = new Namespace(`${purpose}-client`);
    this.#server = new Namespace(`${purpose}-server`);
    this.node.run('ip', ['link', 'set', 'lo', 'up']);
    this.#plug(this.client, 'client', clients);
    this.#plug(this.#server, 'server', endpoints);
    const settings = [
      'net.ipv4.ip_forward=1',
      'net.ipv6.conf.all.forwarding=1',
      // Ended connections do not fill the table.
      'net.netfilter.nf_conntrack_tcp_timeout_close=1',
      'net.netfilter.nf_conntrack_udp_timeout=1',
    ];
    this.node.run('sysctl', ['-qw', ...settings]);
    const program = [buildTraffic(), 'serve', String(serverPorts.requests)];
    this.#serving = spawn('ip', ['netns', 'exec', this.#server.name, ...program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  }

  #plug(
    peer: Namespace,
    name: keyof typeof gateways,
    address: Readonly<Record<Family, string>>,
  ): void {
    const [four, six] = [gateways[name].IPv4, gateways[name].IPv6];
    const commands = [
      `link add to-${name} type veth peer name eth0 netns ${peer.name}`,
      `addr add ${four}/24 dev to-${name}`,
      `addr add ${six}/64 dev to-${name} nodad`,
      `link set to-${name} up`,
    ];
    this.node.run('ip', ['-batch', '-'], commands.join('\n'));
    const inside = [
      'link set lo up',
      `addr add ${address.IPv4}/24 dev eth0`,
      `addr add ${address.IPv6}/64 dev eth0 nodad`,
      'link set eth0 up',
      `route add default via ${four}`,
      `route add ::/0 via ${six}`,
    ];
    peer.run('ip', ['-batch', '-'], inside.join('\n'));
  }

  async ready(): Promise<void> {
    await once(this.#serving.stdout, 'data');
  }

  /** Resolves when the Service answers. */
  async answers(): Promise<void> {
    for (let waitedMs = 0; waitedMs < 300_000; waitedMs += 200) {
      try {
        this.#run('connect', 'IPv4', true, 1, [], 'ignore');
        return;
      } catch {
        await sleep(200);
      }
    }
    throw new Error('the Service does not answer');
  }

  /**
   * `cgroup`: a folder that the client is put into. `toService`: to the ClusterIP, or to the
   * endpoint itself.
   */
  measure(
    kind: Kind,
    ms: number,
    { cgroup, family = 'IPv4', toService }: MeasureOptions,
  ): Measured {
    const enter = ['sh', '-c', 'echo $$ >"$0" && exec "$@"'];
    const prefix = cgroup === undefined ? [] : [...enter, join(cgroup, 'cgroup.procs')];
    const before = this.#received();
    const { busySeconds, count, p50Us, seconds } = this.#run(kind, family, toService, ms, prefix);
    // A packet that is sent may be dropped on its way.
    const done = kind === 'packets' ? this.#received() - before : count;
    return {
      perSecond: done / seconds,
      p50Us: p50Us ?? Number.NaN,
      processorUs: (busySeconds * 1e6) / done,
    };
  }

  #run(
    kind: Kind,
    family: Family,
    toService: boolean,
    ms: number,
    prefix: readonly string[] = [],
    errors: 'inherit' | 'ignore' = 'inherit',
  ): { seconds: number; count: number; busySeconds: number; p50Us?: number } {
    const ports = toService ? servicePorts : serverPorts;
    const address = (toService ? clusterIPs : endpoints)[family];
    const words = [kind, address, String(ports[portOf[kind]]), String(ms)];
    const [command, ...rest] = [...prefix, buildTraffic(), ...words];
    return JSON.parse(this.client.run(command!, rest, '', errors));
  }

  /** The number of packets that have reached the server. */
  #received(): number {
    const file = '/sys/class/net/eth0/statistics/rx_packets';
    return Number(this.#server.run('cat', [file]));
  }

  close(): void {
    this.#serving.kill();
    for (const namespace of [this.client, this.#server, this.node]) namespace.close();
  }
}

interface MeasureOptions {
  readonly toService: boolean;
  readonly family?: Family;
  readonly cgroup?: string | undefined;
}
