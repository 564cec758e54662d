/**
 * Lives in which frontends change hands, shares of endpoints grow, and endpoints that do not answer
 * are left out, for a fake kernel or a real one.
 */
import fc from 'fast-check';
import { expect } from 'vitest';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { iptablesMode } from '../../../src/modes/iptables/mode.ts';
import { ipvsMode } from '../../../src/modes/ipvs/mode.ts';
import type { Environment } from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { Planner } from '../../../src/modes/planner.ts';
import type { ProxyMode } from '../../../src/modes/proxy-mode.ts';
import { type EndpointKey, endpointKey } from '../../../src/net/endpoint-list.ts';
import { type Balance, balances, type DealingHere } from '../../../src/state/deal.ts';
import { frontendKey } from '../../../src/state/frontend-key.ts';
import type { EndpointSlice, Forwarding, Service } from '../../../src/state/types.ts';
import type { ForwardingFollower } from '../../../src/sync/follower.ts';
import type { Fault } from '../../fake/kernel.ts';
import { WrittenSockets } from '../../fake/sockets.ts';
import { config } from '../modes/nftables/forwardings.ts';
import { address, ready, service, slice, slicePort } from '../state/build.ts';
import { quiet, ToyClock } from './double.ts';
import { World } from './world.ts';

const serviceCount = 3;

/** A Service, as far as frontends go: all of it may be another one's a moment later. */
interface Spec {
  /** Port `p0`, `p1` … has this number, or is a UDP port of it when it is negative. */
  readonly ports: readonly number[];
  /** Of each port; 0 = none. Low ones, so that other frontends are in their way. */
  readonly nodePorts: readonly number[];
  readonly externalIPs: readonly number[];
  readonly loadBalancerIPs: readonly number[];
  readonly clusterIP: number;
  readonly hosts: readonly number[];
  readonly createdMs: number;
  readonly sticky: boolean;
  readonly balance: Balance | undefined;
  readonly slowStartMs: number | undefined;
  /** Of the hosts with even numbers, and of the others. */
  readonly weights: readonly [number, number];
}

type Parts = readonly (readonly [host: number, part: number])[];

export type Step =
  | { readonly kind: 'service'; readonly at: number; readonly to: Spec | undefined }
  | { readonly kind: 'shift'; readonly at: number; readonly by: number }
  /** Endpoints come and go, and nothing else changes. */
  | { readonly kind: 'scale'; readonly at: number; readonly hosts: readonly number[] }
  /** What part of its share each host gets that does not answer, or did not; 0: it is left out. */
  | { readonly kind: 'ill'; readonly at: number; readonly parts: Parts }
  | { readonly kind: 'swap'; readonly at: number; readonly with: number }
  | { readonly kind: 'fault'; readonly code: string; readonly at: number }
  | { readonly kind: 'cut'; readonly bytes: number }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'crash' };

const at = fc.nat(serviceCount - 1);
/** Last octets of external and load-balancer addresses; the last is the node's own. */
const octets = [1, 2, 200];
const addresses = fc.uniqueArray(fc.constantFrom(...octets), { maxLength: 3 });
const hosts = fc.uniqueArray(fc.nat(8), { maxLength: 4 });
const parts = fc.uniqueArray(fc.tuple(fc.nat(8), fc.constantFrom(0, 0, 0.1, 0.5)), {
  selector: ([host]) => host,
  maxLength: 5,
});
const weight = fc.constantFrom(0, 10, 100, 100, 250);
const spec: fc.Arbitrary<Spec> = fc.record({
  ports: fc.uniqueArray(fc.constantFrom(1, 2, 3, 4, 5, 6, -1, -2), { minLength: 1, maxLength: 6 }),
  nodePorts: fc.uniqueArray(fc.constantFrom(1, 2, 3, 4), { maxLength: 4 }),
  externalIPs: addresses,
  loadBalancerIPs: addresses,
  clusterIP: fc.nat(serviceCount - 1),
  hosts,
  createdMs: fc.nat(3),
  sticky: fc.boolean(),
  balance: fc.option(fc.constantFrom(...balances), { nil: undefined, freq: 1 }),
  slowStartMs: fc.constantFrom(undefined, 10_000, 30_000),
  weights: fc.tuple(weight, weight),
});
export const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('service' as const), at, to: spec }) },
  fc.record({ kind: fc.constant('service' as const), at, to: fc.constant(undefined) }),
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('shift' as const),
      at,
      by: fc.constantFrom(-2, -1, 1, 2),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('scale' as const), at, hosts }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('ill' as const), at, parts }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('swap' as const), at, with: at }) },
  fc.record({
    kind: fc.constant('fault' as const),
    code: fc.constantFrom('EINVAL', 'ENOENT', 'ENOMEM'),
    at,
  }),
  fc.record({ kind: fc.constant('cut' as const), bytes: fc.constantFrom(1, 400, 1500, 100_000) }),
  fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(0, 5, 1000, 3000, 12_000) }),
  fc.record({ kind: fc.constant('crash' as const) }),
);

function serviceOf(i: number, { sticky, ...to }: Spec): Service {
  return service({
    namespace: 'default',
    name: `web-${i}`,
    createdMs: to.createdMs,
    type: 'LoadBalancer',
    clusterIPs: [`10.96.0.${to.clusterIP + 1}`],
    externalIPs: to.externalIPs.map((n) => `192.0.2.${n}`),
    loadBalancerIPs: to.loadBalancerIPs.map((n) => `192.0.2.${n}`),
    affinityTimeoutSeconds: sticky ? 600 : 0,
    balancing: balancingOf(to),
    ports: to.ports.map((number, p) => ({
      name: `p${p}`,
      protocol: number < 0 ? 'UDP' : 'TCP',
      port: Math.abs(number),
      nodePort: to.nodePorts[p] ?? 0,
    })),
  });
}

function balancingOf({ balance, slowStartMs }: Pick<Spec, 'balance' | 'slowStartMs'>) {
  if (slowStartMs !== undefined) return { balance, slowStartMs };
  return balance && { balance };
}

/** One EndpointSlice for each weight. */
function slicesOf(i: number, { hosts, ports, weights }: Spec): EndpointSlice[] {
  return weights.map((weight, parity) => {
    const own = hosts.filter((host) => host % 2 === parity);
    return slice(Object.fromEntries(own.map((host) => [`10.244.${i}.${host + 1}`, ready])), {
      key: `default/web-${i}-${parity}`,
      service: `default/web-${i}`,
      family: 'IPv4',
      ports: ports.map((number, p) => slicePort(`p${p}`, 8000 + p, number < 0 ? 'UDP' : 'TCP')),
      weight,
    });
  });
}

export interface Subject {
  readonly name: string;
  readonly planner: (environment: Environment, sockets: WrittenSockets) => Planner;
  /** How it can share connections out, on a kernel that lacks nothing; default: in every way. */
  readonly dealing?: DealingHere | undefined;
  /** What of it may be refused; default: anything. */
  readonly faults?: Pick<Fault, 'forKind'>;
}

/** The modes whose rules a kernel holds. */
export const ruleSubjects: readonly Subject[] = [
  subjectOf(nftablesMode),
  subjectOf(nftablesMode, 'counted'),
  subjectOf(iptablesMode(), undefined, { forKind: 'ruleAdd' }),
  subjectOf(ipvsMode),
];

/** `counted`: connections are. */
function subjectOf(mode: ProxyMode, counted?: 'counted', faults?: Subject['faults']): Subject {
  const countsTraffic = counted !== undefined;
  return {
    name: countsTraffic ? `${mode.name}, counted` : mode.name,
    planner: (environment) => mode.planner({ ...config, countsTraffic }, environment),
    dealing: { ...mode.dealing, unknown: new Set() },
    ...(faults && { faults }),
  };
}

/** A kernel, a fake one or a real one, whose batches can be made to fail. */
export interface TroubledKernel extends Kernel {
  /** Ops applied so far. */
  readonly writes: number;
  /** The next batch fails, of those that have such an op; nothing of it is applied. */
  failNext(fault: Fault): void;
  /** Ends all faults. */
  heal(): void;
}

/** Who has each frontend, as followers hear it: connect time deletes what its owner has no more. */
export class Owners implements ForwardingFollower {
  readonly contested: string[] = [];
  readonly #owners = new Map<string, string>();

  keys(): Set<string> {
    return new Set(this.#owners.values());
  }

  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const ids = (of: Forwarding | undefined): string[] =>
      of?.frontends.map((one) => `${of.servicePort.protocol} ${frontendKey(one)}`) ?? [];
    for (const id of ids(previous)) this.#owners.delete(id);
    for (const id of ids(next)) {
      if (this.#owners.has(id)) this.contested.push(`${id}: ${this.#owners.get(id)}, ${next!.key}`);
      this.#owners.set(id, next!.key);
    }
  }
}

export class Life<K extends TroubledKernel> {
  readonly kernel: K;
  readonly #subject: Subject;
  readonly #cluster = new Map<number, Spec>();
  /** Of each Service; another process is as if it had seen the same. */
  readonly #ill = new Map<number, Parts>();
  #sockets = new WrittenSockets();
  #owners = new Owners();
  #batchBytesMax = 1;
  readonly #quiet: () => Promise<void>;
  #world: World<K>;

  /** `whenQuiet` resolves when all that can happen without waiting has happened. */
  constructor(subject: Subject, kernel: K, whenQuiet = quiet) {
    this.kernel = kernel;
    this.#subject = subject;
    this.#quiet = whenQuiet;
    this.#world = this.#newWorld();
  }

  get world(): World<K> {
    return this.#world;
  }

  get sockets(): WrittenSockets {
    return this.#sockets;
  }

  #newWorld(): World<K> {
    const { kernel } = this;
    const sockets = this.#sockets;
    this.#owners = new Owners();
    const world = new World<K>(
      { batchBytesMax: this.#batchBytesMax },
      kernel,
      (environment) => this.#subject.planner(environment, sockets),
      this.#owners,
      new ToyClock(this.#quiet),
    );
    // Sockets must know the addresses of the node.
    const own = address('192.0.2.200');
    world.dealing = this.#subject.dealing;
    world.health = {
      isAny: true,
      maxEjected: 50,
      parts: (_, forwarding) => this.#partsOf(forwarding),
      services: () => [],
    };
    world.environment = { serviceCIDRs: [], nodePortAddresses: [own], hostAddresses: [own] };
    for (const i of this.#cluster.keys()) this.#tell(i, world);
    world.synced();
    world.run();
    return world;
  }

  #tell(i: number, world = this.#world): void {
    const to = this.#cluster.get(i);
    if (to === undefined) {
      world.removeService(`web-${i}`);
      return;
    }
    world.setService(serviceOf(i, to));
    for (const one of slicesOf(i, to)) world.state.apply({ kind: 'slice', slice: one });
    world.loop.wake();
  }

  #partsOf(forwarding: string): ReadonlyMap<EndpointKey, number> | undefined {
    const [, i, p] = /web-(\d):p(\d)/.exec(forwarding)!.map(Number);
    const ill = this.#ill.get(i!);
    if (ill === undefined || ill.length === 0) return undefined;
    return new Map(
      ill.map(([host, part]) => {
        const port = 8000 + p!;
        const packed = Buffer.of(10, 244, i!, host + 1, port >> 8, port & 0xff);
        return [endpointKey('IPv4', packed, 0), part];
      }),
    );
  }

  #fall(i: number, ill: Parts): void {
    this.#ill.set(i, ill);
    this.#world.state.touch(`default/web-${i}`);
    this.#world.loop.wake();
  }

  #set(i: number, to: Spec | undefined): void {
    if (to === undefined) this.#cluster.delete(i);
    else this.#cluster.set(i, to);
    this.#tell(i);
  }

  async take(step: Step): Promise<void> {
    switch (step.kind) {
      case 'service':
        return this.#set(step.at, step.to);
      case 'shift': {
        const to = this.#cluster.get(step.at);
        if (to === undefined) return;
        const moved = to.ports.map((n) => (n < 0 ? n : ((n + step.by + 11) % 6) + 1));
        return this.#set(step.at, { ...to, ports: moved, nodePorts: to.nodePorts.toReversed() });
      }
      case 'scale': {
        const to = this.#cluster.get(step.at);
        return to && this.#set(step.at, { ...to, hosts: step.hosts });
      }
      case 'ill':
        return this.#fall(step.at, step.parts);
      case 'swap': {
        const [one, other] = [this.#cluster.get(step.at), this.#cluster.get(step.with)];
        this.#set(step.at, other);
        return this.#set(step.with, one);
      }
      case 'fault':
        // Of iptables' batches only: a kernel that refuses its counters is one that has none.
        this.kernel.failNext({ code: step.code, ...this.#subject.faults });
        this.#sockets.refusals = 1;
        return;
      case 'cut':
        this.#batchBytesMax = step.bytes;
        return;
      case 'wait':
        return this.#world.clock.pass(step.ms);
      case 'crash':
        return this.restart();
    }
  }

  async restart(): Promise<void> {
    expect(this.#owners.contested).toEqual([]);
    await this.#quiet();
    void this.#world.stop();
    await this.#quiet();
    // It decides at its start what this kernel can do.
    this.kernel.heal();
    this.#sockets = new WrittenSockets();
    this.#world = this.#newWorld();
    await this.#quiet();
  }

  /** Ends all faults, and waits until whatever was set aside has been tried again. */
  async settle(): Promise<void> {
    this.kernel.heal();
    this.#sockets.refusals = 0;
    await this.#world.clock.pass(240_000);
  }
}

/** Checks the end of a life: the kernel has the desired state, and a restart writes nothing. */
export async function expectSettled<K extends TroubledKernel>(life: Life<K>): Promise<void> {
  await life.settle();
  expect([...life.world.sync.quarantined]).toEqual([]);
  expect(life.world.kinds('miscounted')).toEqual([]);
  // No other program writes: whatever an audit repairs, a sync has done wrong.
  expect(life.world.kinds('drift').filter(({ purpose }) => purpose === 'audit')).toEqual([]);
  const { writes } = life.kernel;
  await life.restart();
  await life.world.clock.pass(5000);
  expect(life.kernel.writes).toBe(writes);
}
