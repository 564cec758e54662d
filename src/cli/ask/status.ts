/** `fairlead status`: whether the proxy of this node is healthy, and why not. */
import type { Status } from '../../ask/status.ts';
import { age, counted } from '../../ask/words.ts';
import { columns } from '../output.ts';
import { asking } from './command.ts';
import { pairs } from './words.ts';

export const run = asking<'status'>({
  question: 'status',
  query: () => ({}),
  isHealthy: ({ healthy }) => healthy,
  print: (status, { headings }) => {
    const from = headings ? 0 : 1;
    const tables = [families(status), watches(status), setAside(status)];
    const parts = [
      pairs(summary(status)),
      ...tables.flatMap((table) => (table.length > 1 ? [columns(table.slice(from))] : [])),
    ];
    return parts.join('\n');
  },
  steadyLines: (status) => {
    // Without what changes all the time: ages, counts of connections, times of syncs.
    const head = summary({ ...status, conntrack: undefined });
    return [
      ...pairs(head.filter(([name]) => name !== 'Uptime')).split('\n'),
      ...status.families.map(({ family, inForce, lastSync, phase, repairs, waiting }) => {
        const sync =
          lastSync === undefined ? 'never synced' : lastSync.ok ? 'synced' : 'sync failed';
        return `${family}: ${phase}, ${inForce} in force, ${waiting} waiting, ${sync}, ${repairs} repairs`;
      }),
      ...status.watches.map(({ failure, resource, state }) => {
        return `watch of ${resource}: ${state}${failure === undefined ? '' : `, ${failure}`}`;
      }),
      ...setAside(status)
        .slice(1)
        .map(([name, family, , , before, error]) => {
          return `set aside: ${name} of ${family}, before ${before}: ${error}`;
        }),
    ];
  },
});

function summary(status: Status): [string, string][] {
  const { connectTime, conntrack, mode, services, source, uptimeSeconds } = status;
  const server = [source.server ?? 'not known yet', source.serverVersion]
    .filter(Boolean)
    .join(', ');
  const use = conntrack && Math.round((100 * conntrack.entries) / conntrack.limit);
  const waiting = services.waiting > 0 ? `, ${services.waiting} not looked at yet` : '';
  return [
    ['Status', status.healthy ? 'healthy' : 'unhealthy'],
    ...status.problems.map((problem): [string, string] => ['Problem', problem]),
    ...status.remarks.map((remark): [string, string] => ['Remark', remark]),
    ['Node', status.node],
    ['Version', `${status.version}, like kube-proxy ${status.kubernetesVersion}`],
    ['Uptime', `${age(uptimeSeconds)}, since ${status.started}`],
    ['Mode', `${mode.name}: ${mode.because}`],
    ...(connectTime.state === 'off' && connectTime.stale.unknown === undefined
      ? []
      : [['Connect time', connectTimeText(status)] satisfies [string, string]]),
    ['Source', source.kind === 'manifests' ? `manifests in ${source.directory}` : server],
    ['Services', `${services.known}${waiting}`],
    ...(conntrack === undefined
      ? []
      : ([['Conntrack', `${conntrack.entries} of ${conntrack.limit} (${use} %)`]] as const).map(
          ([name, text]): [string, string] => [name, text],
        )),
  ];
}

function staleText({ unknown }: Status['connectTime']['stale']): string[] {
  if (unknown === undefined) return [];
  return [`not known whether an earlier process left programs: ${unknown}`];
}

function connectTimeText({ connectTime: { excludedPods, maps, stale, state } }: Status): string {
  const texts = maps.map(
    ({ family, frontends, endpoints }) =>
      `${family} ${frontends} frontends, ${endpoints} endpoints`,
  );
  return [state, ...texts, ...excludedText(excludedPods), ...staleText(stale)].join('; ');
}

function excludedText(of: Status['connectTime']['excludedPods']): string[] {
  if (of === undefined) return [];
  if (of.pods === undefined) return ['excluded pods are not known'];
  const missing = of.pods - of.excluded;
  const without = missing > 0 ? `, ${missing} without a cgroup` : '';
  return [`${counted(of.excluded, 'pod')} excluded${without}`];
}

type Table = string[][];

function families({ families: all }: Status): Table {
  const heads = ['FAMILY', 'PHASE', 'IN FORCE', 'WAITING', 'LAST SYNC', 'TOOK', 'REPAIRS'];
  const rows = all.map(({ family, inForce, lastSync, phase, repairs, waiting }) => [
    family,
    phase,
    String(inForce),
    String(waiting),
    lastSync === undefined ? 'never' : `${lastSync.time} ${lastSync.ok ? 'succeeded' : 'failed'}`,
    lastSync === undefined ? '' : `${lastSync.durationMs}ms`,
    String(repairs),
  ]);
  return [heads, ...rows];
}

function watches({ watches: all }: Status): Table {
  const heads = ['WATCH', 'STATE', 'LAST WORD', 'FAILURE'];
  const rows = all.map(({ failure, resource, silenceSeconds, state }) => [
    resource,
    state,
    silenceSeconds === undefined ? '' : `${age(silenceSeconds)} ago`,
    failure ?? '',
  ]);
  return [heads, ...rows];
}

function setAside({ setAside: all }: Status): Table {
  const heads = ['SET ASIDE', 'FAMILY', 'TRIES', 'NEXT IN', 'BEFORE', 'ERROR'];
  const rows = all.map((aside) => {
    const { attempts, earlierInForce, error, family, port, protocol, retrySeconds } = aside;
    const name = `${aside.namespace}/${aside.service}:${port === '' ? '' : `${port}/`}${protocol}`;
    const next = retrySeconds === undefined ? 'a change' : age(retrySeconds);
    const before = earlierInForce ? 'in force' : 'none';
    return [name, family, String(attempts), next, before, error];
  });
  return [heads, ...rows];
}
