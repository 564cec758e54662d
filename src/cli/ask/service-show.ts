/** `fairlead service show`: what a Service means on this node, and why. */
import type { ServiceAnswer } from '../../ask/service.ts';
import {
  conditionsOf,
  endpointsChanged,
  goesTo,
  portTitle,
  whatChanged,
} from '../../ask/service-words.ts';
import { splitHostPort } from '../../config/host-port.ts';
import { joinHostPort, parseAddress } from '../../net/address.ts';
import { printable } from '../../serve/printable.ts';
import type { Given } from '../command.ts';
import { columns } from '../output.ts';
import type { Query } from './client.ts';
import { asking, type Form } from './command.ts';
import { readServiceName } from './names.ts';
import { pairs } from './words.ts';

type Port = ServiceAnswer['ports'][number];
type Frontend = Port['frontends'][number];

export const run = asking<'service'>({
  question: 'service',
  query: (given) => queryOf(given.words[0]!, given),
  names: ({ name, namespace }) => [`${namespace}/${name}`],
  isHealthy: ({ problems }) => problems.length === 0,
  print: (service, form) => {
    const parts = [pairs(head(service)), ...service.ports.map((port) => portText(port, form))];
    const rest = service.portCount - service.ports.length;
    if (rest > 0) parts.push(`and ${rest} more ports: ask for one as NAME:PORT\n`);
    if (service.changes.length > 0) parts.push(tableText(changes(service), form));
    return parts.join('\n');
  },
});

/** Throws a UsageError. */
function queryOf(word: string, given: Given): Query<'service'> {
  const host = splitHostPort(word);
  const address = host?.host ?? word.replace(/^\[(.*)\]$/, '$1');
  if (parseAddress(address) !== undefined) {
    return { address, ...(host && { port: host.port }) };
  }
  const [subject = '', port] = word.split(':', 2);
  const { name, namespace } = readServiceName(subject, given);
  return { name, ...(namespace && { namespace }), ...(port && { port }) };
}

function tableText(table: readonly (readonly string[])[], { headings }: Form): string {
  return columns(headings ? table : table.slice(1));
}

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

function portText(port: Port, form: Form): string {
  const { cluster, endpointCount, family, frontendCount, local, state } = port;
  const used = Math.max(cluster, local);
  const title = `Port ${portTitle(port)} in ${family}`;
  const moreFrontends = frontendCount - port.frontends.length;
  const rest = endpointCount - port.endpoints.length;
  return [
    `${printable(title)}: ${state}, ${used} of ${endpointCount} endpoints used\n`,
    ...port.remarks.map((remark) => `  ${printable(remark)}\n`),
    indented(
      tableText(
        [['FRONTEND', 'AT', 'GOES TO'], ...port.frontends.map((one) => frontend(one, port))],
        form,
      ),
    ),
    ...(moreFrontends > 0 ? [`  and ${moreFrontends} more\n`] : []),
    ...(port.endpoints.length > 0 ? [indented(tableText(endpoints(port, form.wide), form))] : []),
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
