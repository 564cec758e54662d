/** The page of one Service. */
import type { ServiceAnswer } from '../../ask/service.ts';
import { conditionsOf, goesTo, portTitle } from '../../ask/service-words.ts';
import { joinHostPort } from '../../net/address.ts';
import { changesTable } from './changes.ts';
import { type Content, type Html, html } from './html.ts';
import { list, live, moment, pairs, table } from './parts.ts';

type Port = ServiceAnswer['ports'][number];

export function serviceSection(service: ServiceAnswer, nowMs: number): Html {
  const { changes, name, namespace, portCount, ports, problems } = service;
  const rest = portCount - ports.length;
  return live('service', [
    html`<h2>${namespace}/${name}</h2>`,
    verdict(service),
    problems.length > 1 ? list(problems.slice(1)) : undefined,
    pairs(facts(service)),
    ...ports.map(portPart),
    rest > 0 ? html`<p>and ${rest} more ports</p>` : undefined,
    changes.length > 0 ? [html`<h3>Recent changes</h3>`, changesTable(changes, nowMs)] : undefined,
  ]);
}

function verdict({ problems, state }: ServiceAnswer): Html {
  const [first] = problems;
  if (first !== undefined) {
    return html`<p class="verdict bad"><strong class="bad">Unhealthy.</strong> ${first}</p>`;
  }
  const words = {
    'in force': 'All of it is in force.',
    waiting: 'A change of it is not in the kernel yet.',
    'set aside': 'The kernel refuses it.',
  };
  return html`<p class="verdict"><strong class="good">Healthy.</strong> ${words[state]}</p>`;
}

function facts(service: ServiceAnswer): [string, Content][] {
  const { affinitySeconds, clusterIPs, created, healthCheckNodePort, sourceRanges, type } = service;
  const { externalTrafficPolicy: external, internalTrafficPolicy: internal } = service;
  return [
    ['Type', type],
    ...(created === undefined ? [] : [['Made', moment(created)] satisfies [string, Content]]),
    ['ClusterIPs', clusterIPs.join(', ')],
    ['Traffic policies', `internal ${internal}, external ${external}`],
    ...factIf('Affinity', affinitySeconds && `ClientIP, ${affinitySeconds} s`),
    ...factIf('Clients', sourceRanges.length > 0 && sourceRanges.join(', ')),
    ...factIf('Health', healthCheckNodePort && `on node port ${healthCheckNodePort}`),
  ];
}

function factIf(name: string, text: string | number | false | undefined): [string, string][] {
  return text ? [[name, String(text)]] : [];
}

function portPart(port: Port): Content {
  const { cluster, endpointCount, endpoints, family, frontends, kernel, local, remarks, state } =
    port;
  const moreFrontends = port.frontendCount - frontends.length;
  const title = `${portTitle(port)}, ${family}`;
  const rest = endpointCount - endpoints.length;
  return [
    html`<h3>${title}</h3>
<p>${state}; ${Math.max(cluster, local)} of ${endpointCount} endpoints used</p>`,
    remarks.length > 0 ? list(remarks) : undefined,
    frontendsTable(port, `Frontends of ${title}`, frontends),
    moreFrontends > 0 ? html`<p>and ${moreFrontends} more</p>` : undefined,
    endpoints.length > 0 ? endpointsTable(`Endpoints of ${title}`, endpoints) : undefined,
    rest > 0 ? html`<p>and ${rest} more</p>` : undefined,
    kernel.length > 0 ? html`<p>In the kernel:</p><pre>${kernel.join('\n')}</pre>` : undefined,
  ];
}

function frontendsTable(port: Port, label: string, frontends: Port['frontends']): Html {
  const heads = [
    { name: 'Frontend' },
    { name: 'Kind', kind: 'later' },
    { name: 'Goes to' },
  ] as const;
  const rows = frontends.map((one) => {
    const goes = goesTo(port, one);
    const at =
      one.address === undefined ? `node port ${one.port}` : joinHostPort(one.address, one.port);
    return [at, one.kind, isLost(port, one) ? html`<span class="bad">${goes}</span>` : goes];
  });
  return table(label, { heads, rows });
}

/** Whether some connections to the frontend reach no endpoint. */
function isLost({ local }: Port, { heldBy, treatment }: Port['frontends'][number]): boolean {
  if (heldBy !== undefined || treatment === 'reject' || treatment === 'drop') return true;
  return treatment === 'external-local' && local === 0;
}

function endpointsTable(label: string, endpoints: Port['endpoints']): Html {
  const heads = [
    { name: 'Endpoint' },
    { name: 'Conditions' },
    { name: 'Node', kind: 'later' },
    { name: 'Zone', kind: 'later' },
    { name: 'Used by' },
    { name: 'Why not' },
  ] as const;
  const rows = endpoints.map((one) => [
    joinHostPort(one.address, one.port),
    conditionsOf(one),
    `${one.node ?? 'not known'}${one.local ? ' (this one)' : ''}`,
    one.zone,
    one.usedBy.length === 0 ? 'nobody' : one.usedBy.join(', '),
    one.because,
  ]);
  return table(label, { heads, rows });
}
