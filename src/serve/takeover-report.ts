/** Reports takeovers from kube-proxy and from other modes to log, metrics and events. */
import type { TakeoverEvent } from '../takeover/takeover.ts';
import type { ClusterEvents } from './cluster-events.ts';
import type { Logger } from './log.ts';
import type { LifecycleMetrics } from './metrics.ts';

/** The most objects of a mode that the log names; there may be thousands. */
const namedMax = 10;

export function takeoverReport(
  log: Logger,
  metrics: LifecycleMetrics,
  events: ClusterEvents,
): (event: TakeoverEvent) => void {
  const tookOver = (counts: Readonly<Record<string, number>>): void => {
    for (const [kind, n] of Object.entries(counts)) metrics.takenOver.inc({ kind }, n);
  };
  return (event) => {
    switch (event.kind) {
      case 'removed': {
        const { backend, family, tables, chains, jumps } = event.leftovers;
        const counts = { tables: tables.length, chains: chains.length, jumps: jumps.length };
        tookOver(counts);
        const about = { family, backend, ...counts };
        const what =
          `${family} (${backend}): ${counts.tables} tables, ` +
          `${counts.chains} chains, ${counts.jumps} jumps`;
        if (event.again) {
          log.warn(about, 'Removed kube-proxy rules that reappeared; is kube-proxy still running?');
          const note = `kube-proxy wrote its rules again (${what}): is it still running on this node?`;
          events.aboutNode('KubeProxyIsBack', note);
        } else {
          log.info(about, 'Took over from kube-proxy; removed its rules');
          events.aboutNode('TookOverFromKubeProxy', `removed kube-proxy's ${what}`);
        }
        return;
      }
      case 'kept': {
        const kept = event.kept.map(({ table, chain, because }) => `${table} ${chain}: ${because}`);
        const { backend, family } = event;
        log.warn(
          { family, backend, kept },
          'Keeping kube-proxy chains that other rules still reference',
        );
        return;
      }
      case 'draining': {
        const { mode, connections } = event;
        const words =
          'Previous mode still has active connections; removing its objects when they end';
        log.info({ mode, connections }, words);
        return;
      }
      case 'replaced': {
        const { mode, by, objects } = event;
        const first = objects.slice(0, namedMax).map(({ object }) => object);
        const about = { mode, by, objects: objects.length, first };
        log.info(about, 'Took over from another mode; removed its objects');
        const note = `removed ${objects.length} objects of mode ${mode}, mode ${by} has taken over`;
        events.aboutNode('ProxyModeReplaced', note);
        return;
      }
      case 'failed': {
        const { of, error, retryMs } = event;
        const about = { of, err: error.message, retryMs };
        log.warn(about, 'Could not remove objects of the previous proxy; retrying');
        return;
      }
      case 'IPVS': {
        const { services, sets, busy, foreign, keptSets } = event.leftovers;
        const counts = { virtualServices: services.length, sets: sets.length };
        tookOver({ 'virtual services': services.length, sets: sets.length });
        const about = { ...counts, draining: busy, foreign, keptSets };
        log.info(about, "Removed kube-proxy's IPVS services, except those with active connections");
        const removed = `removed kube-proxy's ${counts.virtualServices} virtual services of IPVS`;
        const left = busy === 0 ? '' : `; ${busy} go when their connections have ended`;
        events.aboutNode('TookOverFromKubeProxy', `${removed}${left}`);
        return;
      }
      case 'foreign-table': {
        const { table, objects } = event.table;
        metrics.foreignTables.inc();
        const first = objects.slice(0, namedMax);
        const about = { table, objects: objects.length, first };
        log.warn(about, 'Replacing a table of our name that another program created');
        const note =
          `table ${table} was not made by Fairlead and is replaced; it held ${first.join(', ')}` +
          (objects.length > first.length ? ` and ${objects.length - first.length} more` : '');
        events.aboutNode('ForeignTable', note);
        return;
      }
      case 'counters':
        log.info({ counters: event.names }, "Removed kube-proxy's named counters");
        return;
      case 'legacy': {
        const note =
          `programs on this node use iptables-legacy (${event.tables.join('; ')}): let kubelet, the ` +
          'CNI plugin and others use iptables-nft; packets pass the rules of both, but each tool ' +
          'shows and changes only its own';
        log.warn({ note }, 'Rules of iptables-legacy are active in addition to ours');
        events.aboutNode('LegacyIptables', note);
        return;
      }
    }
  };
}
