/**
 * The life of a small cluster, made from a seed: the changes that a proxy sees, and what the kernel
 * should do after each. It does not depend on the product.
 */
import {
  type ActorName,
  addressOf,
  clusterIp,
  FAMILIES,
  type Family,
  hostPort,
  lbVip,
  nowhere,
} from '../lab/addresses.ts';
import { BASELINE, type KubernetesObject, SERVER_PORT, service, slice } from '../lab/objects.ts';
import type { Random } from './random.ts';

/**
 * Sorted endpoints by frontend, e.g. `tcp 10.96.0.1:80` to `172.20.0.1:8080`; there may be none.
 */
export type Frontends = ReadonlyMap<string, readonly string[]>;

export type Change =
  | { readonly kind: 'apply'; readonly object: KubernetesObject }
  | {
      readonly kind: 'delete';
      readonly resource: 'services' | 'endpointslices';
      readonly key: string;
    };

/** The ClusterIP of `web`, which always has endpoints: its connections must never break. */
export const WEB = clusterIp(1);
export const WEB_PORT = 80;

const endpointsMax = 6;
/** Every fifth has a load-balancer address, every fourth speaks UDP. */
const vipEvery = 5;
const udpEvery = 4;

interface Life {
  alive: boolean;
  ports: readonly number[];
  /** Numbers of `nowhere` addresses. */
  readonly endpoints: Record<Family, number[]>;
}

export class ClusterLife {
  readonly #random: Random;
  readonly #lives: Life[];
  /** The endpoints of `web`. The first one never goes. */
  #webPods: readonly ActorName[] = ['pod-a'];

  /**
   * `services`: those in addition to `web`, at most 60,000. At most 200 have load-balancer
   * addresses.
   */
  constructor(services: number, random: Random) {
    this.#random = random;
    this.#lives = Array.from({ length: services }, () => ({
      alive: true,
      ports: [80],
      endpoints: { IPv4: this.#someEndpoints(), IPv6: this.#someEndpoints() },
    }));
  }

  /** All objects that exist now. */
  objects(): KubernetesObject[] {
    return [
      ...BASELINE,
      service('web', { clusterIp: WEB, ports: [{ port: WEB_PORT }] }),
      ...FAMILIES.map((family) => this.#webSlice(family)),
      ...this.#lives.flatMap(({ alive }, i) =>
        alive ? [this.#service(i), ...FAMILIES.map((family) => this.#slice(i, family))] : [],
      ),
    ];
  }

  /** Makes one step of the life. Most steps are one change. */
  step(): Change[] {
    const i = this.#random.below(this.#lives.length);
    const life = this.#lives[i]!;
    const chance = this.#random.next();
    if (!life.alive || chance < 0.04) return this.#flip(i);
    if (chance < 0.08) return this.#renumber(i);
    if (chance < 0.1) return this.#changeWeb();
    return this.#changeEndpoints(i, this.#random.pick(FAMILIES));
  }

  /** What the kernel should do now. */
  wanted(): Frontends {
    const wanted = new Map<string, readonly string[]>();
    for (const family of FAMILIES) {
      const web = this.#webPods.map((pod) => hostPort(addressOf(pod)[family], SERVER_PORT));
      wanted.set(`tcp ${hostPort(WEB[family], WEB_PORT)}`, web);
    }
    this.#lives.forEach((life, i) => {
      if (!life.alive) return;
      for (const family of FAMILIES) {
        const addresses = life.endpoints[family].map((n) => nowhere(n)[family]);
        const endpoints = addresses.map((address) => hostPort(address, SERVER_PORT)).sort();
        for (const address of frontendAddresses(i, family)) {
          for (const port of life.ports) {
            wanted.set(`${protocolOf(i).toLowerCase()} ${hostPort(address, port)}`, endpoints);
          }
        }
      }
    });
    return wanted;
  }

  #someEndpoints(): number[] {
    const endpoints: number[] = [];
    const count = this.#random.below(endpointsMax);
    while (endpoints.length < count) endpoints.push(this.#anEndpoint(endpoints));
    return endpoints;
  }

  /** An endpoint that is not among `others`. */
  #anEndpoint(others: readonly number[]): number {
    for (;;) {
      const n = 1 + this.#random.below(60_000);
      if (!others.includes(n)) return n;
    }
  }

  /** Deletes the Service with its slices, or creates them again. */
  #flip(i: number): Change[] {
    const life = this.#lives[i]!;
    life.alive = !life.alive;
    if (!life.alive) {
      const gone = FAMILIES.map((family) => `default/${nameOf(i)}-${family.toLowerCase()}`);
      return [
        { kind: 'delete', resource: 'services', key: `default/${nameOf(i)}` },
        ...gone.map((key) => ({ kind: 'delete', resource: 'endpointslices', key }) as const),
      ];
    }
    const slices = FAMILIES.map((family) => this.#slice(i, family));
    return [this.#service(i), ...slices].map((object) => ({ kind: 'apply', object }));
  }

  /** Moves the Service's ports by one: the second port's number becomes the first's. */
  #renumber(i: number): Change[] {
    const life = this.#lives[i]!;
    const first = 80 + this.#random.below(3);
    life.ports = Array.from({ length: 1 + this.#random.below(3) }, (_, n) => first + n);
    return [this.#service(i), ...FAMILIES.map((family) => this.#slice(i, family))].map(
      (object) => ({ kind: 'apply', object }),
    );
  }

  #changeWeb(): Change[] {
    this.#webPods = this.#webPods.length === 1 ? ['pod-a', 'pod-c'] : ['pod-a'];
    return FAMILIES.map((family) => ({ kind: 'apply', object: this.#webSlice(family) }));
  }

  #changeEndpoints(i: number, family: Family): Change[] {
    const endpoints = this.#lives[i]!.endpoints[family];
    const at = this.#random.below(endpoints.length + 1);
    const another = this.#anEndpoint(endpoints);
    if (at === endpoints.length && at < endpointsMax) endpoints.push(another);
    else if (this.#random.next() < 0.5) endpoints.splice(Math.min(at, endpointsMax - 1), 1);
    else endpoints[Math.min(at, endpointsMax - 1)] = another;
    return [{ kind: 'apply', object: this.#slice(i, family) }];
  }

  #service(i: number): KubernetesObject {
    const protocol = protocolOf(i);
    const ports = this.#lives[i]!.ports.map((port, n) => ({ name: `p${n}`, port, protocol }));
    const vips = i % vipEvery === 0 ? { vips: [lbVip(1 + i / vipEvery)] } : {};
    return service(nameOf(i), { clusterIp: clusterIpOf(i), ports, ...vips });
  }

  #slice(i: number, family: Family): KubernetesObject {
    const { ports, endpoints } = this.#lives[i]!;
    const protocol = protocolOf(i);
    return slice(
      family,
      nameOf(i),
      endpoints[family].map((n) => ({ at: nowhere(n) })),
      { ports: ports.map((_, n) => ({ name: `p${n}`, port: SERVER_PORT, protocol })) },
    );
  }

  #webSlice(family: Family): KubernetesObject {
    return slice(family, 'web', this.#webPods);
  }
}

function nameOf(i: number): string {
  return `life-${i}`;
}

function protocolOf(i: number): 'TCP' | 'UDP' {
  return i % udpEvery === udpEvery - 1 ? 'UDP' : 'TCP';
}

function clusterIpOf(i: number): Record<Family, string> {
  const n = i + 256;
  return { IPv4: `10.96.${n >> 8}.${n & 255}`, IPv6: `fd00:96::${n.toString(16)}` };
}

function frontendAddresses(i: number, family: Family): string[] {
  const vip = i % vipEvery === 0 ? [lbVip(1 + i / vipEvery)[family]] : [];
  return [clusterIpOf(i)[family], ...vip];
}
