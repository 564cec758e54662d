/** The state of one family in the kernel: what is pinned, and the elements of the maps. */
import type { KernelReader } from '../../kernel/kernel.ts';
import type { Found } from '../../modes/backend.ts';
import { binary, bytesOf } from '../../modes/elements.ts';
import type { Family } from '../../net/address.ts';
import { sameBytes } from '../../net/bytes.ts';
import { EndpointList } from '../../net/endpoint-list.ts';
import { slotsOf } from '../../state/deal.ts';
import { withKernelOrder } from '../../state/pool.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Pause } from '../../time/pacer.ts';
import { type EnvironmentElement, environmentId, isOfEnvironment } from './environment.ts';
import { type ConnectTimeObject, frontendId, poolObjectId } from './frontends.ts';
import { keyBytes, mapNames, packedGroup, readGroupKey, valueBytes } from './layout.ts';
import type { Pinned } from './pinned.ts';
import type { PoolId } from './pool-ids.ts';
import { readMap } from './read-map.ts';

/** An object in the kernel. Groups: `binary` of their values by number, maybe with gaps. */
export type Observed =
  | { readonly kind: 'frontend'; readonly key: Uint8Array; readonly value: Uint8Array }
  | { readonly kind: 'pool'; readonly pool: Uint8Array; readonly groups: Map<number, string> };

type ObservedPool = Extract<Observed, { kind: 'pool' }>;

export interface ConnectTimeObjects {
  readonly frontend: ConnectTimeObject;
  readonly observed: Observed;
  /** Forwardings share nothing in the maps. */
  readonly shared: EnvironmentElement;
}

export class ConnectTimeObservation implements Found<ConnectTimeObjects> {
  maps: Pinned = 'absent';
  links: Pinned = 'absent';
  /** The values of elements of the environment, by `environmentId`. */
  readonly #environment = new Map<string, Uint8Array>();
  readonly #family: Family;
  readonly #poolId: PoolId;
  readonly #elements = new Map<string, Observed>();

  constructor(family: Family, poolId: PoolId) {
    this.#family = family;
    this.#poolId = poolId;
  }

  get intact(): boolean {
    return this.maps === 'right' && this.links === 'right';
  }

  /** Forgets the elements that were read: their maps are replaced. */
  clear(): void {
    this.#elements.clear();
    this.#environment.clear();
  }

  adopt(next: Forwarding): Forwarding {
    return withKernelOrder(next, (pool) => this.#orderOf(pool, next));
  }

  #orderOf(pool: 'cluster' | 'local', next: Forwarding): EndpointList {
    const list = slotsOf(next, pool);
    if (list.length < 2) return list;
    const found = this.#elements.get(poolObjectId(binary(this.#poolId(next, pool))));
    return found?.kind === 'pool' ? listOf(this.#family, found) : list;
  }

  take({ id }: ConnectTimeObject): Observed | undefined {
    const found = this.#elements.get(id);
    this.#elements.delete(id);
    return found;
  }

  rest(): Iterable<readonly [string, Observed]> {
    return this.#elements;
  }

  faultOf({ id, value }: EnvironmentElement): 'missing' | 'wrong' | undefined {
    const found = this.#environment.get(id);
    if (found === undefined) return 'missing';
    return sameBytes(found, value) ? undefined : 'wrong';
  }

  *shared(): Generator<{ readonly id: string }> {
    for (const id of this.#environment.keys()) yield { id };
  }

  async readElements(kernel: KernelReader, directory: string, pause: Pause): Promise<void> {
    const shapeOf = (sort: keyof typeof keyBytes) => ({
      directory,
      map: mapNames[this.#family][sort],
      keyBytes: keyBytes[sort],
      valueBytes: valueBytes[sort],
    });
    for (const map of ['frontends', 'excluded', 'secret'] as const) {
      await readMap(kernel, shapeOf(map), pause, (key, value) => {
        if (isOfEnvironment(map, key, value)) this.#environment.set(environmentId(map, key), value);
        else this.#elements.set(frontendId(key), { kind: 'frontend', key, value });
      });
    }
    await readMap(kernel, shapeOf('endpoints'), pause, (key, value) => {
      const { number, pool } = readGroupKey(key);
      this.#pool(pool).groups.set(number, binary(value));
    });
  }

  /** The pool, created on first use. */
  #pool(pool: string): ObservedPool {
    const id = poolObjectId(pool);
    const found = this.#elements.get(id);
    if (found?.kind === 'pool') return found;
    const made: ObservedPool = { kind: 'pool', pool: bytesOf(pool), groups: new Map() };
    this.#elements.set(id, made);
    return made;
  }
}

/** The endpoints without gaps. */
function listOf(family: Family, { groups }: ObservedPool): EndpointList {
  const inOrder = [...groups].sort(([a], [b]) => a - b);
  const packed = inOrder.map(([, value]) => packedGroup(family, bytesOf(value)));
  return EndpointList.from(family, Buffer.concat(packed));
}
