import { type FoundPod, type Lookup, LookupError } from '../../src/source/lookup.ts';

/** Returns what a test sets. */
export class FakeLookup implements Lookup {
  /** By `namespace/name`. */
  readonly pods = new Map<string, FoundPod>();

  async pod(namespace: string, name: string): Promise<FoundPod> {
    const pod = this.pods.get(`${namespace}/${name}`);
    if (pod === undefined) throw new LookupError('absence', `there is no pod ${namespace}/${name}`);
    return pod;
  }

  /** Names of pods by address, by the key of their Service; absent = the API does not answer. */
  readonly named = new Map<string, ReadonlyMap<string, string>>();

  async podsOf(
    ...[namespace, service]: Parameters<Lookup['podsOf']>
  ): Promise<ReadonlyMap<string, string>> {
    const names = this.named.get(`${namespace}/${service}`);
    if (names === undefined) throw new LookupError('source', 'the API server does not answer');
    return names;
  }
}
