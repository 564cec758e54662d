/** Which chains Services with limits need, and which frontends lead to them. */
import { IPPROTO } from '../kernel/nft/constants.ts';
import { gotoEntry, LiveElements, type Part } from '../kernel/nft/own-table.ts';
import { binary, destinationKey } from '../modes/elements.ts';
import type { Environment } from '../modes/mode.ts';
import type { Address } from '../net/address.ts';
import { addCount } from '../net/counts.ts';
import { madeAt } from '../net/made-at.ts';
import { keyPort } from '../state/frontend-key.ts';
import { levelWithin } from '../state/level.ts';
import type { Limits } from '../state/limits.ts';
import { isRefusal } from '../state/paths.ts';
import type { DesiredFamily } from '../state/picked-services.ts';
import {
  type Forwarding,
  type Frontend,
  forwardingKeys,
  namespaceOf,
  type Service,
} from '../state/types.ts';
import { inTurns, type Pause } from '../time/pacer.ts';
import type { Bounds } from './bounds.ts';
import { frontendMaps, partOf, partOfNamespace, partOfRange } from './layout.ts';

interface Served extends DesiredFamily {
  readonly nodePortAddresses: Environment['nodePortAddresses'];
}

/**
 * What limits of one namespace take in the kernel, and those of all: a connection is an element, a
 * Service many.
 */
const room = { ofNamespace: 200_000, ofAll: 800_000, service: 100 } as const;

/** What limits depend on, other than Services. */
interface LimitsContext {
  readonly served: readonly Served[];
  /** Those of a Service that this kernel can keep. */
  readonly limits: (service: Service) => Limits;
  readonly bounds: Bounds | undefined;
}

/** What a Service has in the table. */
interface Written {
  /** Its frontends, as `Elements` has them. */
  readonly keys: Readonly<Record<string, readonly string[]>>;
  readonly parts: readonly Part[];
}

const nothing: Written = { keys: {}, parts: [] };

/** Follows Services one by one: a change costs what it changes, whatever the others have. */
export class DesiredLimits {
  readonly elements = new LiveElements();
  readonly #changed = new Set<string>();
  readonly #written = new Map<string, Written>();
  /** How many Services need a part, by the name of its chain. */
  readonly #uses = new Map<string, number>();
  /** What Services ask for, by namespace, those that came first before others. */
  readonly #asked = new Map<string, Map<string, number>>();
  readonly #sums = new Map<string, number>();
  readonly #leftOut = new Set<string>();

  /** Services without limits, because others of their namespace have all room. */
  get leftOut(): ReadonlySet<string> {
    return this.#leftOut;
  }

  changed(service: string): void {
    this.#changed.add(service);
  }

  /** All Services that it knows may be others now. */
  allChanged(): void {
    for (const key of this.#written.keys()) this.#changed.add(key);
  }

  /** `serviceOf`: undefined if it has no limits any more. */
  async update(
    serviceOf: (key: string) => Service | undefined,
    context: LimitsContext,
    pause: Pause,
  ): Promise<void> {
    // Frontends pass from one to another: those that change in the meantime are taken, too.
    while (this.#changed.size > 0) {
      const changed = new Set(this.#changed);
      this.#changed.clear();
      await inTurns(changed, pause, (key) => this.#ask(key, serviceOf(key), context));
      for (const key of this.#share()) changed.add(key);
      await inTurns(changed, pause, (key) => this.#put(key, serviceOf(key), context));
    }
  }

  #ask(key: string, service: Service | undefined, { limits, served }: LimitsContext): void {
    const own = service && limits(service);
    const isLimited = own !== undefined && !isNone(own);
    const cost = isLimited ? costOf(service!, own, frontendsOf(service!, served)) : 0;
    const namespace = namespaceOf(key);
    const asked = madeAt(this.#asked, namespace, () => new Map<string, number>());
    addCount(this.#sums, namespace, cost - (asked.get(key) ?? 0));
    if (cost > 0) asked.set(key, cost);
    else asked.delete(key);
    if (asked.size > 0) return;
    this.#asked.delete(namespace);
    this.#sums.delete(namespace);
  }

  /**
   * Gives each namespace its room: where all ask for too much, those that ask for most get less.
   * Returns the Services for which that makes a difference.
   */
  #share(): string[] {
    const most = Array.from(this.#sums.values(), (one) => Math.min(one, room.ofNamespace));
    const share = Math.min(room.ofNamespace, levelWithin(most, room.ofAll));
    const before = new Set(this.#leftOut);
    this.#leftOut.clear();
    for (const [namespace, asked] of this.#asked) {
      if (this.#sums.get(namespace)! <= share) continue;
      let left = share;
      for (const [key, cost] of asked) {
        if (cost > left) this.#leftOut.add(key);
        else left -= cost;
      }
    }
    const isOther = (key: string): boolean => before.has(key) !== this.#leftOut.has(key);
    return [...before, ...this.#leftOut].filter(isOther);
  }

  #put(key: string, service: Service | undefined, context: LimitsContext): void {
    const { keys, parts } = this.#written.get(key) ?? nothing;
    const next = service === undefined ? nothing : this.#made(service, context);
    for (const part of next.parts) {
      addCount(this.#uses, part.chain.name);
      this.elements.setPart(part.chain.name, part);
    }
    for (const { chain } of parts) {
      addCount(this.#uses, chain.name, -1);
      if (!this.#uses.has(chain.name)) this.elements.setPart(chain.name, undefined);
    }
    for (const [all, isThere] of [
      [keys, false],
      [next.keys, true],
    ] as const) {
      for (const [set, own] of Object.entries(all)) {
        for (const one of own) this.elements.setKey(set, one, isThere);
      }
    }
    if (service === undefined) this.#written.delete(key);
    else this.#written.set(key, next);
  }

  #made(service: Service, { bounds, limits, served }: LimitsContext): Written {
    const { clusterIPs, key, namespace } = service;
    const own = limits(service);
    const families = clusterIPs.map(({ family }) => family).sort();
    const bounded = bounds && partOfNamespace(namespace, bounds);
    const isLimited = !isNone(own) && !this.#leftOut.has(key);
    const part = isLimited ? partOf(key, own, families, bounded) : bounded;
    if (part === undefined) return nothing;
    const parts = new Map([bounded ?? part, part].map((one) => [one.chain.name, one]));
    const keys: Record<string, string[]> = {};
    for (const { at, forwarding, frontend } of frontendsOf(service, served)) {
      const { family, servicePort } = forwarding;
      const destination = destinationKey(at, IPPROTO[servicePort.protocol], keyPort(frontend));
      const map = frontendMaps[at === undefined ? 'nodePort' : family].name;
      const way = frontend.lastPort === undefined ? part : partOfRange(frontend, part);
      parts.set(way.chain.name, way);
      keys[map] ??= [];
      keys[map].push(gotoEntry(binary(destination), way.chain.name));
    }
    return { keys, parts: [...parts.values()] };
  }
}

function costOf({ clusterIPs }: Service, own: Limits, frontends: readonly Entrance[]): number {
  return room.service + (own.max_connections ?? 0) * clusterIPs.length + frontends.length;
}

function isNone(limits: Limits): boolean {
  return Object.values(limits).every((one) => one === undefined);
}

interface Entrance {
  readonly forwarding: Forwarding;
  readonly frontend: Frontend;
  /** Undefined: a node port at every address of this node. */
  readonly at: Address | undefined;
}

/** Those of them that refuse all connections anyway are left out. */
function frontendsOf(service: Service, served: readonly Served[]): Entrance[] {
  return forwardingKeys(service).flatMap((key) =>
    served.flatMap(({ desired, nodePortAddresses }) => {
      const forwarding = desired.get(key);
      if (forwarding === undefined) return [];
      return forwarding.frontends
        .filter(({ paths }) => !isRefusal(paths.pod.to))
        .flatMap((frontend): Entrance[] => {
          const of = { forwarding, frontend };
          if (frontend.kind !== 'nodePort') return [{ ...of, at: frontend.address }];
          if (nodePortAddresses === 'all') return [{ ...of, at: undefined }];
          return nodePortAddresses.map((at) => ({ ...of, at }));
        });
    }),
  );
}
