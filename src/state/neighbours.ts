/**
 * Services that claim an address of the node and a port number there. A node port of that number
 * is at the same address, and was given to one Service by the cluster; an address and port is what
 * anybody asks for. So the node port keeps the others out, and so does what listens there for
 * health checks. Nobody may be let in before the other is out.
 */

/** Identifies a node port: its family, protocol and number. */
export type NodePortKey = string;

interface Neighbour {
  /** Whoever keeps it out, as it was told; undefined = nobody, '' = for the moment only. */
  keeper: string | undefined;
  /** What it claims there may be in force. */
  inside: boolean;
}

const nobody: ReadonlyMap<string, Neighbour> = new Map();

export class Neighbours {
  readonly #at = new Map<NodePortKey, Map<string, Neighbour>>();
  /** Node ports that each Service is a neighbour of. */
  readonly #of = new Map<string, ReadonlySet<NodePortKey>>();

  /** Notes who keeps a Service out. Returns whether that is to be told. */
  note(key: NodePortKey, service: string, keeper: string | undefined): boolean {
    const all = this.#at.get(key) ?? new Map<string, Neighbour>();
    this.#at.set(key, all);
    const known = all.get(service);
    const isNews = keeper !== undefined && keeper !== '' && keeper !== known?.keeper;
    all.set(service, { keeper, inside: keeper === undefined || known?.inside === true });
    return isNews;
  }

  /**
   * What the Service has there now is handed over: these are the node ports that it is a neighbour
   * of. Returns those that it has gone from.
   */
  handedOver(service: string, keys: ReadonlySet<NodePortKey>): readonly NodePortKey[] {
    const left: NodePortKey[] = [];
    for (const key of this.#of.get(service) ?? []) {
      if (keys.has(key)) continue;
      if (this.#remove(key, service)) left.push(key);
    }
    for (const key of keys) {
      const known = this.#at.get(key)?.get(service);
      if (known === undefined || !known.inside || known.keeper === undefined) continue;
      known.inside = false;
      left.push(key);
    }
    if (keys.size > 0) this.#of.set(service, keys);
    else this.#of.delete(service);
    return left;
  }

  /** Whether others may have something in force there. */
  *inside(key: NodePortKey, butFor: string): Generator<string> {
    for (const [service, { inside }] of this.#at.get(key) ?? nobody) {
      if (inside && service !== butFor) yield service;
    }
  }

  /** Those for whom it has changed whether somebody keeps them out. */
  *changed(key: NodePortKey, keeperOf: (service: string) => string | undefined): Generator<string> {
    for (const [service, { inside }] of this.#at.get(key) ?? nobody) {
      if ((keeperOf(service) === undefined) !== inside) yield service;
    }
  }

  /** Whether it may have had something in force there. */
  #remove(key: NodePortKey, service: string): boolean {
    const all = this.#at.get(key);
    const inside = all?.get(service)?.inside ?? false;
    all?.delete(service);
    if (all?.size === 0) this.#at.delete(key);
    return inside;
  }
}
