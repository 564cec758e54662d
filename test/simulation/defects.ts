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

/** How a defect was found. */
export interface Found {
  readonly seed: number;
  /** Of processor time, for all seeds until then. */
  readonly seconds: number;
  /** The check. */
  readonly by: string;
}

/** The text of a defect's file with the defect in it. */
export function changedText({ file, from, name, to }: Defect, text: string): string {
  if (text.split(from).length !== 2) {
    throw new Error(
      `src/${file} does not have the text of the defect "${name}" once. Say in ` +
        `test/simulation/defects.ts what makes it today; if nothing can, delete it there: ${from}`,
    );
  }
  return text.replace(from, () => to);
}

export const defects: readonly Defect[] = [
  {
    name: 'an object with a known version is skipped, also after a restore of etcd',
    file: 'source/kubernetes/delivery.ts',
    from: 'if (key !== undefined && change !== undefined) {',
    to: 'if (isKnown) return key;\n    if (key !== undefined && change !== undefined) {',
  },
  {
    name: 'a second flush waits for many times the last comparison',
    file: 'sync/audit.ts',
    from: 'return this.#damage.isKnown ? this.#damage.repairAtMs : this.#notBeforeMs;',
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
    to: 'return { ...result, consistent: true };',
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
    name: 'a watch whose version is too old is opened again from the same',
    file: 'source/kubernetes/reflector.ts',
    from: 'if (status === 410) return true;',
    to: 'if (status === 410) return false;',
  },
  {
    name: 'a deleted slice does not make its Service change',
    file: 'state/store.ts',
    from: 'this.#triggerTimes.drop(service, family);\n    if (known.service !== undefined) this.#change(service);',
    to: 'this.#triggerTimes.drop(service, family);',
  },
  {
    name: 'packets follow the lists before these are complete',
    file: 'state/store.ts',
    from: "this.#isSynced = this.#synced.has('services') && this.#synced.has('endpointslices');",
    to: "this.#isSynced = this.#synced.has('services') || this.#synced.has('endpointslices');",
  },
  {
    name: 'what was planned in a refused batch is taken for in force',
    file: 'sync/tracked.ts',
    from: 'this.setPlanned(record, record.inForce);',
    to: 'this.setInForce(record, record.planned);',
  },
  {
    name: 'elements of shrunk pools are never deleted',
    file: 'modes/nftables/frontend-writer.ts',
    from: 'for (let i = newLength; i < oldLength; i += 1) {',
    to: 'for (let i = newLength; i < 0; i += 1) {',
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
  {
    name: 'objects are not compared with the API server',
    file: 'source/kubernetes/comparison.ts',
    from: 'const since = position();',
    to: 'const since = Math.random() < 0 ? position() : undefined;',
  },
  {
    name: 'a comparison with the API server deletes nothing',
    file: 'source/kubernetes/comparison.ts',
    from: 'if (isComplete) correct(() => delivery.retain(keys));',
    to: '',
  },
  {
    name: 'a probe of mode ipvs that is killed leaves its virtual service',
    file: 'modes/ipvs/probe.ts',
    from: 'for (const op of [add, deletion]) writer.write(op.kind, op);\n  const result = await kernel.apply(writer.finish());',
    to: `writer.write(add.kind, add);
  const result = await kernel.apply(writer.finish());
  const after = new RecordWriter(kernelOps, 256);
  after.write(deletion.kind, deletion);
  await kernel.apply(after.finish());`,
    mode: 'ipvs',
  },
  {
    name: 'a reading is believed about frontends that batches have changed since',
    file: 'modes/comparison-state.ts',
    from: 'if (changes.has(after.id) || this.touched.has(after.id)) return;',
    to: 'if (changes.has(after.id)) return;',
  },
  {
    name: 'what was in force before a failed repair is not reported when it goes',
    file: 'sync/tracked.ts',
    from: 'record.before = record.inForce ?? record.before;',
    to: 'record.before = record.inForce;',
  },
  {
    name: 'a comparison continues after the planner was reset',
    file: 'sync/family.ts',
    from: '    this.#audit.cancel();\n',
    to: '',
  },
  {
    name: 'clients stay bound to endpoints that have gone',
    file: 'modes/nftables/affinity.ts',
    from: 'if (losesEndpoint(kept.pool, pool)) this.#due.add(definition.name);',
    to: '',
  },
  {
    name: 'a Service that moves while an endpoint goes keeps its clients',
    file: 'modes/nftables/affinity.ts',
    from: 'this.#left.add(name);',
    to: 'if (this.#kept.get(name)?.frontends.size === 0) this.#kept.delete(name);',
  },
  {
    name: 'a program that starts takes what it has read for the newest',
    file: 'sync/snapshots.ts',
    from: "(await writersSince(ahead.generation, kernel)) !== 'others'",
    to: '(await writersSince(ahead.generation, kernel), true)',
  },
  {
    name: 'a frontend that a Service leaves passes to no other',
    file: 'state/frontend-owners.ts',
    from: 'return { forwardings: owned, ...ended };',
    to: 'return { forwardings: owned, ...ended, transfers: noTransfers };',
  },
  {
    name: 'a frontend that passes to another Service is not written for that',
    file: 'sync/desired.ts',
    from: 'sync?.changed(sync.track(key), cause, service);',
    to: '',
  },
  {
    name: 'two Services have one frontend',
    file: 'state/frontend-owners.ts',
    from: 'if (!this.#enter(key, claim)) doubtful.push(key);',
    to: 'this.#enter(key, claim);',
  },
  {
    name: 'a frontend is deleted by the Service that has lost it',
    file: 'sync/handover.ts',
    from: 'if (holders !== undefined) for (const holder of holders) this.#yield(holder, next!);',
    to: '',
  },
  {
    name: 'a deleted Service stays',
    file: 'state/store.ts',
    from: 'this.#forgetIfEmpty(key, known);\n    this.#change(key);',
    to: 'this.#forgetIfEmpty(key, known);',
  },
  {
    name: 'a slice with other conditions of endpoints counts as the same',
    file: 'state/equal.ts',
    from: "conditions: 'is',",
    to: "conditions: 'ignored',",
  },
  {
    name: 'a Service with another session affinity counts as the same',
    file: 'state/equal.ts',
    from: "affinityTimeoutSeconds: 'is',\n  rulesOnly",
    to: "affinityTimeoutSeconds: 'ignored',\n  rulesOnly",
  },
  {
    name: 'a Forwarding with other paths of a frontend counts as the same',
    file: 'state/equal.ts',
    from: "paths: 'is',",
    to: "paths: 'ignored',",
  },
  {
    name: 'a slice with other hints of zones counts as the same',
    file: 'state/equal.ts',
    from: 'zoneHints: listEquality(listEquality<string>(Object.is)),',
    to: "zoneHints: 'ignored',",
  },
  {
    name: 'reading does not wait for batches in flight',
    file: 'sync/ruleset.ts',
    from: 'await Promise.allSettled(this.#commits);',
    to: '',
  },
  {
    name: 'batches do not wait for reading',
    file: 'sync/ruleset.ts',
    from: 'while (this.#reading !== undefined) await this.#reading.promise;',
    to: '',
  },
  {
    name: 'a packet that draws an empty place finds no endpoint',
    file: 'modes/nftables/chains.ts',
    from: 'const rules = [...many, random(1)].map(',
    to: 'const rules = [all].map(',
  },
  {
    name: 'a refused batch keeps what it would have retired',
    file: 'modes/undo-map.ts',
    from: 'else this.#values.set(key, value);\n    }\n    this.confirmTaken();',
    to: '}\n    this.confirmTaken();',
  },
  {
    name: 'a repair takes out what the kernel refuses in each form',
    file: 'sync/family.ts',
    from: '|| found.leave(target)) continue;',
    to: ') continue;',
    mode: 'ipvs',
  },
  {
    name: 'what a later batch retires is final with the one before',
    file: 'modes/undo-map.ts',
    from: 'confirmTaken(): void {',
    to: 'confirmTaken(): void {\n    this.take();',
    mode: 'ipvs',
  },
  {
    name: 'what is known of a Service that has gone is kept',
    file: 'sync/tracked.ts',
    from: 'if (isEmpty && this.#records.get(key) === record) this.#records.delete(key);',
    to: '',
  },
  {
    name: 'an object that is needed again is deleted later',
    file: 'modes/shared-objects.ts',
    from: 'if (isRetired) this.#retired.put(id, undefined);',
    to: '',
  },
  {
    name: 'chains that nothing needs are never deleted',
    file: 'modes/shared-objects.ts',
    from: '.filter(([, { isAged }]) => isAged)',
    to: '.filter(([, { isAged }]) => !isAged && isAged)',
  },
  {
    name: 'a repair deletes nothing that is too much',
    file: 'modes/comparison-state.ts',
    from: 'else unneeded.push({ id, laterRank });',
    to: '',
  },
  {
    name: 'a repair keeps frontends that no Service has',
    file: 'modes/comparison-state.ts',
    from: 'if (this.touched.has(id) || changes.has(id)) return;\n      const none',
    to: 'if (id !== undefined) return;\n      const none',
  },
  {
    name: 'handles of deleted rules are kept',
    file: 'modes/iptables/batch-writer.ts',
    from: 'for (const { id } of gone) if (id !== undefined) handles.delete(id);',
    to: '',
    mode: 'iptables',
  },
  {
    name: 'handles of rules are believed after others have deleted them',
    file: 'modes/iptables/backend.ts',
    from: 'else if (!there.has(name) || !isLeaving(id)) handles.delete(id);',
    to: '',
    mode: 'iptables',
  },
  {
    name: 'a repair keeps single rules that no Service has',
    file: 'modes/iptables/repair.ts',
    from: 'if (!kept.has(name)) deleteRule(context, chain, handle);',
    to: '',
    mode: 'iptables',
  },
  {
    name: 'chains that others refer to are deleted again and again',
    file: 'modes/iptables/transaction.ts',
    from: 'for (const rule of this.#oldRules) this.#writeDeletion(rule);',
    to: 'for (const rule of this.#oldRules) if (rule.id === undefined) this.#writeDeletion(rule);',
    mode: 'iptables',
  },
  {
    name: 'real servers are deleted with their connections',
    file: 'modes/ipvs/backend.ts',
    from: 'else if (server.connections === 0) services',
    to: 'else if (server.connections >= 0) services',
    mode: 'ipvs',
  },
  {
    name: 'real servers that drain are never deleted',
    file: 'modes/ipvs/backend.ts',
    from: 'return this.#draining.isAny ? this.#writeDrained : undefined;',
    to: 'return this.#draining.isAny ? undefined : undefined;',
    mode: 'ipvs',
  },
  {
    name: 'a real server that comes back while it drains is deleted',
    file: 'modes/ipvs/service-writer.ts',
    from: 'this.#settings.draining.remove(id, pool.key(i));',
    to: '',
    mode: 'ipvs',
  },
  {
    name: 'real servers of a deleted virtual service drain on',
    file: 'modes/ipvs/service-writer.ts',
    from: 'this.#settings.draining.forget(id);\n      removals',
    to: 'removals',
    mode: 'ipvs',
  },
  {
    name: 'a changed scheduler is not set',
    file: 'modes/ipvs/service-writer.ts',
    from: 'held.scheduler === desired.scheduler &&\n',
    to: '',
    mode: 'ipvs',
  },
  {
    name: 'addresses on the dummy link stay when their Service goes',
    file: 'modes/ipvs/batch-writer.ts',
    from: 'else if (address !== undefined) this.#unbound.push({ owner, bytes: address });',
    to: '',
    mode: 'ipvs',
  },
  {
    name: 'the last endpoints of default/kubernetes are not kept',
    file: 'state/store.ts',
    from: 'return key === apiServers ? this.#lastServers : this.slices(key);',
    to: 'return this.slices(key);',
  },
  {
    name: 'another zone of the node changes no Service',
    file: 'state/store.ts',
    from: 'if (previous?.zone !== node.zone) this.#touchWith(({ zoneHints }) => zoneHints !== undefined);',
    to: '',
  },
  {
    name: 'a slice that names another Service stays with the first',
    file: 'state/store.ts',
    from: 'if (previous !== undefined && previous.service !== service) {\n      this.#deleteSlice(key);',
    to: 'if (previous !== undefined && previous.service !== service) {',
  },
  {
    name: 'a deleted ServiceCIDR counts still',
    file: 'state/store.ts',
    from: 'if (!this.#serviceCIDRObjects.delete(name)) return false;\n    this.#uniteServiceCIDRs();',
    to: 'if (!this.#serviceCIDRObjects.delete(name)) return false;',
  },
  {
    name: 'a slice that becomes unusable keeps its endpoints',
    file: 'state/store.ts',
    from: 'return this.#deleteSlice(unused.key) || services.length > 0;',
    to: 'return services.length > 0;',
  },
  {
    name: 'the Service that an unusable slice no longer names is not looked at again',
    file: 'state/store.ts',
    from: 'if (service !== undefined) this.touch(service);\n    return service !== undefined;',
    to: 'return service !== undefined;',
  },
  {
    name: 'a recovery writes what is set aside',
    file: 'sync/recovery.ts',
    from: 'if (inForce === undefined) targets.delete(record);',
    to: 'if (inForce === undefined) continue;',
  },
  {
    name: 'a refused batch loses what was right in it',
    file: 'sync/family.ts',
    from: 'if (!this.#quarantine.holds(record.key)) this.#changes.mark(record, cause);\n    }\n    this.#audit',
    to: '}\n    this.#audit',
  },
  {
    name: 'a planner believes what a refused batch would have changed',
    file: 'sync/family.ts',
    from: 'if (contained) await planner.resume(this.inForce.values(), this.#pause());',
    to: 'if (contained) await planner.resume([], this.#pause());',
  },
  {
    name: 'entries of connection tracking to endpoints that have gone stay',
    file: 'conntrack/reconciler.ts',
    from: 'eachSuspect(previous, next, this.#work[protocol].frontends.suspect);',
    to: '',
  },
  {
    name: 'entries of frontends that have gone stay',
    file: 'conntrack/policy.ts',
    from: '    all ??= rightEndpoints(previous);\n    suspect(key, all);',
    to: '    all ??= noEndpoints;',
  },
  {
    name: 'a program that starts examines no entries',
    file: 'conntrack/policy.ts',
    from: 'suspect(frontendKey(frontend), noEndpoints);',
    to: '{}',
  },
  {
    name: 'an interrupted dump of connection tracking is believed',
    file: 'conntrack/reconciler.ts',
    from: 'const dumpsMax = 5;',
    to: 'const dumpsMax = 1;',
  },
  {
    name: 'a page of Services is left out when the last one before it recovers',
    file: 'serve/ask/services.ts',
    from: "const after = query.get('continue') ?? '';",
    to: `const place = query.get('continue') ?? '';
  const after = troubled.has(place.slice(firstMark.length)) ? place : place.replace(firstMark, '');`,
  },
  {
    name: 'a failed pass over connection tracking is not repeated',
    file: 'conntrack/reconciler.ts',
    from: 'work.dueMs = failure && this.#retryAtMs(work, failure);',
    to: 'work.dueMs = failure && (this.#retryAtMs(work, failure), undefined);',
  },
  {
    name: 'an interrupted list of tables shows that a table is absent',
    file: 'kernel/nft/find-table.ts',
    from: "await untilSteady(() => steadyDump(kernel, { kind: 'tablesDump', family }));",
    to: "(await kernel.dump({ kind: 'tablesDump', family })).records;",
  },
  {
    name: 'objects are compared with a list that may be older than what is known',
    file: 'source/kubernetes/paged-list.ts',
    from: "const query = { resourceVersion, resourceVersionMatch: 'NotOlderThan' };",
    to: "const query = { resourceVersion: '0' };",
  },
  {
    name: 'whether an endpoint may be probed is judged when it is first followed',
    file: 'failure-detection/ports.ts',
    from: 'get exempt() {\n        return exemptions.reasonOf(address, port);\n      },',
    to: 'exempt: exemptions.reasonOf(address, port),',
  },
  {
    name: 'endpoints in ranges of Services are probed',
    file: 'failure-detection/ports.ts',
    from: "if (serviceCIDRs(address.family).some(isIn)) return 'it is in a ServiceCIDR';",
    to: '',
  },
  {
    name: 'endpoints outside the ranges of pods are probed',
    file: 'failure-detection/ports.ts',
    from: "return podCIDRs().some(isIn) ? undefined : 'it is in no pod CIDR that this node knows';",
    to: 'return podCIDRs().some(isIn) ? undefined : undefined;',
  },
  {
    name: 'an endpoint that answers again gets no connections before a trial',
    file: 'failure-detection/pool.ts',
    from: 'if (evidence.answeredMs >= sinceMs + leastMs) return',
    to: 'if (nowMs - sinceMs >= trialMs && evidence.answeredMs >= sinceMs + leastMs) return',
  },
  {
    name: 'the first reading of addresses waits for the Node',
    file: 'host/interfaces.ts',
    from: 'this.#last = options.read();',
    to: 'this.#last = undefined as never;',
  },
  {
    name: 'a lease is not renewed while maps are compared',
    file: 'sync/family.ts',
    from: 'if (this.#isInStep) this.#inStepAtMs = now;',
    to: '',
  },
];
