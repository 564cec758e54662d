/** What Fairlead would serve, from the objects of the cluster. Writes nothing. */
import type { Config } from '../../config/config.ts';
import { NodeFacts } from '../../host/node-facts.ts';
import type { Environment, ModeFacts } from '../../modes/mode.ts';
import type { Address, Family } from '../../net/address.ts';
import type { Change, Resource, Taken } from '../../state/change.ts';
import { FrontendOwners, type Ownership, transferred } from '../../state/frontend-owners.ts';
import { NamespaceShares } from '../../state/namespace-shares.ts';
import { resolve } from '../../state/resolve.ts';
import { finish } from '../../state/steps.ts';
import { ClusterState } from '../../state/store.ts';
import type { Forwarding } from '../../state/types.ts';

interface ShadowClusterOptions {
  readonly config: Config;
  /** The mode to compare with: Forwardings and environment depend on the mode. */
  readonly mode: Pick<ModeFacts, 'name' | 'link'>;
  /** Reads the addresses of this machine. */
  readonly interfaces: () => readonly Address[];
}

export class ShadowCluster {
  readonly state = new ClusterState();
  readonly #facts: NodeFacts;
  readonly #owners = new FrontendOwners();
  readonly #shares: NamespaceShares;
  readonly #forwardings = new Map<string, readonly Forwarding[]>();
  readonly #listed = new Set<Resource>();
  /** The context that all Services were resolved with. */
  #context: NodeFacts['context'] | undefined;

  constructor({ config, interfaces, mode }: ShadowClusterOptions) {
    const { namespaceFactor: factor, ...limits } = config.serviceLimits;
    const { state } = this;
    this.#shares = new NamespaceShares({ limits, factor, state });
    this.#facts = new NodeFacts({
      settings: config,
      state,
      interfaces,
      mode,
      shares: this.#shares,
    });
  }

  /** Services, EndpointSlices and nodes have been listed once. */
  get isKnown(): boolean {
    return this.state.synced && this.#listed.has('nodes');
  }

  apply(change: Change): Taken {
    return this.state.apply(change);
  }

  synced(resource: Resource): void {
    this.#listed.add(resource);
    this.state.markSynced(resource);
  }

  /** What applies to all Services now. */
  environment(family: Family): Environment {
    return this.#facts.environment(family);
  }

  /** The Forwardings as they should be now. */
  *forwardings(): Generator<Forwarding> {
    this.#facts.readInterfaces();
    const { context } = this.#facts;
    if (context !== this.#context)
      for (const key of this.state.serviceKeys()) this.state.touch(key);
    this.#context = context;
    const { changed } = this.state;
    for (let one = changed.next(); one !== undefined; one = changed.next()) {
      this.state.resolved(one);
      this.#refresh(one.key, context);
    }
    for (const forwardings of this.#forwardings.values()) yield* forwardings;
  }

  /** Resolves the Service. */
  #refresh(key: string, context: NodeFacts['context']): void {
    const service = this.state.service(key);
    const slices = this.state.slices(key);
    this.state.takeTriggerTimes(key);
    for (const other of this.#shares.count(key, service, slices)) this.state.touch(other);
    if (service === undefined) {
      this.#forwardings.delete(key);
      this.#transfer(this.#owners.release(key));
      return;
    }
    const desired = resolve(service, slices, context);
    const owned = finish(this.#owners.set(service, desired, context.nodeSockets));
    this.#forwardings.set(key, owned.forwardings);
    this.#transfer(owned);
  }

  #transfer({ affected, transfers }: Omit<Ownership, 'forwardings'>): void {
    for (const other of affected) if (other !== undefined) this.state.touch(other);
    for (const transfer of transfers) {
      const { family, forwarding, service } = transfer;
      const all = this.#forwardings.get(service) ?? [];
      const changed = all.map((one) =>
        one.family === family && one.key === forwarding ? transferred(one, transfer) : one,
      );
      this.#forwardings.set(service, changed);
    }
  }
}
