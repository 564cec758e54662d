/**
 * Defects that the simulation must find: those that the program once had, and those that one
 * deleted line would make. Each is a text that takes the place of another one in a file of src.
 */
import type { ModeName } from '../../src/modes/mode.ts';

export interface Defect {
  readonly name: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** Default: nftables. */
  readonly mode?: ModeName;
}

export const defects: readonly Defect[] = [
  {
    name: 'an object with a known version is skipped, also after a restore of etcd',
    file: 'source/kubernetes/delivery.ts',
    from: 'const { change, problems } =',
    to: 'if (isKnown) return key;\n    const { change, problems } =',
  },
  {
    name: 'a second flush waits for many times the last comparison',
    file: 'sync/audit.ts',
    from: 'return this.#damagedAtMs === undefined ? this.#notBeforeMs : this.repairAtMs;',
    to: 'return this.#notBeforeMs;',
  },
  {
    name: 'a commit by another program during a repair is blamed on Services',
    file: 'sync/family.ts',
    from: 'const disbelieved = failures.some(contradictsBelief);',
    to: "const disbelieved = purpose === 'changes' && failures.some(contradictsBelief);",
    mode: 'iptables',
  },
  {
    name: 'after a refusal the kernel is read after 5 s instead of immediately',
    file: 'agent/engine-settings.ts',
    from: 'recoveryBackoff: { firstMs: 0,',
    to: 'recoveryBackoff: { firstMs: 5000,',
  },
  {
    name: 'an interrupted dump is taken for a complete one',
    file: 'sync/retrying-reader.ts',
    from: 'if (result.consistent) return result;',
    to: 'if (result.records.length > 0) return { ...result, consistent: true };',
  },
  {
    name: 'a watch that is silent is never given up',
    file: 'source/kubernetes/timing.ts',
    from: 'idleTimeoutMs: 90_000,',
    to: 'idleTimeoutMs: 90_000_000,',
  },
  {
    name: 'deletions that happened between two lists are missed',
    file: 'source/kubernetes/delivery.ts',
    from: 'if (!keys.has(key)) this.remove(key);',
    to: 'if (keys.size === 0) this.remove(key);',
  },
  {
    name: 'events that repeat the past are applied',
    file: 'source/kubernetes/reflector.ts',
    from: 'if (!isNewer(resourceVersion, this.#resourceVersion)) return;',
    to: '',
  },
  {
    name: 'a watch continues after an ERROR event as if nothing were missing',
    file: 'source/kubernetes/reflector.ts',
    from: 'if (error.status !== 429) this.#resourceVersion = undefined;',
    to: 'if (error.status === 500) this.#resourceVersion = undefined;',
  },
  {
    name: 'a watch whose version is too old is opened again from the same',
    file: 'source/kubernetes/reflector.ts',
    from: 'if (status === 410) return true;',
    to: 'if (status === 410) return false;',
  },
  {
    name: 'a deleted slice does not make its Service change',
    file: 'state/store.ts',
    from: 'this.#triggerTimes.drop(service, family);\n    if (known.service !== undefined) this.#dirty.add(service);',
    to: 'this.#triggerTimes.drop(service, family);',
  },
  {
    name: 'packets follow the lists before these are complete',
    file: 'state/store.ts',
    from: "return this.#synced.has('services') && this.#synced.has('endpointslices');",
    to: "return this.#synced.has('services') || this.#synced.has('endpointslices');",
  },
  {
    name: 'what was planned in a refused batch is taken for in force',
    file: 'sync/tracked.ts',
    from: 'this.setPlanned(record, record.inForce);',
    to: 'this.setInForce(record, record.planned);',
  },
  {
    name: 'elements of shrunk pools are never deleted',
    file: 'modes/nftables/deferred.ts',
    from: '} else if (room > 0) {',
    to: '} else if (room > dueMax) {',
  },
  {
    name: 'elements of shrunk pools are deleted with the change',
    file: 'modes/nftables/deferred.ts',
    from: 'if (!range.aged) {',
    to: 'if (range.aged === undefined) {',
  },
  {
    name: 'a wakeup that comes while its waiter works is lost',
    file: 'time/clock.ts',
    from: 'async wait(timeoutMs?: number): Promise<boolean> {',
    to: 'async wait(timeoutMs?: number): Promise<boolean> {\n    this.#isWoken = false;',
  },
  {
    name: 'only one family learns of changes',
    file: 'sync/loop.ts',
    from: 'for (const sync of this.#families) sync.wake();',
    to: 'this.#families[0]?.wake();',
  },
  {
    name: 'syncs rest for a thousand times what they cost',
    file: 'sync/pace.ts',
    from: 'const share = 0.2;',
    to: 'const share = 0.001;',
  },
  {
    name: 'a Service that was set aside is not tried again',
    file: 'sync/quarantine.ts',
    from: 'return [...this.#entries.values()].filter((e) => now >= e.retryAtMs).map(({ key }) => key);',
    to: 'return [...this.#entries.values()].filter((e) => now < 0).map(({ key }) => key);',
  },
  {
    name: 'a program that starts does not read what the kernel has',
    file: 'sync/recovery.ts',
    from: 'if (adopted !== forwarding) targets.set(record, adopted);',
    to: '',
  },
];
