/** `fairlead service show`: what a Service means on this node, and why. */
import type { ServiceAnswer } from '../../ask/service.ts';
import {
  conditionsOf,
  endpointsChanged,
  goesTo,
  portTitle,
  whatChanged,
} from '../../ask/service-words.ts';
import { namespaceOption } from '../../config/commands.ts';
import { joinHostPort } from '../../net/address.ts';
import { printable } from '../../serve/printable.ts';
import { columns } from '../output.ts';
import type { AskCommand } from './command.ts';
import { UsageError } from './options.ts';
import { pairs } from './words.ts';

type Port = ServiceAnswer['ports'][number];
type Frontend = Port['frontends'][number];

export const showCommand: AskCommand<'service'> = {
  question: 'service',
  options: namespaceOption,
  query: ({ values, words }) => {
    const [word, ...more] = words;
    if (word === undefined) throw new UsageError('which Service? [NAMESPACE/]NAME[:PORT]');
    if (more.length > 0) throw new UsageError(`unknown argument "${more[0]}"`);
    const [subject = '', port] = word.split(':', 2);
    const [name = '', namespace = values.namespace] = subject.split('/', 2).reverse();
    return { name, ...(namespace && { namespace }), ...(port && { port }) };
  },
  isHealthy: ({ problems }) => problems.length === 0,
  print: (service, wide) => {
    const parts = [pairs(head(service)), ...service.ports.map((port) => portText(port, wide))];
    const rest = service.portCount - service.ports.length;
    if (rest > 0) parts.push(`and ${rest} more ports: ask for one as NAME:PORT\n`);
    if (service.changes.length > 0) parts.push(columns(changes(service)));
    return parts.join('\n');
  },
};

function head(service: ServiceAnswer): [string, string][] {
  const { affinitySeconds, created, healthCheckNodePort, sourceRanges, state, type } = service;
  const { externalTrafficPolicy: external, internalTrafficPolicy: internal } = service;
  return [
    ['Service', `${service.namespace}/${service.name}`],
    ['Type', created === undefined ? type : `${type}, made ${created}`],
    ['State', state],
    ...service.problems.map((problem): [string, string] => ['Problem', problem]),
    ['ClusterIPs', service.clusterIPs.join(', ')],
    ['Policies', `internal ${internal}, external ${external}`],
    ...lineIf('Affinity', affinitySeconds && `ClientIP, ${affinitySeconds} s`),
    ...lineIf('Clients', sourceRanges.length > 0 && sourceRanges.join(', ')),
    ...lineIf('Health', healthCheckNodePort && `on node port ${healthCheckNodePort}`),
  ];
}

function lineIf(name: string, text: string | number | false | undefined): [string, string][] {
  return text ? [[name, String(text)]] : [];
}

function portText(port: Port, wide: boolean): string {
  const { cluster, endpointCount, family, frontendCount, local, state } = port;
  const used = Math.max(cluster, local);
  const title = `Port ${portTitle(port)} in ${family}`;
  const moreFrontends = frontendCount - port.frontends.length;
  const rest = endpointCount - port.endpoints.length;
  return [
    `${printable(title)}: ${state}, ${used} of ${endpointCount} endpoints used\n`,
    ...port.remarks.map((remark) => `  ${printable(remark)}\n`),
    indented(
      columns([['FRONTEND', 'AT', 'GOES TO'], ...port.frontends.map((one) => frontend(one, port))]),
    ),
    ...(moreFrontends > 0 ? [`  and ${moreFrontends} more\n`] : []),
    ...(port.endpoints.length > 0 ? [indented(columns(endpoints(port, wide)))] : []),
    ...(rest > 0 ? [`  and ${rest} more\n`] : []),
    ...(port.kernel.length > 0 ? ['  IN THE KERNEL\n'] : []),
    ...port.kernel.map((line) => `  ${printable(line)}\n`),
  ].join('');
}

function indented(text: string): string {
  return text.replace(/^(?=.)/gm, '  ');
}

function frontend(one: Frontend, port: Port): string[] {
  const { address, kind } = one;
  const at = joinHostPort(address ?? '*', one.port);
  return [kind, at, goesTo(port, one)];
}

function endpoints(port: Port, wide: boolean): string[][] {
  const heads = ['ENDPOINT', 'CONDITIONS', 'NODE', 'ZONE', 'USED BY', 'WHY NOT'];
  const rows = port.endpoints.map((one) => {
    const { because, local, node, usedBy, zone } = one;
    const hints = [one.nodeHints, ...(one.zoneHints ?? [])].filter(Boolean).join(',');
    const cells = [
      joinHostPort(one.address, one.port),
      conditionsOf(one),
      `${node ?? '?'}${local ? ' (this)' : ''}`,
      zone ?? '?',
      usedBy.length === 0 ? 'nobody' : usedBy.join(','),
      because ?? '',
    ];
    return wide ? [...cells, hints] : cells;
  });
  return [wide ? [...heads, 'HINTS'] : heads, ...rows];
}

function changes({ changes: all }: ServiceAnswer): string[][] {
  const heads = ['CHANGED', 'PORT', 'FAMILY', 'WHAT', 'ENDPOINTS', 'TOOK'];
  const rows = all.map((change) => {
    const { family, latencyMs, port, protocol } = change;
    return [
      change.time,
      port === '' ? protocol : `${port}/${protocol}`,
      family,
      whatChanged(change),
      endpointsChanged(change),
      latencyMs === undefined ? '' : `${latencyMs}ms`,
    ];
  });
  return [heads, ...rows];
}
