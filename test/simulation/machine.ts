/** The node below the programs: what it has, what it is short of, and which program runs on it. */

import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import { constants } from 'node:os';
import { Duplex } from 'node:stream';
import { loadAddon } from '../../src/kernel/addon.ts';
import type { ModeName } from '../../src/modes/mode.ts';
import { type Address, type Family, families } from '../../src/net/address.ts';
import type { Random } from '../chaos/random.ts';
import type { Raw } from '../fake/api-server-store.ts';
import type { FakeKernel } from '../fake/kernel.ts';
import { address } from '../unit/state/build.ts';

export const nodeName = 'node-1';
/** Those that the Node object names; no run takes them away. */
export const nodeAddresses: readonly string[] = ['192.0.2.1', '2001:db8::1'];

/** Addresses that come and go: of the node's own, of a CNI plugin, and some that Services ask for. */
const passing: readonly string[] = [
  ...['192.0.2.77', '2001:db8::77', '10.244.1.1', '169.254.20.10'],
  ...['203.0.113.2', '198.51.100.2'],
];

type Watcher = (error: Error | undefined) => void;

export class Machine {
  readonly #watchers = new Set<Watcher>();
  #passing = new Set<string>();
  readonly #kernel: FakeKernel;
  readonly #devices = new Set(['eth0']);
  /** Those that the kernel has enabled. */
  families: readonly Family[] = families;
  /** What calls of the kernel lack, now and then. */
  shortage: 'nothing' | 'descriptors' | 'memory' = 'nothing';
  /** The configuration file, of which JSON is a form. */
  config: Raw;
  readonly #random: Random;
  /** Settings that the file has whatever `config` is. */
  readonly #fixed: Raw;

  /** `random`: decides which calls a shortage meets, and which address comes or goes. */
  constructor(mode: ModeName, random: Random, kernel: FakeKernel, fixed: Raw) {
    this.config = configuration(mode);
    this.#fixed = fixed;
    this.#random = random;
    this.#kernel = kernel;
    this.connect(kernel);
  }

  /** Gives a kernel the devices of this node. */
  connect({ links }: FakeKernel): void {
    for (const one of this.#devices) links.came(one, one === 'eth0' ? '' : 'veth', { leaves: 1 });
  }

  /** The device of a pod comes or goes. */
  moveDevice(): void {
    const name = `veth${this.#random.below(3)}`;
    const { links } = this.#kernel;
    if (this.#devices.delete(name)) {
      links.went(name);
      return;
    }
    this.#devices.add(name);
    links.came(name, 'veth', { leaves: 1 });
  }

  /** Whether a call meets the shortage that there is. */
  isRefused(): boolean {
    return this.#random.below(2) === 0;
  }

  /** Without those of the loopback device. */
  get addresses(): readonly string[] {
    return [...nodeAddresses, ...this.#passing];
  }

  /** Throws where a process cannot have another descriptor. */
  readonly interfaces = (): Address[] => {
    this.#needDescriptor();
    return ['127.0.0.1', '::1', ...this.addresses].sort().map(address);
  };

  /** A file of the machine. */
  readonly read = (path: string): string | undefined => {
    this.#needDescriptor();
    return path === '/proc/net/route'
      ? 'Iface\neth0\t00000000\t00000000\t3\t0\t0\t0\t00000000'
      : undefined;
  };

  readonly enabledFamilies = (): readonly Family[] => {
    this.#needDescriptor();
    return this.families;
  };

  readonly readConfig = (): Uint8Array => {
    this.#needDescriptor();
    return Buffer.from(JSON.stringify({ ...this.config, ...this.#fixed }));
  };

  watchAddresses(notify: Watcher): { close(): void } {
    this.#needDescriptor();
    this.#watchers.add(notify);
    return { close: () => void this.#watchers.delete(notify) };
  }

  /** One address comes or goes. */
  moveAddress(one = this.#random.pick(passing)): void {
    if (!this.#passing.delete(one)) this.#passing.add(one);
    for (const notify of [...this.#watchers]) notify(undefined);
  }

  /** The kernel sends no notifications of addresses any more, until it is asked again. */
  endWatches(): void {
    const ended = [...this.#watchers];
    this.#watchers.clear();
    for (const notify of ended) notify(Object.assign(new Error('ENOBUFS'), { code: 'ENOBUFS' }));
  }

  #needDescriptor(): void {
    if (this.shortage !== 'descriptors') return;
    throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
  }
}

export function configuration(mode: ModeName | '', rest: Raw = {}): Raw {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode,
    clusterCIDR: '10.244.0.0/16,fd00:10:244::/56',
    healthzNodeShutdown: true,
    // Mode userspace says that it does not count them.
    serviceBytes: mode !== 'userspace' && rest.connectTime === undefined,
    ...rest,
  };
}

/**
 * What an operator may write, often with this mode. None of it disturbs connections to Services
 * that do not change.
 */
export function randomConfiguration(mode: ModeName, random: Random): Raw {
  const has = (oneIn: number): boolean => random.below(oneIn) === 0;
  const masqueradeAll = has(2);
  const chosen = configuration(random.pick([mode, mode, 'nftables', 'iptables', 'ipvs', '']), {
    nftables: { masqueradeAll, masqueradeBit: random.pick([14, 15]) },
    iptables: { masqueradeAll, localhostNodePorts: has(2) },
    ipvs: { scheduler: random.pick(['', 'rr', 'lc']) },
    ...(has(2) && {
      nodePortAddresses: random.pick([['primary'], ['192.0.2.0/24', '2001:db8::/64']]),
    }),
    ...(has(3) && { serviceLimits: { frontendEndpoints: 20, affinityPorts: 2 } }),
    ...(has(3) && { externalIPs: { cidrs: ['198.51.100.0/31'] } }),
    ...(has(3) && { detectLocalMode: 'NodeCIDR' }),
    ...(has(4) && { enableProfiling: true }),
    ...(has(2) && { connectTime: random.pick(['host', 'all']) }),
    ...(has(2) && { fastPath: 'flowtable', fastPathPackets: random.pick([0, 20]) }),
  });
  // Without a draw, so that seeds keep their worlds.
  const isLimited = masqueradeAll && chosen.connectTime === undefined;
  return { ...chosen, ...(isLimited && { connectionLimits }) };
}

/** Far more than clients ask for. */
const connectionLimits = {
  ...{ clientConnections: 100_000, namespaceConnections: 200_000 },
  exemptClients: ['10.244.1.3/32'],
};

/**
 * The lock of the network namespace in memory, in place of an abstract Unix socket: `install` puts
 * it below `src/host/instance-lock.ts`. The name by which a program asks for it is its own.
 */
export class NamespaceLock {
  #holder: string | undefined;

  /** The program has ended. */
  release(name: string): void {
    if (this.#holder === name) this.#holder = undefined;
  }

  install(): void {
    const addon = loadAddon() as { -readonly [Key in 'openListener' | 'findListener']: unknown };
    addon.openListener = (name: string): number => {
      const { EADDRINUSE: errno } = constants.errno;
      if (this.#holder !== undefined) throw Object.assign(new Error('EADDRINUSE'), { errno });
      this.#holder = name;
      return 0;
    };
    addon.findListener = () => this.#holder && { pid: 1, uid: 0, administersNet: true };
    const server = { unref: () => {}, on: () => {}, close: (done: () => void) => done() };
    const listen = (_: object, listening: () => void): void => queueMicrotask(listening);
    net.createServer = (() => ({ ...server, listen })) as unknown as typeof net.createServer;
    net.connect = (() => {
      const words = JSON.stringify({ pid: 1, since: '', command: 'fairlead' });
      const socket = Duplex.from([words]);
      return Object.assign(socket, { setTimeout: () => socket });
    }) as unknown as typeof net.connect;
    syncBuiltinESMExports();
  }
}
