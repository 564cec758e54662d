/**
 * Services that claim a port at an address of the node, as external IP or load-balancer address. A
 * node port of the same number is at the same address. It comes first, because the cluster gave it
 * to one Service, and anybody can ask for an address. Health-check node ports come first, too. The
 * holder must give the port up before another gets it.
 */

/** Identifies a node port: its family, protocol and number. */
export type NodePortKey = string;

/** The port still has another holder, which must give it up first. */
export const pending = Symbol('pending');

/** Who keeps a port from a Service: the key of another Service, or this process, or `pending`. */
export type Keeper = string | typeof pending;

interface Neighbour {
  /** Undefined: no other Service keeps the port from it. */
  keeper: Keeper | undefined;
  /** Its claim there may be in force. */
  inside: boolean;
}

const nobody: ReadonlyMap<string, Neighbour> = new Map();

export class Neighbours {
  readonly #at = new Map<NodePortKey, Map<string, Neighbour>>();
  /** Node ports that each Service is a neighbour of. */
  readonly #of = new Map<string, ReadonlySet<NodePortKey>>();

  /**
   * Records who keeps the port from a Service. Returns that keeper if it must be reported: it is
   * known, and was not reported before.
   */
  note(key: NodePortKey, service: string, keeper: Keeper | undefined): string | undefined {
    const all = this.#at.get(key) ?? new Map<string, Neighbour>();
    this.#at.set(key, all);
    const known = all.get(service);
    all.set(service, { keeper, inside: keeper === undefined || known?.inside === true });
    return keeper === pending || keeper === known?.keeper ? undefined : keeper;
  }

  /**
   * The Forwardings of the Service were handed over, with claims at these node ports. Returns the
   * node ports where it had claims before and has none now.
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

  /** Other Services whose claims there may be in force. */
  *inside(key: NodePortKey, butFor: string): Generator<string> {
    for (const [service, { inside }] of this.#at.get(key) ?? nobody) {
      if (inside && service !== butFor) yield service;
    }
  }

  /** Services for which it has changed whether somebody keeps the port from them. */
  *changed(key: NodePortKey, keeperOf: (service: string) => Keeper | undefined): Generator<string> {
    for (const [service, { inside }] of this.#at.get(key) ?? nobody) {
      if ((keeperOf(service) === undefined) !== inside) yield service;
    }
  }

  /** Removes the Service. Returns whether its claim there may have been in force. */
  #remove(key: NodePortKey, service: string): boolean {
    const all = this.#at.get(key);
    const inside = all?.get(service)?.inside ?? false;
    all?.delete(service);
    if (all?.size === 0) this.#at.delete(key);
    return inside;
  }
}
