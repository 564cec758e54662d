/** Tells log, metrics and users about taking over from kube-proxy and from other modes. */
import type { TakeoverEvent } from '../takeover/takeover.ts';
import type { ClusterEvents } from './cluster-events.ts';
import type { LifecycleMetrics } from './lifecycle-metrics.ts';
import type { Logger } from './log.ts';

/** The log names so many objects of a mode, which may have thousands. */
const objectsTold = 10;

export function takeoverReport(
  log: Logger,
  metrics: LifecycleMetrics,
  events: ClusterEvents,
): (event: TakeoverEvent) => void {
  return (event) => {
    switch (event.kind) {
      case 'removed': {
        const { backend, family, tables, chains, jumps } = event.leftovers;
        const counts = { tables: tables.length, chains: chains.length, jumps: jumps.length };
        metrics.tookOver(counts);
        const about = { family, backend, ...counts };
        const what =
          `${family} (${backend}): ${counts.tables} tables, ` +
          `${counts.chains} chains, ${counts.jumps} jumps`;
        if (event.again) {
          log.warn(about, "kube-proxy's rules were there again and are removed");
          const note = `kube-proxy wrote its rules again (${what}): is it still running on this node?`;
          events.takeover('Warning', 'KubeProxyIsBack', note);
        } else {
          log.info(about, 'Took over from kube-proxy, its rules are removed');
          events.takeover('Normal', 'TookOverFromKubeProxy', `removed kube-proxy's ${what}`);
        }
        return;
      }
      case 'kept': {
        const kept = event.kept.map(({ table, chain, because }) => `${table} ${chain}: ${because}`);
        const { backend, family } = event;
        log.warn({ family, backend, kept }, "Chains of kube-proxy's stay, they are needed");
        return;
      }
      case 'draining': {
        const { mode, connections } = event;
        const words = 'Another mode carries connections yet, its objects go when they have ended';
        log.info({ mode, connections }, words);
        return;
      }
      case 'replaced': {
        const { mode, by, objects } = event;
        metrics.replaced(mode, by);
        const first = objects.slice(0, objectsTold).map(({ object }) => object);
        const about = { mode, by, objects: objects.length, first };
        log.info(about, 'Took over from another mode, its objects are removed');
        const note = `removed ${objects.length} objects of mode ${mode}, mode ${by} has taken over`;
        events.takeover('Normal', 'ProxyModeReplaced', note);
        return;
      }
      case 'failed': {
        const { of, error, retryMs } = event;
        const about = { of, err: error.message, retryMs };
        log.warn(about, 'What was replaced is not removed yet, it is tried again');
        return;
      }
      case 'IPVS': {
        const { services, sets, busy, foreign, keptSets } = event.leftovers;
        const counts = { virtualServices: services.length, sets: sets.length };
        metrics.tookOver({ 'virtual services': services.length, sets: sets.length });
        const about = { ...counts, draining: busy, foreign, keptSets };
        log.info(about, "kube-proxy's IPVS is removed, but for what still carries connections");
        const removed = `removed kube-proxy's ${counts.virtualServices} virtual services of IPVS`;
        const left = busy === 0 ? '' : `; ${busy} go when their connections have ended`;
        events.takeover('Normal', 'TookOverFromKubeProxy', `${removed}${left}`);
        return;
      }
      case 'foreign-table': {
        const { table, objects } = event.table;
        metrics.foreignTableReplaced();
        const first = objects.slice(0, objectsTold);
        const about = { table, objects: objects.length, first };
        log.warn(about, 'A table of our name was made by somebody else, and is replaced');
        const note =
          `table ${table} was not made by Fairlead and is replaced; it held ${first.join(', ')}` +
          (objects.length > first.length ? ` and ${objects.length - first.length} more` : '');
        events.takeover('Warning', 'ForeignTable', note);
        return;
      }
      case 'counters':
        log.info({ counters: event.names }, "kube-proxy's named counters are removed");
        return;
      case 'legacy': {
        const note =
          `others of this node use iptables-legacy (${event.tables.join('; ')}): let kubelet, CNI ` +
          'and others use iptables-nft; packets meet both, but each program shows and changes ' +
          'only its own';
        log.warn({ note }, 'Rules of iptables-legacy are in force besides ours');
        events.takeover('Warning', 'LegacyIptables', note);
        return;
      }
    }
  };
}
