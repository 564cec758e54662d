/** What Fairlead would serve, from what the cluster says; nothing of it is written anywhere. */
import type { Config } from '../config/config.ts';
import { NodeFacts } from '../host/node-facts.ts';
import type { Environment, ModeFacts } from '../modes/mode.ts';
import type { Address, Family } from '../net/address.ts';
import type { Change, Resource } from '../state/change.ts';
import { Claims } from '../state/claims.ts';
import { resolve } from '../state/resolve.ts';
import { finish } from '../state/steps.ts';
import { ClusterState } from '../state/store.ts';
import type { Forwarding } from '../state/types.ts';

interface ShadowClusterOptions {
  readonly config: Config;
  /** What a frontend may have, and what rules depend on, differs from mode to mode. */
  readonly mode: Pick<ModeFacts, 'name' | 'link'>;
  /** Reads the addresses of this machine. */
  readonly interfaces: () => readonly Address[];
}

export class ShadowCluster {
  readonly state = new ClusterState();
  readonly #facts: NodeFacts;
  readonly #claims = new Claims();
  readonly #forwardings = new Map<string, readonly Forwarding[]>();
  readonly #listed = new Set<Resource>();
  /** What everything was resolved with. */
  #context: NodeFacts['context'] | undefined;

  constructor({ config, interfaces, mode }: ShadowClusterOptions) {
    this.#facts = new NodeFacts({ settings: config, state: this.state, interfaces, mode });
  }

  /** All that decides what is served has been listed once. */
  get isKnown(): boolean {
    return this.state.synced && this.#listed.has('nodes');
  }

  apply(change: Change): void {
    this.state.apply(change);
  }

  synced(resource: Resource): void {
    this.#listed.add(resource);
    this.state.markSynced(resource);
  }

  /** What applies to all Services, as of now. */
  environment(family: Family): Environment {
    return this.#facts.environment(family);
  }

  /** As of now. */
  *forwardings(): Generator<Forwarding> {
    this.#facts.readInterfaces();
    const { context } = this.#facts;
    if (context !== this.#context)
      for (const key of this.state.serviceKeys()) this.state.touch(key);
    this.#context = context;
    const dirty = new Set(this.state.takeDirty());
    // The set grows while it is walked.
    for (const key of dirty) {
      dirty.delete(key);
      for (const other of this.#refresh(key, context)) dirty.add(other);
    }
    for (const forwardings of this.#forwardings.values()) yield* forwardings;
  }

  /** Returns the Services whose claims that changed. */
  #refresh(key: string, context: NodeFacts['context']): readonly string[] {
    const service = this.state.service(key);
    this.state.takeTriggerTimes(key);
    if (service === undefined) {
      this.#forwardings.delete(key);
      return finish(this.#claims.release(key));
    }
    const wanted = resolve(service, this.state.slices(key), context);
    const { forwardings, concede } = finish(
      this.#claims.claim(service, wanted, context.nodeSockets),
    );
    this.#forwardings.set(key, forwardings);
    return finish(concede());
  }
}
