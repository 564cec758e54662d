/** How the proxy of this node is doing, on the page: one sentence, then the problems. */
import type { ChangeList } from '../../ask/service.ts';
import type { Status } from '../../ask/status.ts';
import { age, counted } from '../../ask/words.ts';
import { type Content, type Html, html } from './html.ts';
import { list, live, moment, pairs, table } from './parts.ts';

type Change = ChangeList['items'][number];

export function verdict(status: Status, last: Change | undefined, nowMs: number): Html {
  const { problems, remarks, setAside, healthy } = status;
  const troubled = troubledServices(status);
  const sentence = healthy
    ? html`<strong class="good">Proxy healthy.</strong> ${summary(status)}${lastChange(last, nowMs)}.`
    : html`<strong class="bad">Proxy unhealthy.</strong> ${problems[0]}${troubled && [' ', troubled, '.']}`;
  return live('status', [
    html`<p class="verdict${healthy ? '' : ' bad'}">${sentence}</p>`,
    problems.length > 1 ? list(problems.slice(1)) : undefined,
    remarks.length > 0 ? html`<h2>Worth knowing</h2>${list(remarks)}` : undefined,
    setAside.length > 0 ? refused(setAside) : undefined,
  ]);
}

function summary(status: Status): Content {
  const { families, services } = status;
  const { known } = services;
  const waiting = Math.max(services.waiting, ...families.map((family) => family.waiting));
  const wait = `${waiting.toLocaleString('en')} of ${counted(known, 'Service')} wait`;
  const troubled = troubledServices(status);
  if (troubled !== undefined) return waiting > 0 ? [troubled, `; ${wait}`] : troubled;
  if (waiting > 0) return wait;
  return known === 1
    ? 'The only Service is in force'
    : `All ${counted(known, 'Service')} are in force`;
}

/** `6 Services have problems`; undefined: none has. */
function troubledServices({ services: { withProblems } }: Status): Html | undefined {
  if (withProblems === 0) return undefined;
  const text = `${counted(withProblems, 'Service')} ${withProblems === 1 ? 'has' : 'have'} problems`;
  return html`<a href="/?state=unhealthy#services">${text}</a>`;
}

function lastChange(change: Change | undefined, nowMs: number): string {
  if (change?.latencyMs === undefined) return '';
  const since = age((nowMs - Date.parse(change.time)) / 1000);
  return `; the last change, ${since} ago, took ${change.latencyMs} ms`;
}

function refused(setAside: Status['setAside']): Content {
  const rows = setAside.map((aside) => {
    const { earlierInForce, error, family, namespace, port, protocol, retrySeconds } = aside;
    return [
      `${namespace}/${aside.service}:${port === '' ? '' : `${port}/`}${protocol}`,
      error,
      family,
      retrySeconds === undefined ? 'when it changes' : `in ${age(retrySeconds)}`,
      earlierInForce ? 'what was before' : 'nothing',
    ];
  });
  const heads = [
    { name: 'Service port' },
    { name: 'Why' },
    { name: 'Family', kind: 'later' },
    { name: 'Tried again' },
    { name: 'In force', kind: 'later' },
  ] as const;
  return html`<h2>Refused by the kernel</h2>${table('Refused by the kernel', { heads, rows })}`;
}

/** The rest of what is known of the node. */
export function nodeSection(status: Status): Html {
  return live('node', [
    html`<h2>This node</h2>`,
    pairs(facts(status)),
    html`<h3>Families</h3>`,
    families(status),
    ...(status.watches.length > 0 ? [html`<h3>Watches</h3>`, watches(status)] : []),
  ]);
}

function facts(status: Status): [string, Content][] {
  const { conntrack, mode, source, started, uptimeSeconds, version } = status;
  const server = [source.server ?? 'not known yet', source.serverVersion].filter(Boolean);
  return [
    ['Version', `${version}, like kube-proxy ${status.kubernetesVersion}`],
    ['Uptime', html`${age(uptimeSeconds)}, since ${moment(started)}`],
    ['Mode', `${mode.name}: ${mode.because}`],
    [
      'Source',
      source.kind === 'manifests' ? `manifests in ${source.directory}` : server.join(', '),
    ],
    ...(conntrack === undefined ? [] : [conntrackFact(conntrack)]),
  ];
}

function conntrackFact({ entries, limit }: NonNullable<Status['conntrack']>): [string, string] {
  const share = Math.round((100 * entries) / limit);
  const [some, most] = [entries, limit].map((count) => count.toLocaleString('en'));
  return ['Connections', `${some} tracked of ${most} (${share} %)`];
}

function families(status: Status): Html {
  const heads = [
    { name: 'Family' },
    { name: 'Phase' },
    { name: 'Ports in force', kind: 'number' },
    { name: 'Waiting', kind: 'number' },
    { name: 'Last sync' },
    { name: 'Took', kind: 'number' },
    { name: 'Repairs', kind: 'number' },
  ] as const;
  const rows = status.families.map(({ family, inForce, lastSync, phase, repairs, waiting }) => [
    family,
    phase,
    inForce.toLocaleString('en'),
    waiting.toLocaleString('en'),
    lastSync && [moment(lastSync.time), lastSync.ok ? '' : html` <span class="bad">failed</span>`],
    lastSync && `${lastSync.durationMs} ms`,
    repairs,
  ]);
  return table('Families', { heads, rows });
}

function watches(status: Status): Html {
  const heads = [{ name: 'Watch' }, { name: 'State' }, { name: 'Last word' }, { name: 'Failure' }];
  const rows = status.watches.map(({ failure, resource, silenceSeconds, state }) => [
    resource,
    state === 'missing' || state === 'silent' ? html`<span class="bad">${state}</span>` : state,
    silenceSeconds === undefined ? undefined : `${age(silenceSeconds)} ago`,
    failure,
  ]);
  return table('Watches', { heads, rows });
}
